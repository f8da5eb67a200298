"""Commands that our tables do not know: what the server's own key specifications say about them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.support.command_docs import KEYS, requests
from tests.support.containers import AnyServer
from tests.support.native_commands import REASONS
from tests.support.processes import wait_until
from tests.support.raw_client import Connection, command
from tests.support.redis_client import Client
from tests.support.redis_content import read
from tests.support.request_streams import names
from tests.support.servers import Proxy
from tests.support.session_world import NOW_MS, read_registry
from ttlproxy.commands import Call, KeySpec, Native, Router, natives, router
from ttlproxy.core.counters import Handled
from ttlproxy.core.keys import Keys
from ttlproxy.core.permissions import Rights
from ttlproxy.core.registry import Registry
from ttlproxy.scripts import Scripts
from ttlproxy.scripts.script_calls import ScriptCalls
from ttlproxy.session import Session
from ttlproxy.wire import Requests, encode

FAR_MS = 1 << 50

# Rows whose keys the server describes correctly, each with a request.
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
    """The server's commands, if it says how they use their keys."""
    if server.name == "6.2":
        pytest.skip("Redis says how it uses keys from 7.0 on")
    return list(natives(direct.ask("COMMAND")))


@pytest.fixture
def without(described: list[Native], monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Router]:
    """The router of a proxy whose tables lack this row."""

    def made(name: str) -> Router:
        monkeypatch.delitem(router.OVERRIDES, name)
        return Router(described)

    return made


def _session(rules: Router, registry: Registry) -> Session:
    script_calls = ScriptCalls(Scripts(b"__ttl:"), Keys(), bytes)
    view, rights, counts = registry.view((0,)), Rights(), Handled()
    return Session(rules, script_calls, view, rights, lambda: NOW_MS, 1 << 30, counts, lambda: True)


def _planned(rules: Router, words: list[bytes]) -> Call:
    override = rules.find(words[0]).override
    assert override
    assert override.keys(words) == [b"k"]
    return override.plan(words)


@pytest.mark.parametrize("line", REQUESTS.strip().splitlines())
def test_a_forgotten_command_that_replaces_keys_is_known_by_the_server_s_description(
    described: list[Native], without: Callable[[str], Router], line: str
) -> None:
    words = line.encode().split()
    expected = _planned(Router(described), words)
    found = _planned(without(line.split()[0]), words)
    assert (found.script, found.argv) == (expected.script, expected.argv)
    assert (found.keys[0], {*found.keys}) == (b"k", {*expected.keys})


def test_a_forgotten_command_drops_the_deadlines_of_what_it_replaced(
    direct: Client, without: Callable[[str], Router]
) -> None:
    rules, registry, index = without("SUNIONSTORE"), read_registry(), Keys().index(b"k")
    registry.announced(0, b"k", FAR_MS)
    direct.ask("SADD", "k", "a")
    direct.ask("ZADD", index, FAR_MS, "a")
    session = _session(rules, registry)
    (request,) = Requests().feed(session.from_client(encode((b"SUNIONSTORE", b"k", b"k"))).to_redis)
    assert request[0] == b"EVAL"
    assert direct.ask(*request) == 1
    assert direct.ask("EXISTS", index) == 0


def test_a_forgotten_write_is_reaped_first_and_swept_afterwards(
    without: Callable[[str], Router],
) -> None:
    registry = read_registry()
    registry.announced(0, b"s", NOW_MS - 1)
    session = _session(without("SREM"), registry)
    request = encode((b"SREM", b"s", b"a"))
    step = session.from_client(request)
    assert step.to_redis == request
    assert step.reap_places == {(0, b"s")}
    assert step.sweep_after == {b"s"}


def test_a_forgotten_read_is_reaped_first_and_not_swept(described: list[Native]) -> None:
    registry = read_registry()
    registry.announced(0, b"s", NOW_MS - 1)
    session = _session(Router(described), registry)
    request = encode((b"SINTERCARD", b"2", b"x", b"s"))
    step = session.from_client(request)
    assert step.to_redis == request
    assert step.reap_places == {(0, b"s")}
    assert not step.sweep_after


def test_what_no_script_can_run_is_swept_all_the_same() -> None:
    flags = frozenset({"write", "noscript"})
    rule = Router([Native("MINE", -2, flags, (KeySpec("OW"),))]).find(b"mine")
    assert rule.override is None
    assert rule.written([b"mine", b"k"]) == [b"k"]


# --- every command of the server, built from COMMAND DOCS


def _with_keys(direct: Client) -> Iterator[tuple[list[bytes], dict[bytes, set[str]]]]:
    """Requests for all commands with keys, each with its keys and what it does to them."""
    for words in requests(direct):
        found: Any = direct.ask("COMMAND", "GETKEYSANDFLAGS", *words)
        if isinstance(found, list):
            yield words, {key: {flag.decode() for flag in flags} for key, flags in found}


def _said(words: list[bytes]) -> str:
    return b" ".join(words).decode()


def test_every_command_of_the_server_has_its_keys_reaped_and_swept_if_it_may_write_them(
    direct: Client, described: list[Native]
) -> None:
    natives_by_name = {native.name: native for native in described}
    rules = Router(natives_by_name.values())
    seen = 0
    for words, keys in _with_keys(direct):
        registry = read_registry()
        for key in keys:
            registry.announced(0, key, NOW_MS - 1)
        session = _session(rules, registry)
        request = encode(tuple(words))
        step = session.from_client(request)
        is_rewritten = step.to_redis != request
        assert step.reap_places >= {(0, key) for key in keys}, _said(words)
        native = natives_by_name[words[0].decode()]
        flags = native.subcommands.get(words[1], native).flags
        if "readonly" in flags:
            assert not step.sweep_after, _said(words)
        elif "write" in flags and not is_rewritten and native.name != "HINCRBY":
            assert step.sweep_after >= {key for key in keys if "RO" not in keys[key]}, _said(words)
        seen += 1
    assert seen > 200


# Fills a key of a type, sets a deadline, reads the key.
FILLS: dict[str, tuple[tuple[str, ...], str, tuple[str, ...]]] = {
    "hash": (("HSET", "x", "1", "y", "2"), "HEXPIREATFIELD", ("HGETALL",)),
    "set": (("SADD", "x", "y"), "SEXPIREATMEMBER", ("SMEMBERS",)),
    "zset": (("ZADD", "1", "x", "2", "y"), "ZEXPIREATMEMBER", ("ZRANGE", "0", "-1", "WITHSCORES")),
    "list": (("RPUSH", "x", "y", "x"), "LEXPIREATELEMENT", ("LRANGE", "0", "-1")),
}
FAR_S = 4_102_444_800


def _is_known(words: list[bytes]) -> bool:
    """Whether the differential test sends it, or our tables have it."""
    name, full = words[0].decode(), b"|".join(words[:2]).decode()
    return not {name, full}.isdisjoint(
        names() | REASONS.keys() | router.OVERRIDES.keys() | router.VIRTUALS.keys()
    )


@pytest.mark.parametrize(("kind", "in_multi"), [*((kind, False) for kind in FILLS), ("hash", True)])
def test_a_command_that_our_tables_do_not_know_meets_a_managed_key(
    direct: Client, server: AnyServer, plain: AnyServer, proxy: Proxy, kind: str, in_multi: bool
) -> None:
    """Its reply is that of a server without deadlines, and internal content stays consistent."""
    (fill, *content), deadline, (look, *rest) = FILLS[kind]
    databases = [Client(server.port, db) for db in range(2)]
    for words, keys in _with_keys(direct):
        if _is_known(words):
            continue
        replies = []
        for port in (plain.port, proxy.port):
            with Connection(port) as app:
                app.ask("FLUSHALL")
                for key in KEYS[:2]:
                    assert app.ask(fill, key, *content).startswith(b":"), key
                    if port == proxy.port:
                        assert app.ask(deadline, key, "y", FAR_S) == b":1\r\n"
                said = [[b"MULTI"], words, [b"EXEC"]] if in_multi else [words]
                replies.append([app.ask(*each) for each in said])
                replies[-1] += [app.ask(look, key, *rest) for key in keys]
        assert replies[1] == replies[0], _said(words)
        wait_until(lambda: not read(databases, (7, 0)).faults, f"order after {_said(words)}")
    for each in databases:
        each.close()


def test_what_only_newer_servers_have_is_refused_by_others_in_their_own_words(
    proxy: Proxy, plain: AnyServer
) -> None:
    replies = []
    for port in (plain.port, proxy.port):
        with Connection(port) as app:
            app.ask("SADD", "k", "a")
            app.ask("SEXPIREMEMBER", "k", "a", 100)
            replies.append([app.ask("DELEX", "k"), app.ask("MSETEX", 1, "k", "v")])
    assert replies[1] == replies[0]


def test_what_comes_after_a_new_kind_of_deletion_has_no_old_deadline(proxy: Proxy) -> None:
    with Connection(proxy.port) as app:
        app.ask("HSET", "k", "a", 1)
        assert app.ask("HEXPIREATFIELD", "k", "a", FAR_S) == b":1\r\n"
        said = ["DELEX k", "HINCRBY k a 5", "HTTLFIELD k a"]
        app.send(b"".join(command(*line.split()) for line in said))
        replies = app.read_many(3)
        if replies[0].startswith(b"-"):
            pytest.skip("this server has no DELEX")
        assert replies == [b":1\r\n", b":5\r\n", b":-1\r\n"]


def test_an_imported_hash_is_swept_of_the_deadlines_of_what_it_replaced(
    server: AnyServer, proxy: Proxy
) -> None:
    with Connection(proxy.port) as app:
        if app.ask("HIMPORT", "PREPARE", "set", "x", "y") != b"+OK\r\n":
            pytest.skip("this server has no HIMPORT")
        app.ask("HSET", "k", "a", 1, "b", 2)
        assert app.ask("HEXPIREATFIELD", "k", "a", FAR_S) == b":1\r\n"
        assert app.ask("HIMPORT", "SET", "k", "set", 3, 4) == b"+OK\r\n"
    databases = [Client(server.port, db) for db in range(2)]
    wait_until(lambda: not read(databases, (7, 0)).faults, "order")
    for each in databases:
        each.close()
