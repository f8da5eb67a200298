"""Slots that move from one of three masters to another: clients see nothing of it."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import ExitStack, contextmanager
from functools import partial
from threading import Event

import pytest
from redis.exceptions import ResponseError

from tests.conftest import StartProxy
from tests.support.cluster import Node, until_known
from tests.support.deadlines import BOUNDED
from tests.support.masters import Masters
from tests.support.processes import wait_until
from tests.support.raw_client import Connection, command
from tests.support.redis_client import Client
from ttlproxy.core.keys import SLOTS, Keys, slot

KEY = b"{on its way}k"
OTHER = b"{on its way}l"
SLOT = slot(KEY)
NEW = b"{on its way}n"
FRIEND = b"{on its way}f"
INDEX = Keys().index(KEY)
SCHEDULE = Keys(clustered=True).shared_in(SLOT, Keys(clustered=True).schedule)


@pytest.fixture
def ends(masters: Masters) -> Iterator[tuple[Node, Node]]:
    """The master that has the slot, and the one that gets it. It is back at the end."""
    number = SLOT * 3 // SLOTS
    source, target = masters.nodes[number], masters.nodes[(number + 1) % 3]
    yield source, target
    for node in (source, target):
        node.ask("CLUSTER", "SETSLOT", SLOT, "STABLE")
    if target.ask("CLUSTER", "COUNTKEYSINSLOT", SLOT) or not _has(source):
        masters.move(SLOT, target, source)


def _has(node: Node) -> bool:
    rows = [row for row in node.ask("CLUSTER", "NODES").decode().splitlines() if "myself" in row]
    return any(
        int(first) <= SLOT <= int(last or first)
        for each in rows[0].split()[8:]
        if not each.startswith("[")
        for first, _, last in [each.partition("-")]
    )


def _held(masters: Masters) -> int:
    """How often requests have waited for a reap."""
    with Client(masters.proxy.port) as other:
        lines = other.ask("INFO", "ttlproxy").decode().splitlines()
    return next(int(line.split(":")[1]) for line in lines if line.startswith("held_chunks:"))


@contextmanager
def _open(source: Node, target: Node) -> Iterator[Callable[..., None]]:
    """The slot is on its way; `carry(names...)` moves keys. At the end it has arrived."""
    assert target.ask("CLUSTER", "SETSLOT", SLOT, "IMPORTING", source.id) == b"OK"
    assert source.ask("CLUSTER", "SETSLOT", SLOT, "MIGRATING", target.id) == b"OK"

    def carry(*names: bytes) -> None:
        to = ("127.0.0.1", target.port, "", 0, 5000, "KEYS")
        assert source.ask("MIGRATE", *to, *names) == b"OK"

    yield carry
    while names := source.ask("CLUSTER", "GETKEYSINSLOT", SLOT, 100):
        carry(*names)
    for node in (target, source):
        assert node.ask("CLUSTER", "SETSLOT", SLOT, "NODE", target.id) == b"OK"
    until_known(SLOT, target, (source, target))


def test_elements_expire_where_their_slot_has_gone(
    masters: Masters, ends: tuple[Node, Node], client: Client
) -> None:
    client.ask("HSET", KEY, "a", 1, "b", 2, "c", 3)
    client.ask("HEXPIREFIELD", KEY, 1000, "FIELDS", 1, "a")
    masters.move(SLOT, *ends)
    assert client.ask("HTTLFIELD", KEY, "FIELDS", 2, "a", "b")[1] == -1
    assert client.ask("HPEXPIREFIELD", KEY, 1, "FIELDS", 1, "b") == [1]
    wait_until(lambda: bool(ends[1].ask("HKEYS", KEY) == [b"a", b"c"]), "it is reaped there")
    client.ask("HPEXPIREFIELD", KEY, 300, "FIELDS", 1, "c")
    masters.move(SLOT, ends[1], ends[0])
    wait_until(lambda: bool(ends[0].ask("HKEYS", KEY) == [b"a"]), "nobody asks, and it is reaped")


def test_what_falls_due_on_the_way_is_not_seen(
    masters: Masters, ends: tuple[Node, Node], client: Client
) -> None:
    client.ask("HSET", KEY, "a", 1, "b", 2)
    client.ask("HEXPIREFIELD", KEY, 1000, "FIELDS", 1, "a")
    with ThreadPoolExecutor() as pool:
        with _open(*ends) as carry:
            carry(INDEX)
            carry(KEY)
            assert client.ask("HGET", KEY, "b") == b"2"
        client.ask("HPEXPIREFIELD", KEY, 200, "FIELDS", 1, "a")
        with _open(ends[1], ends[0]) as carry:
            carry(KEY)
            start_ms = ends[0].client.now_ms()
            wait_until(lambda: ends[0].client.now_ms() > start_ms + 200, "it is due")
            reading = pool.submit(client.ask, "HKEYS", KEY)
        assert reading.result(30) == [b"b"]


def test_a_transaction_does_not_see_what_falls_due_on_the_way(
    masters: Masters, ends: tuple[Node, Node], client: Client
) -> None:
    """It waits at the master that loses the slot, and is begun anew at the other one."""
    client.ask("HSET", KEY, "a", 1, "b", 2)
    client.ask("HPEXPIREFIELD", KEY, 200, "FIELDS", 1, "a")
    asked = [("HKEYS", KEY), ("HINCRBY", KEY, "b", 1)]
    with ThreadPoolExecutor() as pool:
        with _open(*ends) as carry:
            carry(KEY)
            start_ms = ends[0].client.now_ms()
            wait_until(lambda: ends[0].client.now_ms() > start_ms + 200, "it is due")
            held = _held(masters)
            reading = pool.submit(client.ask_many, asked, transaction=True)
            wait_until(lambda: _held(masters) > held, "it waits")
        assert reading.result(30) == [[b"b"], 3]
    assert client.ask_many(asked, transaction=True) == [[b"b"], 4]


@pytest.mark.parametrize("trusts", [True, False])
def test_a_slot_that_leaves_a_master_is_not_known_there_any_more(
    masters: Masters, ends: tuple[Node, Node], client: Client, start_proxy: StartProxy, trusts: bool
) -> None:
    """A proxy starts when the schedule, and an index, have gone: what is due there is not seen."""
    user = [] if trusts else ["on", "nopass", "~k*", "+get"]  # a client with narrow rights
    for node in ends:
        assert node.ask("ACL", "SETUSER", "narrow", *user) == b"OK"
    client.ask("HSET", KEY, "a", 1, "b", 2)
    client.ask("HPEXPIREFIELD", KEY, 200, "FIELDS", 1, "a")
    with ThreadPoolExecutor() as pool, ExitStack() as stack:
        stack.callback(lambda: [node.ask("ACL", "DELUSER", "narrow") for node in ends])
        with _open(*ends) as carry:
            carry(INDEX, SCHEDULE)
            other = start_proxy(ends[0].url)
            start_ms = ends[0].client.now_ms()
            wait_until(lambda: ends[0].client.now_ms() > start_ms + 200, "it is due")
            reader = stack.enter_context(Client(other.port))
            assert reader.ask("PING") == b"PONG"
            reading = pool.submit(reader.ask, "HKEYS", KEY)
            wait([reading], timeout=0.5)  # a wrong reply would come at once
        assert reading.result(30) == [b"b"]


def test_keys_that_are_there_and_not_there_are_served_on_the_way(
    ends: tuple[Node, Node], client: Client
) -> None:
    client.ask_many([("SET", KEY, 1), ("SET", OTHER, 2)])
    with _open(*ends) as carry:
        carry(KEY)
        assert client.ask_many([("GET", KEY), ("GET", OTHER), ("INCR", KEY), ("INCR", OTHER)]) == [
            b"1",
            b"2",
            2,
            3,
        ]
        assert client.ask("SET", b"{on its way}new", 1) == b"OK"
        assert ends[1].client.ask_many([("ASKING",), ("EXISTS", b"{on its way}new")])[1] == 1
    assert client.ask("MGET", KEY, OTHER) == [b"2", b"3"]


@pytest.mark.parametrize("may_script", [True, False])
def test_keys_without_deadlines_are_written_on_the_way_beside_others_of_their_family(
    masters: Masters, ends: tuple[Node, Node], client: Client, may_script: bool
) -> None:
    """Redis would refuse the scripts that look for deadlines."""
    user, rights = ("whole", ["+@all"]) if may_script else ("barred", ["+@all", "-@scripting"])
    for node in masters.nodes:
        assert node.ask("ACL", "SETUSER", user, "on", ">word", "~*", "&*", *rights) == b"OK"
    client.ask("SADDEX", FRIEND, *BOUNDED, "EX", 1000, "MEMBERS", 1, "a")
    client.ask_many([("HSET", KEY, "a", 1), ("HSET", OTHER, "a", 1)])
    with ExitStack() as stack, _open(*ends) as carry:
        stack.callback(lambda: [each.ask("ACL", "DELUSER", user) for each in masters.nodes])
        writer = stack.enter_context(Client(masters.proxy.port))
        writer.ask("AUTH", user, "word")
        carry(KEY)
        written = [("HSET", KEY, "a", 2), ("HSET", OTHER, "a", 2, "b", 3), ("HSET", NEW, "a", 2)]
        assert writer.ask_many(written) == [0, 1, 1]
        assert "wrong number of arguments" in str(writer.ask("HSET", KEY, "a"))
        assert writer.ask("HDEL", OTHER, "b", "c") == 1
        assert writer.ask("SET", NEW, 1, "NX") is None
        assert "wrong kind of value" in str(writer.ask("SADD", NEW, "a"))
        assert writer.ask("DEL", NEW) == 1
        assert writer.ask("SPOP", NEW) is None
    assert client.ask_many([("HGETALL", KEY), ("HGETALL", OTHER)]) == [[b"a", b"2"]] * 2
    assert client.ask("STTLMEMBER", FRIEND, "MEMBERS", 1, "a")[0] > 0


@pytest.mark.parametrize(
    "carried",
    [[KEY], [INDEX], [KEY, INDEX], [KEY, INDEX, SCHEDULE], [INDEX, SCHEDULE]],
    ids=["key", "index", "key-index", "key-index-schedule", "index-schedule"],
)
def test_a_write_on_a_key_with_deadlines_waits_and_clears_them(
    ends: tuple[Node, Node], client: Client, carried: list[bytes]
) -> None:
    """Wherever its index is meanwhile."""
    client.ask("HSETEX", KEY, *BOUNDED, "EX", 1000, "FIELDS", 2, "a", 1, "b", 1)
    with ThreadPoolExecutor() as pool:
        with _open(*ends) as carry:
            carry(*carried)
            writing = pool.submit(client.ask, "HSET", KEY, "a", 2)
            answers = ends[0].ask("INFO", "commandstats")
            wait_until(lambda: ends[0].ask("INFO", "commandstats") != answers, "it is tried again")
            assert not writing.done()
        assert writing.result(30) == 0
    gone, left = client.ask("HTTLFIELD", KEY, "FIELDS", 2, "a", "b")
    assert gone == -1 < left


def test_a_write_with_a_deadline_waits_until_the_slot_has_arrived(
    ends: tuple[Node, Node], client: Client
) -> None:
    client.ask("HSET", KEY, "a", 1)
    with ThreadPoolExecutor() as pool:
        with _open(*ends) as carry:
            carry(KEY)
            writing = pool.submit(
                client.ask, "HSETEX", KEY, *BOUNDED, "EX", 100, "FIELDS", 1, "b", 2
            )
            answers = ends[0].ask("INFO", "commandstats")
            wait_until(lambda: ends[0].ask("INFO", "commandstats") != answers, "it is tried again")
            assert not writing.done()
        assert writing.result(30) == 1
    assert client.ask("HTTLFIELD", KEY, "b") in (99, 100)


def test_no_request_is_lost_or_done_twice_while_slots_move(
    masters: Masters, ends: tuple[Node, Node]
) -> None:
    """The next move begins when no request is left that was redirected in the one before: an
    `ASKING` that came late would make the key anew, also from a client without a proxy."""
    moves, source, target = 12, *ends
    rounds = {KEY: 0, OTHER: 0}
    is_over = Event()

    def count(name: bytes) -> int:
        done = 0
        with Connection(masters.proxy.port) as app:
            while not is_over.is_set():
                app.send(command("INCR", name) * 20 + command("GET", b"elsewhere") * 3)
                replies = app.read_many(23)
                done += 20
                assert replies[:20] == [b":%d\r\n" % (done - 19 + at) for at in range(20)]
                rounds[name] += 1
        return done

    with ThreadPoolExecutor() as pool:
        counting = [pool.submit(count, name) for name in rounds]

        def have_begun_anew(before: dict[bytes, int]) -> bool:
            if any(each.done() for each in counting):
                is_over.set()
                raise AssertionError([each.result(60) for each in counting])
            return all(rounds[name] > before[name] + 1 for name in rounds)

        try:
            for _ in range(moves):
                masters.move(SLOT, source, target)
                source, target = target, source
                wait_until(partial(have_begun_anew, dict(rounds)), "what was sent before is done")
        finally:
            is_over.set()
        done = [each.result(60) for each in counting]
    with Client(masters.proxy.port) as client:
        assert [int(client.ask("GET", name)) for name in rounds] == done


def test_a_transaction_is_begun_anew_where_its_slot_has_gone(
    masters: Masters, ends: tuple[Node, Node]
) -> None:
    with Connection(masters.proxy.port) as app:
        assert app.ask("MULTI") == b"+OK\r\n"
        assert app.ask("SET", KEY, 1) == b"+QUEUED\r\n"
        masters.move(SLOT, *ends)
        assert app.ask("INCR", KEY) == b"+QUEUED\r\n"
        assert app.ask("EXEC") == b"*2\r\n+OK\r\n:2\r\n"
        app.send(command("MULTI") + command("INCR", KEY))
        assert app.read_many(2) == [b"+OK\r\n", b"+QUEUED\r\n"]
        masters.move(SLOT, ends[1], ends[0])
        assert app.ask("EXEC") == b"*1\r\n:3\r\n"
    assert ends[0].ask("GET", KEY) == b"3"


def test_watched_keys_that_have_moved_abort(masters: Masters, ends: tuple[Node, Node]) -> None:
    with Connection(masters.proxy.port) as app:
        app.ask("SET", KEY, 1)
        assert app.ask("WATCH", KEY) == b"+OK\r\n"
        masters.move(SLOT, *ends)
        assert app.ask("MULTI") == b"+OK\r\n"
        assert app.ask("SET", KEY, 2) == b"+QUEUED\r\n"
        assert app.ask("EXEC") == b"*-1\r\n"
        assert app.ask("GET", KEY) == b"$1\r\n1\r\n"


def test_a_blocked_request_goes_on_where_its_slot_has_gone(
    masters: Masters, ends: tuple[Node, Node], client: Client
) -> None:
    with Connection(masters.proxy.port) as app:
        app.send(command("BLPOP", KEY, 60))
        wait_until(lambda: b"blocked_clients:1" in ends[0].ask("INFO", "clients"), "it is blocked")
        masters.move(SLOT, *ends)
        client.ask("RPUSH", KEY, "item")
        assert app.read() == b"*2\r\n$%d\r\n%b\r\n$4\r\nitem\r\n" % (len(KEY), KEY)


@pytest.mark.parametrize("protocol", [2, 3])
def test_a_channel_is_subscribed_to_where_its_slot_has_just_gone(
    masters: Masters, ends: tuple[Node, Node], client: Client, protocol: int
) -> None:
    if isinstance(ends[0].ask("PUBSUB", "SHARDCHANNELS"), ResponseError):
        pytest.skip("there are no sharded channels before 7.0")
    with Connection(masters.proxy.port) as app:
        app.ask("HELLO", protocol)
        masters.move(SLOT, *ends)
        assert b"ssubscribe" in app.ask("SSUBSCRIBE", KEY)
        assert client.ask("SPUBLISH", KEY, "hello") == 1
        assert b"hello" in app.read()


def test_a_move_is_noticed_without_a_request(masters: Masters, ends: tuple[Node, Node]) -> None:
    with Client(masters.proxy.port) as client:
        client.ask("HSETEX", KEY, *BOUNDED, "PX", 600, "FIELDS", 1, "a", 1)
        client.ask("HSETEX", KEY, *BOUNDED, "EX", 600, "FIELDS", 1, "b", 1)
        masters.move(SLOT, *ends)
        wait_until(lambda: bool(ends[1].ask("HKEYS", KEY) == [b"b"]), "it is reaped there")


@pytest.mark.parametrize("hears", [True, False])
def test_deadlines_set_while_a_slot_was_away_unnoticed_are_known(
    masters: Masters, ends: tuple[Node, Node], start_proxy: StartProxy, hears: bool
) -> None:
    """One proxy stands still while the slot goes and comes back. The other sets a deadline where
    the slot is then; `hears`: the first one's push connection there stays."""
    source, target = ends
    other, process = start_proxy(source.url), masters.proxy.child
    with Client(masters.proxy.port) as client, Client(other.port) as writer:
        client.ask("HSET", KEY, "a", 1, "b", 2)
        assert writer.ask("HGET", KEY, "a") == b"1"
        own = _pushes_at(target, 1)

        def reaps() -> bool:
            client.ask("HSETEX", OTHER, *BOUNDED, "PX", 1, "FIELDS", 1, "a", 1)
            return bool(source.ask("KEYS", "__ttl:lease*"))

        wait_until(reaps, "somebody reaps")
        for name in source.ask("KEYS", "__ttl:lease*"):
            source.ask("SET", name, "a test", "PX", 60_000)  # and from now on nobody
        process.send_signal(signal.SIGSTOP)
        try:
            masters.move(SLOT, source, target)
            assert writer.ask("HPEXPIREFIELD", KEY, 200, "FIELDS", 1, "a") == [1]
            for each in [] if hears else own:
                assert target.ask("CLIENT", "KILL", "ID", each) == 1
            masters.move(SLOT, target, source)
            start_ms = source.client.now_ms()
            wait_until(lambda: source.client.now_ms() > start_ms + 200, "it is due")
        finally:
            process.send_signal(signal.SIGCONT)
        if hears:
            assert client.ask_many([("PING",), ("HKEYS", KEY)])[1] == [b"b"]
        else:
            wait_until(lambda: bool(client.ask("HKEYS", KEY) == [b"b"]), "nobody sees it", 10)


def _pushes_at(node: Node, first: int) -> list[bytes]:
    """The ids of the push connections at a node: of so many proxies, the first ones."""
    rows = [
        dict(word.split(b"=", 1) for word in line.split() if b"=" in word)
        for line in node.ask("CLIENT", "LIST").splitlines()
    ]
    ids = sorted(
        (row[b"id"] for row in rows if row[b"name"].startswith(b"ttlproxy:pushes")), key=int
    )
    return ids[:first]


# --- rules of ONWRITE


EVAL = ("EVAL", "return redis.call('SADD', KEYS[1], ARGV[1])", 1)


@pytest.fixture
def ruled(client: Client) -> Iterator[Client]:
    assert client.ask("ONWRITE", "{on its way}*", "EX", 1000) == b"OK"
    yield client
    client.ask("ONWRITE", "{on its way}*", "DEL")


def _is_dated(client: Client, key: bytes, element: str) -> None:
    wait_until(lambda: client.ask("STTLMEMBER", key, element) > 0, f"{element} has a deadline")


def test_a_write_that_a_rule_matches_waits_until_the_slot_has_arrived(
    ends: tuple[Node, Node], ruled: Client
) -> None:
    with ThreadPoolExecutor() as pool:
        with _open(*ends):
            writing = pool.submit(ruled.ask, "SADD", KEY, "a")
            answers = ends[0].ask("INFO", "commandstats")
            wait_until(lambda: ends[0].ask("INFO", "commandstats") != answers, "it is tried again")
            assert not writing.done()
        assert writing.result(30) == 1
    assert ruled.ask("STTLMEMBER", KEY, "a") > 0, "in its own step"


def test_what_is_written_on_the_way_by_a_script_of_the_client_gets_its_deadline(
    ends: tuple[Node, Node], ruled: Client
) -> None:
    """Where the key is still, or where it is already, or where it is going to be."""
    assert ruled.ask(*EVAL, KEY, "before") == 1  # from here on the slot is known
    with _open(*ends) as carry:
        assert ruled.ask(*EVAL, KEY, "here") == 1
        assert ruled.ask(*EVAL, OTHER, "there") == 1
        assert ends[1].client.ask_many([("ASKING",), ("SCARD", OTHER)])[1] == 1
        carry(KEY)
        assert ruled.ask(*EVAL, KEY, "there too") == 1
    for key, element in ((KEY, "here"), (KEY, "there too"), (KEY, "before"), (OTHER, "there")):
        _is_dated(ruled, key, element)


def test_what_is_written_just_before_its_slot_goes_gets_its_deadline(
    masters: Masters, ends: tuple[Node, Node], ruled: Client
) -> None:
    """The sweep comes when another master has the slot."""
    source, target = ends
    for number in range(3):
        assert ruled.ask(*EVAL, KEY, f"element {number}") == 1
        masters.move(SLOT, source, target)
        _is_dated(ruled, KEY, f"element {number}")
        source, target = target, source
    if source is not ends[0]:
        masters.move(SLOT, source, target)


@pytest.mark.any_server
def test_nulls_are_in_replies_of_a_server_s_own_hash_commands(valkey_masters: Masters) -> None:
    number = SLOT * 3 // SLOTS
    ends = valkey_masters.nodes[number], valkey_masters.nodes[(number + 1) % 3]
    fields = ("FIELDS", 3, "none", "a", "none")
    with Client(valkey_masters.proxy.port) as client:
        client.ask("SADDEX", FRIEND, 1000, "a")  # so the key's family has deadlines
        client.ask("HSET", KEY, "a", 1, "b", 2)
        with _open(*ends):
            assert client.ask("HGETEX", KEY, "EX", 100, *fields) == [None, b"1", None]
        valkey_masters.move(SLOT, ends[1], ends[0])
        client.ask("DEL", KEY, FRIEND)
