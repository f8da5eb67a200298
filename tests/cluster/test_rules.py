"""ONEXPIRE in front of a Cluster: all rules are in one slot, and each slot knows their version."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator
from functools import partial

import pytest

from tests.conftest import StartProxy
from tests.support.cluster import Node
from tests.support.masters import Masters, master_of
from tests.support.processes import wait_until
from tests.support.raw_client import Connection, command
from tests.support.redis_client import Client
from ttlproxy.commands import Call
from ttlproxy.core.keys import SLOTS, Keys, slot
from ttlproxy.scripts import Scripts, Traits
from ttlproxy.scripts.script_calls import ScriptCalls

KEYS = Keys(clustered=True)
# Two keys for each of the three masters.
PARTS = ["a", "b", "c", "d", "e", "f", "g", "h"]
assert {master_of(part.encode()) for part in PARTS} == {0, 1, 2}
RULE = ("ONEXPIRE", "held:{*}", "RPUSH", "late:{%1}")


@pytest.fixture
def client(client: Client) -> Iterator[Client]:
    """At its end there is no rule."""
    yield client
    for pattern, *_ in client.ask("ONEXPIRE"):
        client.ask("ONEXPIRE", pattern, "DEL")


def _slots(node: int) -> range:
    return range(node * SLOTS // 3, (node + 1) * SLOTS // 3)


def _expire(client: Client, part: str, element: str = "x") -> None:
    key = f"held:{{{part}}}"
    assert client.ask("SADDEX", key, "PX", 1, "MEMBERS", 1, element) == 1
    wait_until(lambda: client.ask("EXISTS", key) == 0, "it is reaped")


def _versions(masters: Masters) -> list[bytes | None]:
    """What each slot knows."""
    found: list[bytes | None] = []
    for number, node in enumerate(masters.nodes):
        names = [KEYS.shared_in(each, KEYS.rules) for each in _slots(number)]
        found += node.client.ask_many([("HGET", name, "version") for name in names])
    return found


def test_what_is_past_when_it_is_set_is_handed_on_at_every_master(client: Client) -> None:
    assert client.ask(*RULE) == b"OK"
    for part in PARTS:
        key, late = f"held:{{{part}}}", f"late:{{{part}}}"
        assert client.ask("SADDEX", key, "PXAT", 1, "MEMBERS", 1, "past") == 1
        wait_until(partial(client.ask, "EXISTS", late), "it is handed on")
        assert client.ask("LPOP", late) == b"past"


def test_a_rule_holds_at_every_master(client: Client) -> None:
    assert client.ask(*RULE) == b"OK"
    assert client.ask("ONEXPIRE") == [[b"held:{*}", b"RPUSH", b"late:{%1}"]]
    assert client.ask("ONEXPIRE", "held:{*}") == [b"held:{*}", b"RPUSH", b"late:{%1}"]
    for part in PARTS:
        _expire(client, part)
        assert client.ask("LRANGE", f"late:{{{part}}}", 0, -1) == [b"x"]
    assert client.ask("ONEXPIRE", "held:{*}", "DEL") == b"OK"
    assert client.ask("ONEXPIRE") == []
    for part in PARTS:
        _expire(client, part)
        assert client.ask("LRANGE", f"late:{{{part}}}", 0, -1) == [b"x"]


@pytest.mark.parametrize(
    ("words", "tag"),
    [
        ("held:* RPUSH late", "{x}, and the pattern too"),
        ("held:* XADD late:%1", "{x}, and the pattern too"),
        ("{cart}:* LPUSH late", "{cart}"),
        ("held:{*} RPUSH late:%1", "{%1}"),
        ("held:*:{*} RPUSH late:{%1}", "{%2}"),
        ("held:{*} RPUSH late:{%1} MAX 3 ELSE dead", "{%1}"),
    ],
)
def test_a_destination_elsewhere_is_refused_with_the_tag_to_use(
    client: Client, words: str, tag: str
) -> None:
    refusal = client.ask("ONEXPIRE", *words.split())
    dest = "dead" if "dead" in words else words.split()[2]
    expected = (
        f"'{dest}' is in another slot than matching keys: give it the hash tag {tag}, or end the"
        " rule with OUTBOX"
    )
    assert str(refusal) == expected
    assert type(refusal).__name__ == "ClusterCrossSlotError"
    assert client.ask("ONEXPIRE") == []


@pytest.mark.parametrize(
    "words",
    [
        "held:* PUBLISH late",
        "held:* KEEP",
        "{cart}:* XADD late:{cart}",
        "{cart}:?:* RPUSH {cart}:%1 MAX 2 ELSE dead:{cart}",
    ],
)
def test_what_needs_no_other_slot_may_be_set(client: Client, words: str) -> None:
    assert client.ask("ONEXPIRE", *words.split()) == b"OK"
    (rule,) = client.ask("ONEXPIRE")
    assert rule[0] == words.split()[0].encode()


def test_a_destination_that_is_elsewhere_after_all_keeps_the_element(client: Client) -> None:
    assert client.ask(*RULE) == b"OK"
    client.ask("SADDEX", "held:{}b}", "PX", 1, "MEMBERS", 1, "x")

    def is_parked() -> bool:
        return b"parked_keys:1" in client.ask("INFO", "ttlproxy")

    wait_until(is_parked, "it is put off")
    assert client.ask("SMEMBERS", "held:{}b}") == [b"x"]
    client.ask("DEL", "held:{}b}")


def test_once_a_rule_is_set_no_proxy_reaps_by_older_ones(masters: Masters, client: Client) -> None:
    """Whatever a proxy knows: Redis refuses the version that it says."""
    assert client.ask(*RULE) == b"OK"
    assert len({*_versions(masters)}) == 1
    (version, *_) = _versions(masters)
    assert version is not None
    scripts = Scripts(KEYS.prefix)
    scripts.suit(Traits(clustered=True))
    calls = ScriptCalls(scripts, KEYS, bytes)

    def reap(part: str, known: bytes) -> object:
        key = f"held:{{{part}}}".encode()
        call = Call("reap", (key,), (b"10", b"1000", b"+" + known, b"", b"", b"", b"1"))
        return masters.owner(key).ask(*calls.words(call, b"0"))

    for part in PARTS:
        assert reap(part, b"") is None
        assert reap(part, b"%d" % (int(version) - 1)) is None
        assert reap(part, version) is not None
        later = b"%d" % (int(version) + 1)
        assert reap(part, later) is not None
        assert reap(part, version) is None


def test_another_proxy_obeys_at_once(
    masters: Masters, client: Client, start_proxy: StartProxy
) -> None:
    other = start_proxy(masters.nodes[1].url)
    with Client(other.port) as second:
        assert second.ask("ONEXPIRE") == []
        for round_ in range(5):
            assert client.ask("ONEXPIRE", "held:{*}", "RPUSH", f"late{round_}:{{%1}}") == b"OK"
            for part in PARTS:
                _expire(second, part)
                assert second.ask("LRANGE", f"late{round_}:{{{part}}}", 0, -1) == [b"x"]


def test_a_proxy_that_starts_knows_the_rules(
    masters: Masters, client: Client, start_proxy: StartProxy
) -> None:
    assert client.ask(*RULE) == b"OK"
    other = start_proxy(masters.nodes[2].url)
    masters.proxy.child.send_signal(signal.SIGSTOP)
    try:
        with Client(other.port) as second:
            for part in PARTS:
                _expire(second, part)
                assert second.ask("LRANGE", f"late:{{{part}}}", 0, -1) == [b"x"]
    finally:
        masters.proxy.child.send_signal(signal.SIGCONT)


def test_slots_on_their_way_are_told_too(masters: Masters, client: Client) -> None:
    """First where the version has gone already, then where it has never been."""
    for before in (True, False):
        masters.flush()
        if before:
            assert client.ask("ONEXPIRE", "other:{*}", "KEEP") == b"OK"
        number = slot(b"a")
        source, target = masters.owner(b"a"), masters.owner(b"b")
        name = KEYS.shared_in(number, KEYS.rules)
        target.ask("CLUSTER", "SETSLOT", number, "IMPORTING", source.id)
        source.ask("CLUSTER", "SETSLOT", number, "MIGRATING", target.id)
        try:
            if before:
                to = ("127.0.0.1", target.port, name, 0, 5000)
                assert source.ask("MIGRATE", *to) == b"OK"
            assert client.ask(*RULE) == b"OK"
            assert source.ask("CLUSTER", "COUNTKEYSINSLOT", number) == 0
            assert target.ask("CLUSTER", "GETKEYSINSLOT", number, 10) == [name]
        finally:
            masters.move(number, source, target)
            masters.move(number, target, source)
        assert len({*_versions(masters)}) == 1


def test_while_a_master_is_away_the_rule_is_set_in_vain(
    masters: Masters, client: Client, start_proxy: StartProxy
) -> None:
    away = next(node for node in masters.nodes if node is not masters.owner(KEYS.prefix))
    proxy = start_proxy(masters.nodes[0].url, "--hold-max", "1", "--connect-timeout", "0.5")
    with Connection(proxy.port) as app:
        app.ask("PING")
        away.child.send_signal(signal.SIGSTOP)
        try:
            reply = app.ask(*RULE)
        finally:
            away.child.send_signal(signal.SIGCONT)
        assert reply.startswith(b"-TRYAGAIN the rule is stored, but some slots could not be told")
        wait_until(lambda: app.ask(*RULE) == b"+OK\r\n", "the master is served again")
    assert len({*_versions(masters)}) == 1


def test_while_a_master_is_full_the_rule_is_set_in_vain(
    masters: Masters, client: Client, start_proxy: StartProxy
) -> None:
    """That it refuses one of its slots is enough: they are not asked one by one."""
    full = next(node for node in masters.nodes if node is not masters.owner(KEYS.prefix))
    proxy = start_proxy(masters.nodes[0].url, "--hold-max", "0.1")
    with Connection(proxy.port) as app:
        app.ask("PING")
        before = _connections_so_far(full)
        full.ask("CONFIG", "SET", "maxmemory", 1)
        try:
            reply = app.ask(*RULE)
        finally:
            full.ask("CONFIG", "SET", "maxmemory", 0)
        assert reply.startswith(b"-TRYAGAIN the rule is stored, but some slots could not be told")
        assert _connections_so_far(full) - before < 100
    assert client.ask(*RULE) == b"OK"  # a busy machine needs longer than 0.1 s for all slots
    assert len({*_versions(masters)}) == 1


def _connections_so_far(node: Node) -> int:
    found = re.search(rb"total_connections_received:(\d+)", node.ask("INFO", "stats"))
    assert found
    return int(found[1])


def test_a_flush_of_all_removes_the_rules(masters: Masters, client: Client) -> None:
    assert client.ask(*RULE) == b"OK"
    assert client.ask("FLUSHALL") == b"OK"
    assert client.ask("ONEXPIRE") == []
    for part in PARTS:
        _expire(client, part)
        assert client.ask("EXISTS", f"late:{{{part}}}") == 0
    assert {*_versions(masters)} == {None}


def test_a_flush_through_the_endpoint_begins_where_the_rules_are(
    masters: Masters, client: Client
) -> None:
    """So the rules are gone before another master tells a proxy to read them again."""
    home = masters.owner(KEYS.prefix)
    elsewhere = [name for name in PARTS if masters.owner(name.encode()) is not home]
    for name in elsewhere:
        assert client.ask("SET", name, "v") == b"OK"
    with Connection(masters.proxy.port) as app:
        home.child.send_signal(signal.SIGSTOP)
        try:
            app.send(command("FLUSHALL"))
            assert [client.ask("GET", name) for name in elsewhere] == [b"v"] * len(elsewhere)
        finally:
            home.child.send_signal(signal.SIGCONT)
        assert app.read() == b"+OK\r\n"
    assert client.ask("EXISTS", *elsewhere) == 0


def test_after_a_flush_of_any_master_the_rules_are_read_again(
    masters: Masters, start_proxy: StartProxy
) -> None:
    """It may have been a flush of all, of which the other masters' part is not heard of yet."""
    home = masters.owner(KEYS.prefix)
    part = next(name for name in PARTS if masters.owner(name.encode()) is not home)
    proxy = start_proxy(masters.nodes[0].url, "--connect-timeout", "0.5")
    with Client(proxy.port) as client:
        assert client.ask(*RULE) == b"OK"
        _expire(client, part)
        home.child.send_signal(signal.SIGSTOP)
        try:
            assert masters.owner(part.encode()).ask("FLUSHALL") == b"OK"
            assert client.ask("SADDEX", f"held:{{{part}}}", "PX", 1, "MEMBERS", 1, "y") == 1
            wait_until(lambda: "the rules cannot be read" in proxy.stderr, "it asks in vain")
        finally:
            home.child.send_signal(signal.SIGCONT)
        wait_until(lambda: client.ask("LRANGE", f"late:{{{part}}}", 0, -1) == [b"y"], "handed on")
        assert client.ask("ONEXPIRE", RULE[1], "DEL") == b"OK"


def test_a_flush_of_the_master_with_the_rules_removes_them(
    masters: Masters, client: Client
) -> None:
    """The other slots know a version that is none any more."""
    assert client.ask(*RULE) == b"OK"
    assert masters.owner(KEYS.prefix).ask("FLUSHALL") == b"OK"
    assert client.ask("ONEXPIRE") == []
    # What a master has announced is read before the next request to it.
    assert client.ask("EXISTS", b"{%b}" % KEYS.prefix) == 0

    def delivers(part: str) -> bool:
        _expire(client, part)
        return bool(client.ask("DEL", f"late:{{{part}}}"))

    for part in PARTS:
        assert not delivers(part)
    assert client.ask(*RULE) == b"OK"
    _expire(client, "b")
    assert client.ask("LRANGE", "late:{b}", 0, -1) == [b"x"]


def test_clients_see_nothing_of_it(client: Client) -> None:
    assert client.ask(*RULE) == b"OK"
    assert client.ask("SET", "key", "v") == b"OK"
    assert client.ask("DBSIZE") == 1
    assert client.ask("KEYS", "*") == [b"key"]
    for _ in PARTS:
        assert client.ask("RANDOMKEY") == b"key"


@pytest.mark.parametrize("words", [RULE, ("ONWRITE", "k", "EX", "5")])
def test_rules_are_not_for_transactions(masters: Masters, words: tuple[str, ...]) -> None:
    with Connection(masters.proxy.port) as app:
        assert app.ask("MULTI") == b"+OK\r\n"
        assert app.ask("SET", "k", "v") == b"+QUEUED\r\n"
        refusal = "-ERR %s is not allowed in a transaction in front of a Redis Cluster of several"
        assert app.ask(*words) == f"{refusal % words[0]} masters\r\n".encode()
        assert app.ask("EXEC").startswith(b"-EXECABORT")
        assert app.ask("GET", "k") == b"$-1\r\n"


@pytest.mark.parametrize(
    ("words", "is_allowed"),
    [
        ("ONEXPIRE app:{*} KEEP", True),
        ("ONEXPIRE *{*} KEEP", False),
        ("ONWRITE app:* EX 100", True),
        ("ONWRITE * EX 100", False),
    ],
)
def test_who_sets_a_rule_must_be_allowed_to_touch_all_keys(
    masters: Masters, client: Client, words: str, is_allowed: bool
) -> None:
    for node in masters.nodes:
        rights = ("on", ">pass", "~app:*", "~__ttl:*", "&*", "+@all")
        assert node.ask("ACL", "SETUSER", "narrow", "reset", *rights) == b"OK"
    command, pattern, *action = words.split()
    try:
        with Connection(masters.proxy.port) as app:
            assert app.ask("AUTH", "narrow", "pass") == b"+OK\r\n"
            for change in (action, ["DEL"]):
                reply = app.ask(command, pattern, *change)
                assert reply.startswith(b"+OK" if is_allowed else b"-NOPERM"), reply
    finally:
        for node in masters.nodes:
            node.ask("ACL", "DELUSER", "narrow")
    assert client.ask(command) == []


def test_the_versions_of_rules_are_not_counted_even_before_they_are_read(client: Client) -> None:
    """Right after a change its proxy has still to read the rules."""
    for words in (RULE, ("ONEXPIRE", RULE[1], "DEL")):
        assert (client.ask(*words), client.ask("DBSIZE")) == (b"OK", 0)
