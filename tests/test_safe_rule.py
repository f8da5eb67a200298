"""Commands that our tables do not know: what the server's own key specifications say of them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.containers import AnyServer
from tests.redis_client import Client
from ttlproxy.caller import Caller
from ttlproxy.commands import Call, KeySpec, Native, Rules, natives, rules
from ttlproxy.keys import Keys
from ttlproxy.registry import Registry
from ttlproxy.rights import Rights
from ttlproxy.scripts import Scripts
from ttlproxy.session import Session
from ttlproxy.wire import Requests, encode

FAR_MS = 1 << 50

# Rows whose keys the server describes as it should, each with a request.
REQUESTS = """
SETEX k 100 v
PSETEX k 100000 v
MSET k v
BITOP OR k a b
RESTORE k 0 x REPLACE
SUNIONSTORE k a b
SDIFFSTORE k a b
ZUNIONSTORE k 2 a b WEIGHTS 1 2
ZINTERSTORE k 1 a
ZDIFFSTORE k 2 a b
ZRANGESTORE k a 0 -1
GEOSEARCHSTORE k a FROMLONLAT 1 2 BYRADIUS 3 km
GEORADIUS a 1 2 3 km STORE k
GEORADIUSBYMEMBER a m 3 km STOREDIST k
SORT a ALPHA STORE k
"""


@pytest.fixture
def described(direct: Client, server: AnyServer) -> list[Native]:
    """The server's commands, if it says of them how they use their keys."""
    if server.name == "6.2":
        pytest.skip("Redis says how it uses keys from 7.0 on")
    return list(natives(direct.ask("COMMAND")))


@pytest.fixture
def without(described: list[Native], monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Rules]:
    """The rules of a proxy whose tables lack this row."""

    def made(name: str) -> Rules:
        monkeypatch.delitem(rules.OVERRIDES, name)
        return Rules(described)

    return made


def _session(rules: Rules, registry: Registry) -> Session:
    caller = Caller(Scripts(b"__ttl:"), Keys(), bytes)
    return Session(rules, caller, registry, Rights(), lambda: 0, 1 << 30)


def _planned(rules: Rules, words: list[bytes]) -> Call:
    override = rules.find(words[0]).override
    assert override
    assert override.keys(words) == [b"k"]
    return override.plan(words)


@pytest.mark.parametrize("line", REQUESTS.strip().splitlines())
def test_a_forgotten_command_that_replaces_keys_is_known_by_the_server_s_description(
    described: list[Native], without: Callable[[str], Rules], line: str
) -> None:
    words = line.encode().split()
    expected = _planned(Rules(described), words)
    found = _planned(without(line.split()[0]), words)
    assert (found.script, found.argv) == (expected.script, expected.argv)
    assert (found.keys[0], {*found.keys}) == (b"k", {*expected.keys})


def test_a_forgotten_command_drops_the_deadlines_of_what_it_replaced(
    direct: Client, without: Callable[[str], Rules]
) -> None:
    rules, registry, index = without("SUNIONSTORE"), Registry(), Keys().index(b"k")
    registry.announced(0, b"k", FAR_MS)
    direct.ask("SADD", "k", "a")
    direct.ask("ZADD", index, FAR_MS, "a")
    session = _session(rules, registry)
    (request,) = Requests().feed(session.from_client(encode((b"SUNIONSTORE", b"k", b"k"))))
    assert request[0] == b"EVAL"
    assert direct.ask(*request) == 1
    assert direct.ask("EXISTS", index) == 0


def test_a_forgotten_write_is_reaped_first_and_swept_afterwards(
    without: Callable[[str], Rules],
) -> None:
    registry = Registry()
    registry.announced(0, b"s", -1)
    session = _session(without("SREM"), registry)
    request = encode((b"SREM", b"s", b"a"))
    assert session.from_client(request) == request
    assert session.reap == {(0, b"s")}
    assert session.sweep == {b"s"}


def test_a_forgotten_read_is_reaped_first_and_not_swept(described: list[Native]) -> None:
    registry = Registry()
    registry.announced(0, b"s", -1)
    session = _session(Rules(described), registry)
    request = encode((b"SINTERCARD", b"2", b"x", b"s"))
    assert session.from_client(request) == request
    assert session.reap == {(0, b"s")}
    assert not session.sweep


def test_what_no_script_can_run_is_swept_all_the_same() -> None:
    flags = frozenset({"write", "noscript"})
    rule = Rules([Native("MINE", -2, flags, (KeySpec("OW"),))]).find(b"mine")
    assert rule.override is None
    assert rule.written([b"mine", b"k"]) == [b"k"]
