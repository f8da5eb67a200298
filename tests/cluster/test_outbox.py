"""ONEXPIRE ... OUTBOX: destinations in other slots than the keys, before three masters."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from functools import partial
from typing import Any, Final

import pytest
import redis

from tests.conftest import StartProxy
from tests.operations.test_purge import purge
from tests.support.cluster import Cluster
from tests.support.masters import Masters
from tests.support.processes import wait_until
from tests.support.raw_client import Connection
from tests.support.redis_client import Client
from tests.support.servers import Binary, Proxy
from ttlproxy.commands import Call
from ttlproxy.core.keys import Keys, slot
from ttlproxy.scripts import Scripts, Traits
from ttlproxy.scripts.constants import literal
from ttlproxy.scripts.script_calls import ScriptCalls

KEYS = Keys(clustered=True)
# Of all masters.
PARTS = ["a", "b", "c", "d", "e", "f", "g", "h"]
LATE_MS: Final = 1 << 45


@pytest.fixture
def client(client: Client) -> Iterator[Client]:
    """At its end there is no rule."""
    yield client
    for pattern, *_ in client.ask("ONEXPIRE"):
        client.ask("ONEXPIRE", pattern, "DEL")


def _box(key: str, dest: str) -> bytes:
    return KEYS.outbox_to(key.encode(), slot(dest.encode()))


def _waiting(masters: Masters, key: str, dest: str) -> int:
    """How many entries wait in an outbox."""
    count: int = masters.owner(key.encode()).ask("LLEN", _box(key, dest))
    return count


def _until(client: Client, words: str, reply: object) -> None:
    last: Any = None

    def holds() -> bool:
        nonlocal last
        last = client.ask(*words.split())
        return bool(last == reply)

    try:
        wait_until(holds, f"{words}: {reply!r}")
    except TimeoutError:
        raise AssertionError(f"{words} is {last!r}, not {reply!r}") from None


def _expire(client: Client, key: str, *elements: str) -> None:
    """They expire one after the other."""
    requests = [
        ("SADDEX", key, "PX", at, "MEMBERS", 1, element) for at, element in enumerate(elements, 1)
    ]
    assert client.ask_many(requests) == [1] * len(elements)


def _scripts(masters: Masters, *calls: Call) -> list[Any]:
    """What the scripts answer, each at the master of its first key."""
    scripts = Scripts(KEYS.prefix)
    scripts.suit(Traits(clustered=True))
    words = ScriptCalls(scripts, KEYS, bytes).words
    return [masters.owner(call.keys[0]).ask(*words(call, b"0")) for call in calls]


@pytest.mark.parametrize(
    "words",
    [
        "held:* RPUSH late OUTBOX",
        "held:* LPUSH late EVENT OUTBOX",
        "held:* XADD late:%1 MAXLEN ~ 1000 MAX 3 ELSE dead OUTBOX",
        "{x}:* RPUSH {x}late OUTBOX",
    ],
)
def test_a_rule_may_have_an_outbox(client: Client, words: str) -> None:
    assert client.ask("ONEXPIRE", *words.lower().split()) == b"OK"
    verbs = words.encode().split()
    (rule,) = client.ask("ONEXPIRE")
    assert [word.upper() for word in rule] == [word.upper() for word in verbs]
    assert rule[1].isupper()
    assert rule[-1] == b"OUTBOX"
    assert client.ask("ONEXPIRE", verbs[0]) == rule


@pytest.mark.parametrize(
    "words",
    [
        "held:* PUBLISH late OUTBOX",
        "held:* KEEP OUTBOX",
        "held:* RPUSH late OUTBOX MAX 3 ELSE dead",
        "held:* RPUSH late OUTBOX OUTBOX",
    ],
)
def test_where_a_rule_cannot_have_one(client: Client, words: str) -> None:
    assert str(client.ask("ONEXPIRE", *words.split())) == "syntax error"
    assert client.ask("ONEXPIRE") == []


# The type of the key -> its rule, and a request that adds an element, without its deadline.
SORTS: Final = {
    "set": ("RPUSH {} EVENT", "SADDEX {} PXAT {} MEMBERS 1"),
    "hash": ("LPUSH {}", "HSETEX {} PXAT {} FIELDS 1 field{}"),
    "list": ("RPUSH {}", "LPEXPIREATELEMENT {} {} ELEMENTS 1"),
    "zset": ("XADD {} MAXLEN = 3", "ZADDEX {} PXAT {} MEMBERS 1 7"),
}


@pytest.mark.parametrize("kind", SORTS)
def test_what_arrives_is_what_a_destination_in_the_slot_gets(client: Client, kind: str) -> None:
    """In the order of the deadlines, and as often."""
    rule, request = SORTS[kind]
    dests = {"near": "here:{a}", "far_": "there"}
    assert slot(b"a") != slot(b"there")
    for name, dest in dests.items():
        words = (f"{name}:{{a}}", *rule.format(dest).split(), *["OUTBOX"] * (name == "far_"))
        assert client.ask("ONEXPIRE", *words) == b"OK"
    due_ms = client.now_ms() + 300
    elements = [b"x%d\xff\x00 y" % number for number in range(5)]
    for name in dests:
        if kind == "list":
            client.ask("RPUSH", f"{name}:{{a}}", *elements, *elements)
        for at, element in enumerate(elements):
            adding = request.format(f"{name}:{{a}}", due_ms + at, at).split()
            assert not isinstance(client.ask(*adding, element), Exception)
    count = {"list": 10, "zset": 3}.get(kind, 5)
    found = []
    for dest in dests.values():
        size = "XLEN" if kind == "zset" else "LLEN"
        wait_until(partial(_has, client, size, dest, count), "all have arrived")
        found.append(_content(client, kind, dest))
    assert found[0] == found[1]


def _has(client: Client, size: str, dest: str, count: int) -> bool:
    """Whether it has so many, and the last element has been handed on."""
    return bool(
        client.ask(size, dest) == count and client.ask("EXISTS", "near:{a}", "far_:{a}") == 0
    )


def _content(client: Client, kind: str, dest: str) -> list[list[bytes]]:
    """What has arrived, without times, and with `near` instead of `far_`."""
    if kind == "zset":
        entries = [words for _, words in client.ask("XRANGE", dest, "-", "+")]
        found = [[*words[: words.index(b"due")], *words[-2:]] for words in entries]
    else:
        found = [_words(value) for value in client.ask("LRANGE", dest, 0, -1)]
    return [[word.replace(b"far_", b"near") for word in words] for words in found]


def _words(value: bytes) -> list[bytes]:
    """Of an EVENT, or the value."""
    if not value.startswith(b"["):
        return [value]
    words = [word.encode("utf-8", "surrogateescape") for word in json.loads(value)]
    return [*words[:4], *words[6:]]


def test_one_key_feeds_many_slots_and_many_keys_one(masters: Masters, client: Client) -> None:
    assert client.ask("ONEXPIRE", "one:{*}", "RPUSH", "late", "OUTBOX") == b"OK"
    assert client.ask("ONEXPIRE", "*:many:{x}", "RPUSH", "late:%1", "OUTBOX") == b"OK"
    names = [f"{number:03}" for number in range(600)]  # more than is carried at a time
    for part in PARTS:
        _expire(client, f"one:{{{part}}}", *(f"{part}{name}" for name in names))
        _expire(client, f"{part}:many:{{x}}", *names[:3])
    _until(client, "LLEN late", len(PARTS) * len(names))
    arrived = client.ask("LRANGE", "late", 0, -1)
    for part in PARTS:
        mine = [name.decode()[1:] for name in arrived if name.startswith(part.encode())]
        assert mine == names
        _until(client, f"LRANGE late:{part} 0 -1", [name.encode() for name in names[:3]])
    wait_until(lambda: not _outboxes(masters), "the outboxes are gone")
    assert client.ask("DBSIZE") == 1 + len(PARTS)
    wait_until(lambda: b"waiting_entries:0" in client.ask("INFO", "ttlproxy"), "none waits")


def _outboxes(masters: Masters) -> list[bytes]:
    names = [name for node in masters.nodes for name in node.ask("KEYS", KEYS.outbox + b"*")]
    return [name for name in names if KEYS.destination(name) is not None]


def test_what_is_due_when_its_key_ends_comes_into_the_outbox(
    masters: Masters, client: Client
) -> None:
    assert client.ask("ONEXPIRE", "held:{*}", "RPUSH", "late", "OUTBOX") == b"OK"
    keys = [f"held:{{{part}}}" for part in PARTS]
    for number, key in enumerate(keys):
        at_ms = masters.nodes[0].client.now_ms() + 200
        client.ask("SADDEX", key, "PXAT", at_ms, "MEMBERS", 1, key)
        client.ask("PEXPIREAT", key, at_ms + number % 3)
        assert client.ask("PTTL", key) <= 202
    wait_until(lambda: client.ask("EXISTS", *keys) == 0, "the keys gone")
    _until(client, "LLEN late", len(keys))
    assert sorted(client.ask("LRANGE", "late", 0, -1)) == sorted(map(str.encode, keys))


def test_deliveries_are_counted_when_an_element_leaves_its_key(client: Client) -> None:
    rule = ("ONEXPIRE", "busy:{*}", "RPUSH", "tasks", "MAX", "2", "ELSE", "dead:{%1}", "OUTBOX")
    assert client.ask(*rule) == b"OK"
    for _ in range(5):
        _expire(client, "busy:{a}", "x")
        _until(client, "EXISTS busy:{a}", 0)
    _until(client, "LRANGE tasks 0 -1", [b"x"] * 4)
    assert client.ask("LRANGE", "dead:{a}", 0, -1) == [b"x"]


def test_a_destination_of_the_wrong_type_holds_up_its_own_slot_only(
    masters: Masters, client: Client
) -> None:
    assert client.ask("ONEXPIRE", "held:{*}:*", "RPUSH", "late:{%2}", "OUTBOX") == b"OK"
    assert client.ask("SET", "late:{b}", "a string") == b"OK"
    _expire(client, "held:{a}:b", "1", "2", "3")
    _until(client, "EXISTS held:{a}:b", 0)
    _expire(client, "held:{a}:c", "4")
    _until(client, "LRANGE late:{c} 0 -1", [b"4"])
    assert _waiting(masters, "held:{a}:b", "late:{b}") == 3
    _until_parked(client, "wrongtype")
    # Nobody sees them while they wait.
    assert client.ask("DBSIZE") == 2
    assert sorted(client.ask("KEYS", "*")) == [b"late:{b}", b"late:{c}"]
    assert sorted(_scanned(client)) == sorted(client.ask("KEYS", "*"))
    refusal = client.ask("LRANGE", _box("held:{a}:b", "late:{b}"), 0, -1)
    assert "belongs to ttlproxy" in str(refusal)
    assert client.ask("DEL", "late:{b}") == 1
    _until(client, "LRANGE late:{b} 0 -1", [b"1", b"2", b"3"])


def _scanned(client: Client) -> list[bytes]:
    cursor, found = b"0", list[bytes]()
    while True:
        cursor, names = client.ask("SCAN", cursor, "COUNT", 1000)
        found += names
        if cursor == b"0":
            return found


def _until_parked(client: Client, why: str) -> None:
    line = f"parked_{why}:keys=1".encode()
    wait_until(lambda: line in client.ask("INFO", "ttlproxy"), line.decode())


def test_a_master_that_is_away_holds_up_its_own_slots_only(
    masters: Masters, client: Client
) -> None:
    assert client.ask("ONEXPIRE", "held:{*}:*", "RPUSH", "late:{%2}", "OUTBOX") == b"OK"
    tags = {masters.owner(tag.encode()).port: tag for tag in "abcdefghij"}
    source = tags.pop(masters.owner(KEYS.prefix).port)  # that with the rules is not away
    away, there = tags.values()
    stopped = masters.owner(away.encode()).child
    stopped.send_signal(signal.SIGSTOP)
    try:
        for part in (away, there):
            _expire(client, f"held:{{{source}}}:{part}", "1", "2")
        _until(client, f"LRANGE late:{{{there}}} 0 -1", [b"1", b"2"])
        _until(client, f"EXISTS held:{{{source}}}:{away}", 0)
        assert _waiting(masters, f"held:{{{source}}}:{away}", f"late:{{{away}}}") == 2
    finally:
        stopped.send_signal(signal.SIGCONT)
    _until(client, f"LRANGE late:{{{away}}} 0 -1", [b"1", b"2"])


def test_a_full_outbox_leaves_the_elements_in_their_key(masters: Masters, client: Client) -> None:
    assert client.ask("ONEXPIRE", "held:{*}", "RPUSH", "late", "OUTBOX") == b"OK"
    box, owner = _box("held:{a}", "late"), masters.owner(b"a")
    most = int(literal("OUTBOX_MOST"))
    assert owner.ask("RPUSH", box, *[b"x"] * most) == most
    _expire(client, "held:{a}", "1", "2")
    _until_parked(client, "other")
    assert sorted(client.ask("SMEMBERS", "held:{a}")) == [b"1", b"2"]
    assert owner.ask("DEL", box) == 1
    _until(client, "LRANGE late 0 -1", [b"1", b"2"])


def test_an_outbox_moves_with_its_slot(masters: Masters, client: Client) -> None:
    assert client.ask("ONEXPIRE", "held:{*}", "RPUSH", "late", "OUTBOX") == b"OK"
    assert client.ask("SET", "late", "a string") == b"OK"
    _expire(client, "held:{a}", "1", "2", "3")
    wait_until(lambda: _waiting(masters, "held:{a}", "late") == 3, "they wait")
    number, source = slot(b"a"), masters.owner(b"a")
    target = next(node for node in masters.nodes if node is not source)
    masters.move(number, source, target)
    try:
        assert target.ask("LLEN", _box("held:{a}", "late")) == 3
        _expire(client, "held:{a}", "4")
        assert client.ask("DEL", "late") == 1
        _until(client, "LRANGE late 0 -1", [b"1", b"2", b"3", b"4"])
    finally:
        masters.move(number, target, source)
    assert client.ask("DEL", "late") == 1
    _expire(client, "held:{a}", "5")
    _until(client, "LRANGE late 0 -1", [b"5"])


def test_a_destination_may_move_while_entries_wait(masters: Masters, client: Client) -> None:
    assert client.ask("ONEXPIRE", "held:{*}", "RPUSH", "late:{b}", "OUTBOX") == b"OK"
    number, source = slot(b"b"), masters.owner(b"b")
    target = next(node for node in masters.nodes if node is not source)
    _expire(client, "held:{a}", "1")
    _until(client, "LRANGE late:{b} 0 -1", [b"1"])
    assert target.ask("CLUSTER", "SETSLOT", number, "IMPORTING", source.id) == b"OK"
    assert source.ask("CLUSTER", "SETSLOT", number, "MIGRATING", target.id) == b"OK"
    _expire(client, "held:{a}", "2")
    wait_until(lambda: _waiting(masters, "held:{a}", "late:{b}") == 1, "it waits")
    masters.move(number, source, target)
    try:
        _until(client, "LRANGE late:{b} 0 -1", [b"1", b"2"])
    finally:
        masters.move(number, target, source)


def _entries(term: str, *numbers: int) -> list[bytes]:
    return [f"{term} {n} 5:RPUSH4:late2:{n:02}".encode() for n in numbers]


def _applied(*entries: bytes, until_ms: int = LATE_MS) -> Call:
    return Call("outbox_apply", (b"late",), (b"7", b"%d" % until_ms, *entries))


def test_entries_are_carried_out_once_however_often_they_come(
    masters: Masters, client: Client
) -> None:
    """A proxy may be killed behind the first step; a slow one may come behind another."""
    calls = [
        _applied(*_entries("a1", 1, 2, 3)),
        _applied(*_entries("a1", 1, 2, 3)),
        _applied(*_entries("a1", 2, 3, 4)),
        _applied(*_entries("a1", 1)),
        # A failover has lost a1's entries from 3 on; the numbers begin anew.
        _applied(*_entries("a1", 1, 2), *_entries("b2", 1, 2)),
        _applied(*_entries("b2", 1, 2, 3)),
        _applied(*_entries("a1", 4, 5)),
        _applied(*_entries("b2", 4), until_ms=1),
    ]
    replies = [reply[1:3] for reply in _scripts(masters, *calls)]
    assert replies == [[3, 3], [3, 0], [3, 1], [1, 0], [4, 2], [3, 1], [2, 1], [0, 0]]
    arrived = [b"01", b"02", b"03", b"04", b"01", b"02", b"03", b"05"]
    assert client.ask("LRANGE", "late", 0, -1) == arrived


def test_an_entry_that_is_refused_holds_up_those_behind_it(
    masters: Masters, client: Client
) -> None:
    assert client.ask("SET", "{late}x", "a string") == b"OK"
    entries = _entries("a1", 1, 2, 3)
    entries[1] = b"a1 2 5:RPUSH7:{late}x2:02"
    call = Call("outbox_apply", (b"late", b"{late}x"), (b"7", b"%d" % LATE_MS, *entries))
    (reply,) = _scripts(masters, call)
    assert reply[1:3] == [1, 1]
    assert str(reply[3]).startswith("WRONGTYPE")
    assert client.ask("DEL", "{late}x") == 1
    (reply,) = _scripts(masters, call)
    assert reply[1:] == [3, 2]
    assert client.ask("LRANGE", "late", 0, -1) == [b"01", b"03"]
    assert client.ask("LRANGE", "{late}x", 0, -1) == [b"02"]


@pytest.mark.parametrize("dest", [b"__ttl:{x}:late", b"{late}y"])
def test_an_entry_for_an_internal_or_undeclared_key_is_refused(
    masters: Masters, dest: bytes
) -> None:
    entry = b"a1 1 5:RPUSH%d:%b1:v" % (len(dest), dest)
    keys = (dest,) if dest.startswith(b"__") else (b"late",)
    (reply,) = _scripts(masters, Call("outbox_apply", keys, (b"7", b"%d" % LATE_MS, entry)))
    assert reply[1:3] == [0, 0]


def test_what_is_no_index_holds_up_nothing(masters: Masters, client: Client) -> None:
    assert client.ask("ONEXPIRE", "held:{*}", "RPUSH", "late", "OUTBOX") == b"OK"
    assert masters.owner(b"late").ask("SET", KEYS.index(b"late"), "junk") == b"OK"
    _expire(client, "held:{a}", "1", "2")
    _until(client, "LRANGE late 0 -1", [b"1", b"2"])


def test_only_entries_that_were_carried_are_removed(masters: Masters, client: Client) -> None:
    box, owner = _box("a", "late"), masters.owner(b"a")
    owner.ask("RPUSH", box, *_entries("a1", 1, 2, 3), *_entries("b2", 4))
    calls = [(b"a1 1", b"a1 2"), (b"a1 1", b"a1 2"), (b"a1 3", b"a1 4"), (b"b2 4",)]
    left = _scripts(masters, *(Call("outbox_drop", (box,), ids) for ids in calls))
    assert left == [2, 2, 1, 0]


def test_a_rewound_master_gives_no_number_twice(masters: Masters, client: Client) -> None:
    """A replica that has missed the last entries is promoted: its replication history is new."""
    assert client.ask("ONEXPIRE", "held:{*}", "RPUSH", "late", "OUTBOX") == b"OK"
    _expire(client, "held:{a}", "1", "2", "3")
    _until(client, "LRANGE late 0 -1", [b"1", b"2", b"3"])
    state, owner = KEYS.shared_in(slot(b"a"), KEYS.outbox), masters.owner(b"a")
    (before,) = owner.ask("HMGET", state, "term")
    _until(client, "EXISTS held:{a}", 0)
    assert owner.ask("HSET", state, "history", "0" * 40, "number", 0) == 0
    _expire(client, "held:{a}", "4", "5")
    _until(client, "LRANGE late 0 -1", [b"1", b"2", b"3", b"4", b"5"])
    assert owner.ask("HMGET", state, "term", "number") != [before, b"5"]


def test_a_proxy_that_starts_carries_what_waits(
    masters: Masters, client: Client, start_proxy: StartProxy
) -> None:
    assert client.ask("ONEXPIRE", "held:{*}", "RPUSH", "late", "OUTBOX") == b"OK"
    assert client.ask("SET", "late", "a string") == b"OK"
    _expire(client, "held:{a}", "1", "2")
    wait_until(lambda: _waiting(masters, "held:{a}", "late") == 2, "they wait")
    masters.proxy.child.send_signal(signal.SIGSTOP)
    try:
        other = start_proxy(masters.nodes[2].url)
        with Client(other.port) as second:
            assert second.ask("DEL", "late") == 1
            _until(second, "LRANGE late 0 -1", [b"1", b"2"])
    finally:
        masters.proxy.child.send_signal(signal.SIGCONT)


def test_a_lease_between_slots_is_refused_with_the_tag_to_use(client: Client) -> None:
    for words in ("LEASE jobs taken EX 30", "LEASE jobs taken EX 30 BLOCK 1000"):
        expected = "'taken' is in another slot than 'jobs': give it the hash tag {jobs}"
        assert str(client.ask(*words.split())) == expected
    tagged = "'taken' is in another slot than 'jobs:{x}': give it the hash tag {x}"
    assert str(client.ask(*["LEASE", "jobs:{x}", "taken", "EX", "30"])) == tagged
    assert client.ask(*["LEASE", "jobs", "taken:{jobs}", "EX", "30"]) is None


def test_clients_cannot_name_what_only_proxies_use(masters: Masters) -> None:
    box = _box("held:{a}", "late")
    with Connection(masters.proxy.port) as app:
        long, state = "x" * 3000, KEYS.home(KEYS.state)
        for words in (
            ("LLEN", box),
            ("RPUSH", box, long),
            ("DEL", "k", box),
            ("HMGET", state, "secret", long),
        ):
            assert b"belongs to ttlproxy" in app.ask(*words)


@pytest.mark.long
def test_what_waits_outlives_its_master_its_proxy_and_a_purge(
    binary: Binary, start_proxy: StartProxy
) -> None:
    """With one master, too, a rule's destination may be in another slot."""
    with Cluster(binary) as cluster:
        cluster.replicate()
        master, replica = cluster.nodes
        proxy = start_proxy(f"redis://127.0.0.1:{master.port},127.0.0.1:{replica.port}")
        with Client(proxy.port) as client:
            assert client.ask("ONEXPIRE", "held:{*}", "RPUSH", "late", "OUTBOX") == b"OK"
            assert client.ask("SET", "late", "a string") == b"OK"
            _expire(client, "held:{a}", "1", "2")
            box = _box("held:{a}", "late")
            wait_until(lambda: master.ask("LLEN", box) == 2, "they wait")
            assert client.ask("WAIT", 1, 5000) == 1
        state = KEYS.shared_in(slot(b"a"), KEYS.outbox)
        before = master.ask("HGET", state, "term")
        master.kill()
        replica.promote("TAKEOVER")
        wait_until(lambda: _is_served(proxy), "the replica is served")
        with Client(proxy.port) as client:
            _expire(client, "held:{a}", "3")
        wait_until(lambda: replica.ask("LLEN", box) == 3, "the third waits")
        assert replica.ask("HGET", state, "term") != before
        proxy.stop()
        done = purge("--upstream", replica.url)
        assert "elements still wait in outboxes" in done.stdout
        indexes = [name for name in replica.ask("KEYS", "__ttl:*") if KEYS.data(name)]
        assert indexes == [KEYS.index(box)]
        proxy.start()
        with Client(proxy.port) as client:
            assert client.ask("DEL", "late") == 1
            _until(client, "LRANGE late 0 -1", [b"1", b"2", b"3"])
        proxy.stop()
        assert "outboxes" not in purge("--upstream", replica.url).stdout
        assert replica.ask("KEYS", "*") == [b"late"]


def _is_served(proxy: Proxy) -> bool:
    with Client(proxy.port) as client:
        try:
            return bool(client.ask("SET", "served", 1) == b"OK" and client.ask("DEL", "served"))
        except redis.exceptions.ConnectionError:
            return False
