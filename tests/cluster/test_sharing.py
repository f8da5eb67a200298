"""Clients that share connections to the masters of a Cluster (--share-upstream): each gets its own
replies, whatever happens to a master. All else is tested by the other tests of this folder with
TTLPROXY_TEST_SHARE=2."""

from __future__ import annotations

import signal
import socket
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from random import Random

import pytest
from redis.cluster import LoadBalancingStrategy, RedisCluster

from tests.docs.programs import asked, tool
from tests.support.admin_pages import FLAGS, becomes, metric, pages
from tests.support.cluster import Node
from tests.support.masters import KEYS, Masters
from tests.support.processes import wait_until
from tests.support.raw_client import Connection, command
from tests.support.server_queries import connections
from tests.support.servers import Proxy
from ttlproxy.core.keys import slot

ONE, TWO, THREE = KEYS
CLIENTS = 4
OK = b"+OK\r\n"
MIB = 1 << 20


@pytest.fixture(scope="module")
def sharing(shared_masters: Masters) -> Iterator[Proxy]:
    url = shared_masters.nodes[0].url
    proxy = Proxy(url, "--share-upstream", "1", *FLAGS, forked=True).start()
    yield proxy
    proxy.remove()


@pytest.fixture
def sharers(masters: Masters, sharing: Proxy) -> Iterator[list[Connection]]:
    """Each shares a connection to each master."""
    with ExitStack() as ends:
        clients = [ends.enter_context(Connection(sharing.port)) for _ in range(CLIENTS)]
        for client in clients:
            for key in KEYS:
                assert client.ask("SUBSTR", key, 0, 0) == b"$0\r\n\r\n"
        yield clients


def _ids(node: Node, last: str) -> set[str]:
    """Of the connections whose last command was this."""
    return {each["id"] for each in connections(node.port) if each["cmd"] == last}


def test_clients_share_one_connection_to_each_master(
    masters: Masters, sharers: list[Connection]
) -> None:
    for client in sharers:
        for key in KEYS:
            client.ask("STRLEN", key)
    _until_connections(masters, "strlen", 1)


def _until_connections(masters: Masters, last: str, at_each: int) -> None:
    """So many at each master have this as their last command: those of tests before end late."""
    try:
        wait_until(
            lambda: all(len(_ids(node, last)) == at_each for node in masters.nodes),
            f"{at_each} with {last} at each master",
        )
    except TimeoutError as late:
        there = b"\n".join(node.ask("CLIENT", "LIST") for node in masters.nodes)
        raise TimeoutError(f"{late}; there are:\n{there.decode()}") from None


def _stream(name: str, random: Random) -> list[bytes]:
    """Chunks of requests on keys of one client, at all masters."""
    chunks = []
    for _ in range(30):
        chunk = b""
        for _ in range(random.choice((1, 1, 1, 3, 16))):
            key = f"{name}:{random.randrange(12)}"
            chunk += random.choice(
                (
                    command("HSETEX", f"h{key}", "EX", 1000, "FIELDS", 2, "f", "v", "g", "w" * 99),
                    command("HGETALL", f"h{key}"),
                    command("HDEL", f"h{key}", "f"),
                    command("SET", key, random.randbytes(random.choice((1, 3000)))),
                    command("GET", key),
                    command("INCR", f"n{key}"),
                    command("LPUSH", key, "wrong type, or not"),
                    command("MGET", key, f"{name}:1", f"{name}:2"),
                    command("DEL", key, f"n{key}", f"h{key}"),
                    command("ECHO", key),
                    command("NOSUCH", key) if random.random() < 0.02 else command("TYPE", key),
                )
            )
        chunks.append(chunk)
    return chunks


def _replies(port: int, streams: list[list[bytes]]) -> list[bytes]:
    """What each client has got; their chunks come between each other."""
    order = [at for at, chunks in enumerate(streams) for _ in chunks]
    Random(1).shuffle(order)
    left = [iter(chunks) for chunks in streams]
    with ExitStack() as ends:
        clients = [ends.enter_context(Connection(port)) for _ in streams]
        for at in order:
            clients[at].send(next(left[at]))
        for client in clients:
            client.half_close()
        return [client.read_to_end() for client in clients]


@pytest.mark.parametrize("seed", range(3))
def test_replies_are_those_without_sharing(masters: Masters, sharing: Proxy, seed: int) -> None:
    random = Random(seed)
    streams = [_stream(name, random) for name in "abcd"]
    expected = _replies(masters.proxy.port, streams)
    masters.flush()
    assert _replies(sharing.port, streams) == expected


@pytest.fixture
def on_its_way(masters: Masters) -> Iterator[tuple[Node, Node]]:
    """The slot of ONE is open: its master and the one that gets it. It is back at the end."""
    source, target = masters.owner(ONE), masters.owner(TWO)
    assert target.ask("CLUSTER", "SETSLOT", slot(ONE), "IMPORTING", source.id) == b"OK"
    assert source.ask("CLUSTER", "SETSLOT", slot(ONE), "MIGRATING", target.id) == b"OK"
    yield source, target
    for node in (target, source):
        node.ask("CLUSTER", "SETSLOT", slot(ONE), "NODE", target.id)
    masters.move(slot(ONE), target, source)


def test_a_slot_that_moves_is_followed(
    masters: Masters, sharers: list[Connection], on_its_way: tuple[Node, Node]
) -> None:
    """All at once ask for keys that are not there any more (ASK), then for a slot (MOVED)."""
    source, target = on_its_way
    assert target.ask("GET", TWO) is None
    chunk = b"".join(command("INCRBY", key, 1) for key in (TWO, ONE, THREE, ONE, TWO))

    def all_ask() -> list[list[int]]:
        for client in sharers:
            client.send(chunk)
        return [[int(reply[1:]) for reply in client.read_many(5)] for client in sharers]

    told = all_ask()
    for node in (target, source):
        assert node.ask("CLUSTER", "SETSLOT", slot(ONE), "NODE", target.id) == b"OK"
    told += all_ask()
    ones = sorted(number for each in told for number in (each[1], each[3]))
    assert ones == list(range(1, 4 * CLIENTS + 1))
    assert all(each[1] < each[3] and each[0] < each[4] for each in told)
    assert sorted(each[2] for each in told) == list(range(1, 2 * CLIENTS + 1))
    assert int(target.ask("GET", ONE)) == 4 * CLIENTS
    _until_connections(masters, "incrby", 1)


def test_a_master_that_hangs_holds_up_only_who_waits_for_it(
    masters: Masters, sharers: list[Connection]
) -> None:
    node = masters.owner(ONE)
    sharers[0].ask("SET", THREE, "mine")
    node.child.send_signal(signal.SIGSTOP)
    try:
        for number, client in enumerate(sharers[:2]):
            for _ in range(60):
                client.send(command("SET", ONE, b"%d" % number * 60_000))
            client.send(command("GET", ONE))
        for client in sharers[2:]:
            assert client.ask("GET", THREE) == b"$4\r\nmine\r\n"
    finally:
        node.child.send_signal(signal.SIGCONT)
    for client in sharers[:2]:
        assert client.read_many(60) == [OK] * 60
        assert client.read().startswith(b"$60000\r\n")


def test_a_lost_connection_is_made_anew(
    masters: Masters, sharers: list[Connection], sharing: Proxy
) -> None:
    admin, shown = pages(sharing), "ttlproxy_shared_connections"
    left = metric(admin, shown) - len(masters.nodes)
    for node in masters.nodes:
        (shared,) = _ids(node, "substr")
        assert node.ask("CLIENT", "KILL", "ID", shared) == 1
    becomes(admin, left, shown)  # whoever sends before is owed a reply, and is closed
    for number, client in enumerate(sharers):
        for key in KEYS:
            assert client.ask("ECHO", f"{number}") == b"$1\r\n%d\r\n" % number
            assert client.ask("APPEND", key, "x") == b":%d\r\n" % (number + 1)


def test_state_has_connections_of_its_own(masters: Masters, sharers: list[Connection]) -> None:
    first, second, *_ = sharers
    chunk = b"".join(
        command(*words) for words in (("SET", ONE, 1), ("MULTI",), ("INCR", ONE), ("INCR", TWO))
    )
    first.send(chunk)
    assert first.read_many(3) == [OK, OK, b"+QUEUED\r\n"]
    assert second.ask("INCR", ONE) == b":2\r\n"
    assert first.read().startswith(b"-CROSSSLOT")
    assert first.ask("EXEC").startswith(b"-EXECABORT")
    for key in KEYS:
        first.ask("STRLEN", key)
        second.ask("STRLEN", key)
    _until_connections(masters, "strlen", 2)


@pytest.mark.parametrize(
    "words",
    [
        *(("CLUSTER", word) for word in ("SLOTS", "SHARDS", "NODES", "MYID", "INFO")),
        ("CLUSTER", "KEYSLOT", "k"),
        ("cluster", "countkeysinslot", 9),
        ("COMMAND",),
        ("CONFIG", "GET", "maxmemory"),
        ("READONLY",),
        ("SCRIPT", "LOAD", "return 1"),
    ],
    ids=lambda words: " ".join(map(str, words)),
)
def test_what_clients_of_clusters_ask_before_all_else_makes_no_state(
    masters: Masters, sharers: list[Connection], words: tuple[str | int, ...]
) -> None:
    """Its reply has its place among those of three masters."""
    first, other, *_ = sharers
    with Connection(masters.proxy.port) as plain:
        expected = plain.ask(*words)
    pieces = [command("SUBSTR", key, 0, 0) for key in KEYS]
    first.send(command(*words).join([*pieces, b""]) + command("ECHO", "me"))
    replies = first.read_many(7)
    assert replies[::2] == [b"$0\r\n\r\n"] * 3 + [b"$2\r\nme\r\n"]
    if words[1:] not in (("SLOTS",), ("SHARDS",), ("NODES",), ("INFO",)):
        assert replies[1::2] == [expected] * 3
    assert not any(reply.startswith(b"-") for reply in replies)
    for client in (first, other):
        for key in KEYS:
            client.ask("STRLEN", key)
    _until_connections(masters, "strlen", 1)


def test_clients_of_clusters_share_from_their_first_connections_on(
    masters: Masters, sharing: Proxy
) -> None:
    by_turns = LoadBalancingStrategy.ROUND_ROBIN  # so that they send READONLY
    with ExitStack() as ends:
        for _ in range(3):
            made = RedisCluster("127.0.0.1", sharing.port, load_balancing_strategy=by_turns)
            client = ends.enter_context(closing(made))
            for key in KEYS:
                assert client.bitcount(key) == 0
        _until_connections(masters, "bitcount", 1)


def _names(keys: Sequence[bytes]) -> list[str]:
    return [key.decode() for key in keys]


def test_cluster_clients_of_ioredis_and_node_redis_share(
    masters: Masters, sharing: Proxy, ioredis: Path
) -> None:
    words = [tool("node"), "sharing.mjs", str(sharing.port), *_names(KEYS)]
    with asked(words, ioredis):  # one connection for each version of the protocol
        _until_connections(masters, "getbit", 2)


@pytest.mark.slow
def test_cluster_clients_of_go_redis_share(
    masters: Masters, sharing: Proxy, go_sharing: Path
) -> None:
    words = [str(go_sharing / "sharing"), str(sharing.port), *_names(KEYS)]
    with asked(words, go_sharing):  # no test leaves a connection with this command last
        _until_connections(masters, "getrange", 1)


def test_who_has_begun_in_another_protocol_shares_again(
    masters: Masters, sharing: Proxy, sharers: list[Connection]
) -> None:
    with ExitStack() as ends:
        others = [ends.enter_context(Connection(sharing.port)) for _ in range(3)]
        for client in others:
            client.send(command("HELLO", 3, "SETNAME", "me") + command("HSET", ONE, "f", 1))
            assert client.read().startswith(b"%")
            client.read()
            assert client.ask("HGETALL", ONE).startswith(b"%1")
            client.ask("STRLEN", TWO)
        sharers[0].ask("STRLEN", TWO)
        assert sharers[0].ask("HGETALL", ONE).startswith(b"*2")
        assert len(_ids(masters.owner(TWO), "strlen")) == 2


def test_who_does_not_read_does_not_hold_up_others(
    masters: Masters, sharers: list[Connection]
) -> None:
    slow, other, *_ = sharers
    # Else the kernel may take all of the replies: its buffer grows as they come.
    slow.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)
    other.ask("SETRANGE", ONE, MIB - 1, "s")
    for _ in range(12):
        slow.send(command("GET", ONE))
        assert other.ask("STRLEN", ONE) == b":%d\r\n" % MIB
    assert {len(reply) for reply in slow.read_many(12)} == {MIB + len("$1048576\r\n\r\n")}
    assert slow.ask("STRLEN", ONE) == b":%d\r\n" % MIB
    assert len(_ids(masters.owner(ONE), "strlen")) == 2  # it has left


def test_a_lost_connection_ends_who_is_owed_replies(
    masters: Masters, sharers: list[Connection]
) -> None:
    node, (waiting, *others) = masters.owner(ONE), sharers
    (shared,) = _ids(node, "substr")
    assert node.ask("CLIENT", "PAUSE", 20_000, "WRITE") == b"OK"
    try:
        waiting.send(command("GET", TWO) + command("INCR", ONE) + command("GET", THREE))
        assert waiting.read() == b"$-1\r\n"
        wait_until(lambda: _ids(node, "incr") == {shared}, "Redis holds it")
        assert node.ask("CLIENT", "KILL", "ID", shared) == 1
    finally:
        node.ask("CLIENT", "UNPAUSE")
    assert waiting.read_to_end() == b""
    for client in others:
        for key in KEYS:
            assert client.ask("STRLEN", key) == b":0\r\n"
