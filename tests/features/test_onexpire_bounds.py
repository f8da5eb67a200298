"""How much one call of the reap script hands on, and what happens if a rule cannot be read."""

from __future__ import annotations

import pytest

from tests.conftest import StartProxy, StartServer
from tests.support.processes import wait_until
from tests.support.redis_client import Client
from ttlproxy.commands import Call
from ttlproxy.core.keys import DEFAULT_PREFIX, Keys
from ttlproxy.core.signing import Signer
from ttlproxy.scripts import Scripts
from ttlproxy.scripts.script_calls import ScriptCalls

pytestmark = pytest.mark.usefixtures("no_reaper")

KEYS = Keys()
# In µs.
LONG = b"60000000"


def _date(direct: Client, key: bytes, elements: list[bytes]) -> None:
    direct.ask("ZADD", KEYS.index(key), *(word for element in elements for word in (1, element)))


def _reap(direct: Client, keys: list[bytes], others: list[bytes], *actions: bytes) -> None:
    """One call, as if these rules existed; actions: three words for each key."""
    signer = Signer(b"")
    if any(KEYS.deferring(key) for key in keys):
        # A proxy writes it again after the flush before this test.
        wait_until(lambda: direct.ask("HGET", KEYS.state, "secret"), "the secret is there")
        signer = Signer(direct.ask("HGET", KEYS.state, "secret"))
    pads = signer.pads
    words = [word for at in range(0, len(actions), 3) for word in (*actions[at : at + 3], b"", b"")]
    argv = (b"20", LONG, b"", *pads, b"", b"%d" % len(keys), *words)
    call = Call("reap", (*keys, *others), argv)
    direct.ask(*ScriptCalls(Scripts(DEFAULT_PREFIX), KEYS, bytes).words(call, b"0"))


def test_json_of_what_is_not_ascii_is_made_of_a_little_in_each_call(direct: Client) -> None:
    """JSON costs 15 ns for an ASCII byte, and a hundred times that for others."""
    fields = [b"f%02d" % number for number in range(20)]
    direct.ask("HSET", "h", *(word for field in fields for word in (field, bytes(range(256)) * 16)))
    _date(direct, b"h", fields)
    _reap(direct, [b"h"], [b"late"], b"RPUSH EVENT 0", b"late", b"")
    assert 1 <= direct.ask("LLEN", "late") < 5
    assert direct.ask("HLEN", "h") == 20 - direct.ask("LLEN", "late")
    assert direct.ask("ZCARD", KEYS.index(b"h")) == direct.ask("HLEN", "h")


def test_what_is_due_in_a_long_list_is_handed_on_in_one_walk(direct: Client) -> None:
    """This holds whatever the limit: finding a few of them costs as much as finding all."""
    values = [b"%d" % number for number in range(1000)]
    direct.ask("RPUSH", "l", *values)
    _date(direct, b"l", values[::10])
    _reap(direct, [b"l"], [b"late"], b"RPUSH - 0", b"late", b"")
    assert direct.ask("LRANGE", "late", 0, -1) == sorted(values[::10])
    assert direct.ask("LLEN", "l") == 900


def test_deferred_commands_of_many_words_are_carried_out_a_few_in_each_call(
    client: Client, direct: Client
) -> None:
    for number in range(10):
        client.ask("DEFER", "EX", 1000, "ID", number, "RPUSH", "q", *["x"] * 2000)
    later = KEYS.deferred(b"q")
    _date(direct, later, [b"%d" % number for number in range(10)])
    _reap(direct, [later], [b"q"])
    assert 2000 <= direct.ask("LLEN", "q") <= 6000
    assert direct.ask("HLEN", later) == 10 - direct.ask("LLEN", "q") // 2000


@pytest.mark.usefixtures("no_reaper")
def test_a_call_that_may_hand_on_no_more_carries_out_nothing_that_is_deferred(
    client: Client, direct: Client
) -> None:
    """Else it would exceed its limit by one, and would read all that is due in the next key."""
    client.ask("DEFER", "EX", 1000, "ID", "a", "RPUSH", "q", "x")
    later, keys = KEYS.deferred(b"q"), [b"s%02d" % number for number in range(13)]
    for key, many in zip(keys, [20] * 12 + [10], strict=True):
        members = [b"%d" % number for number in range(many)]
        direct.ask("SADD", key, *members)
        _date(direct, key, members)
    action = (b"RPUSH - 0", b"late", b"")
    _date(direct, later, [b"a"])  # last: the proxy knows the key, and may look at it at any time
    _reap(direct, [*keys, later], [b"late", b"q"], *action * len(keys), b"", b"", b"")
    assert direct.ask("LLEN", "late") <= 250
    assert direct.ask("EXISTS", "q") == 0
    assert direct.ask("HEXISTS", later, "a") == 1  # a client's request would carry it out


@pytest.mark.parametrize("remove", ["DEL", "UNLINK"])
def test_a_key_that_is_reaped_and_deleted_in_one_call_leaves_nothing(
    client: Client, direct: Client, remove: str
) -> None:
    for key in ("before", "k", "after"):
        client.ask("SADDEX", key, "EX", 100, "MEMBERS", 2, "a", "b")
        _date(direct, key.encode(), [b"b"])
        direct.ask("ZADD", KEYS.schedule, 1, key)
    client.ask("DEFER", "EX", 1000, "ID", "a", remove, "k")
    later = KEYS.deferred(b"k")
    _date(direct, later, [b"a"])
    _reap(direct, [b"before", b"k", b"after", later], [b"k"])
    assert direct.ask("EXISTS", "k", KEYS.index(b"k"), later) == 0
    schedule = direct.ask("ZRANGE", KEYS.schedule, 0, -1, "WITHSCORES")
    assert sorted(schedule[::2]) == [b"after", b"before"]
    assert min(map(int, schedule[1::2])) > direct.now_ms()


@pytest.mark.parametrize(
    "rule", ["no netstrings", "-5:ab", "1:a", "3:a b1:c1:d", "9:SPIT - 0 1:c0:"]
)
def test_a_rule_that_nobody_can_read_parks_its_keys_and_ends_no_proxy(
    start_server: StartServer, start_proxy: StartProxy, rule: str
) -> None:
    server = start_server()
    with Client(server.port) as direct:
        direct.ask("HSET", KEYS.state, "secret", "known")
        signature = Signer(b"known").sign(b"rule", (b"bad", rule.encode()))
        direct.ask("SET", KEYS.rule(b"bad"), signature + rule.encode())
        direct.ask("HSET", KEYS.rules, ":bad", "", "version", 1)
        with Client(start_proxy(server.url).port) as app:
            for key in ("bad", "good"):
                app.ask("SADDEX", key, "PX", 1, "MEMBERS", 1, "m")
            wait_until(lambda: direct.ask("EXISTS", "good") == 0, "the other key's gone")
            assert app.ask("SMEMBERS", "bad") == [b"m"]
            assert app.ask("ONEXPIRE")[0][0] == b"bad"
            app.ask("ONEXPIRE", "bad", "DEL")
            wait_until(lambda: direct.ask("EXISTS", "bad") == 0, "it tried again")


def test_what_stands_in_the_place_of_the_counts_holds_up_no_read(
    start_server: StartServer, start_proxy: StartProxy
) -> None:
    server = start_server()
    with Client(server.port) as direct:
        direct.ask("SET", KEYS.counts(b"s"), "text")
        with Client(start_proxy(server.url).port) as app:
            app.ask("ONEXPIRE", "s", "RPUSH", "late", "MAX", 3, "ELSE", "dead")
            app.ask("SADDEX", "s", "PXAT", app.now_ms() - 1, "MEMBERS", 1, "m")
            assert app.ask("SMEMBERS", "s") == [b"m"]
            direct.ask("DEL", KEYS.counts(b"s"))
            wait_until(lambda: direct.ask("LRANGE", "late", 0, -1) == [b"m"], "it tried again")


def test_what_stands_in_the_place_of_the_rules_makes_room(client: Client, direct: Client) -> None:
    direct.ask("SET", KEYS.rules, "junk")
    assert client.ask("ONEXPIRE") == []
    assert client.ask("ONEXPIRE", "k", "RPUSH", "late") == b"OK"
    assert [words[0] for words in client.ask("ONEXPIRE")] == [b"k"]
    direct.ask_many([("DEL", KEYS.rules), ("SET", KEYS.rules, "junk")])
    assert client.ask("ONEXPIRE", "k", "DEL") == b"OK"
    assert client.ask("ONEXPIRE", "k") is None
    assert direct.ask("EXISTS", KEYS.rules, KEYS.rule(b"k")) == 0
