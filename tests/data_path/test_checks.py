"""Reads of keys of which a proxy knows nothing: they go at once, behind a check on the client's own
connection. What is due there is never seen."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack

import pytest
from redis.exceptions import ResponseError

from tests.conftest import StartProxy, StartServer
from tests.support.containers import AnyServer
from tests.support.deadlines import give_one_of_all, until_past
from tests.support.processes import wait_until
from tests.support.raw_client import Connection, command
from tests.support.redis_client import Client, Word
from tests.support.server_queries import calls, monitored, received
from tests.support.servers import Proxy
from ttlproxy.core.keys import Keys

KEYS = Keys()
FAR_MS = 4_000_000_000_000
LARGE = "x" * 300_000
FILL: Sequence[tuple[Word, ...]] = (
    ("SET", "string", "a\r\nb"),
    ("SET", "large", LARGE),
    ("SET", "empty", ""),
    ("HSET", "hash", "f", "v", "g", "w"),
    ("SADD", "set", "m"),
    ("ZADD", "zset", "1.5", "m", 2, "n"),
    ("RPUSH", "list", "a", "b", "c"),
    ("XADD", "stream", "1-1", "f", "v"),
    ("GEOADD", "geo", "13.4", "52.5", "berlin"),
)
# Each of another reply: strings, nulls, numbers, errors, nested arrays, maps and sets of RESP3.
READS: Sequence[tuple[Word, ...]] = (
    ("GET", "string"),
    ("GET", "large"),
    ("GET", "empty"),
    ("GET", "none"),
    ("GET", "hash"),
    ("HGETALL", "hash"),
    ("HGETALL", "none"),
    ("HMGET", "hash", "f", "no", "g"),
    ("SMEMBERS", "set"),
    ("SISMEMBER", "set", "m"),
    ("ZRANGE", "zset", 0, -1, "WITHSCORES"),
    ("ZSCORE", "zset", "m"),
    ("LRANGE", "list", 0, -1),
    ("LINDEX", "list"),
    ("XRANGE", "stream", "-", "+"),
    ("GEOPOS", "geo", "berlin", "no"),
    ("TTL", "string"),
)


@pytest.fixture
def server(start_server: StartServer) -> AnyServer:
    """Of which proxies know no more than that each key may have deadlines."""
    server = start_server()
    with Client(server.port) as direct:
        give_one_of_all(direct)
    return server


@pytest.fixture
def proxy(server: AnyServer, start_proxy: StartProxy) -> Proxy:
    return start_proxy(server.url, asks=True)


@pytest.fixture
def direct(server: AnyServer) -> Iterator[Client]:
    with Client(server.port) as client:
        yield client


def _kept(direct: Client, *members: str) -> None:
    """Sets that nobody reaps by himself, whose members have been due for long."""
    direct.ask("SET", KEYS.lease, "a test", "PX", 600_000)
    for key in members:
        direct.ask("SADD", key, "m")
        direct.ask("ZADD", KEYS.index(key.encode()), 1, "m")
        direct.ask("ZADD", KEYS.schedule, 1, key)


def _is_checked(server: AnyServer, client: Connection, *words: str) -> bool:
    """Whether a read goes behind a check, over the client's own connection."""
    names = received(server.port, client, *words)
    assert names in ([b"zmscore", words[0].lower().encode()], [words[0].lower().encode()])
    return len(names) == 2


@pytest.mark.parametrize("protocol", [2, 3])
@pytest.mark.parametrize("together", [1, 64])
def test_the_replies_are_redis_s_own(
    server: AnyServer, proxy: Proxy, direct: Client, protocol: int, together: int
) -> None:
    direct.ask_many(FILL)
    reads = [command(*words) for words in (*READS, *READS, *READS, *READS)][:64]
    with Connection(server.port) as plain, Connection(proxy.port) as client:
        for each in (plain, client):
            each.ask("HELLO", protocol)
        for at in range(0, len(reads), together):
            for each in (plain, client):
                each.send(b"".join(reads[at : at + together]))
            assert client.read_many(together) == plain.read_many(together)
        asked = reads.count(command("GEOPOS", "geo", "berlin", "no"))
        assert calls(server.port, "geopos") == 2 * asked, "each is carried out once"
        assert _is_checked(server, client, "GEOPOS", "geo", "berlin")


def test_a_read_costs_one_request_more_and_no_round_trip(server: AnyServer, proxy: Proxy) -> None:
    """However often the key is named, and all keys of a pipeline together."""
    with Connection(server.port) as monitor, Connection(proxy.port) as client:
        monitor.ask("MONITOR")
        for count in (1, 1, 50):
            client.send(b"".join(command("GET", f"k:{number}") for number in range(count)))
            assert client.read_many(count) == [b"$-1\r\n"] * count
            seen: list[bytes] = []
            while sum(b'"GET"' in line for line in seen) < count:
                seen.append(monitor.read())
            address = seen[-1].split(b"]")[0].split()[-1]
            check, *reads = (line for line in seen if line.split(b"]")[0].endswith(b" " + address))
            keys = b" ".join(b'"k:%d"' % number for number in range(count))
            assert check.strip().endswith(b'"ZMSCORE" "%b" %b' % (KEYS.schedule, keys))
            assert len(reads) == count


@pytest.mark.parametrize("live", [0, 1])
def test_due_elements_are_never_shown(proxy: Proxy, direct: Client, live: int) -> None:
    _kept(direct, "due", "also")
    direct.ask("SET", "plain", "v")
    for number in range(live):
        direct.ask("SADD", "due", f"live:{number}")
    with Client(proxy.port) as client:
        reads = (("GET", "plain"), ("SMEMBERS", "due"), ("SISMEMBER", "also", "m"), ("GET", "no"))
        left = [b"live:%d" % number for number in range(live)]
        assert client.ask_many(reads) == [b"v", left, 0, None]
        assert client.ask_many(reads) == [b"v", left, 0, None]


@pytest.mark.parametrize("together", [1, 64])
def test_each_of_several_clients_gets_one_reply_to_each_read_in_order(
    proxy: Proxy, direct: Client, together: int
) -> None:
    """While something is due in keys that all of them name."""
    count = 64
    direct.ask_many([("SET", f"plain:{number}", number) for number in range(count)])
    due = [f"due:{number}" for number in range(0, count, 5)]
    _kept(direct, *due)
    sent, wanted = list[bytes](), list[bytes]()
    for number in range(count):
        is_due = number % 5 == 0
        sent.append(
            command("SCARD", f"due:{number}") if is_due else command("GET", f"plain:{number}")
        )
        wanted.append(b":0\r\n" if is_due else b"$%d\r\n%d\r\n" % (len(f"{number}"), number))
    with ExitStack() as stack:
        clients = [stack.enter_context(Connection(proxy.port)) for _ in range(4)]
        for at in range(0, count, together):
            for each in clients:
                each.send(b"".join(sent[at : at + together]))
            for each in clients:
                assert each.read_many(together) == wanted[at : at + together]
    assert direct.ask("EXISTS", *due) == 0


def test_something_else_in_the_place_of_the_schedule_hides_nothing_that_is_due(
    server: AnyServer, proxy: Proxy, direct: Client
) -> None:
    """Once a reap has put a schedule there again."""
    _kept(direct, "due", "also")
    direct.ask("SET", "plain", "v")
    direct.ask("SET", KEYS.schedule, "junk")
    with Connection(proxy.port) as client:
        client.send(command("GET", "plain") + command("SCARD", "due"))
        assert client.read_many(2) == [b"$1\r\nv\r\n", b":0\r\n"]
        wait_until(lambda: _is_read(direct, "also"), "the rest of the schedule is there, too")
        assert client.ask("SISMEMBER", "also", "m") == b":0\r\n"
        assert client.ask("GET", "plain") == b"$1\r\nv\r\n"


def _is_read(direct: Client, key: str) -> bool:
    """Whether the schedule tells that something is due in the key, or the key is gone."""
    score = direct.ask("ZSCORE", KEYS.schedule, key)
    return not (score is None or isinstance(score, ResponseError)) or not direct.ask("EXISTS", key)


def test_a_deadline_that_another_proxy_has_just_set_is_met(proxy: Proxy, serve: StartProxy) -> None:
    other = serve(asks=True)
    with Connection(proxy.port) as reader, Connection(other.port) as writer:
        for number in range(20):
            key = f"h:{number}"
            writer.ask("HSETEX", key, "PX", 5, "FIELDS", 1, "f", "v")
            until_past(writer, int(writer.ask("HPEXPIRETIMEFIELD", key, "f")[1:]))
            assert reader.ask("HGET", key, "f") == b"$-1\r\n"


# What a client may do before, and its reads are checked all the same.
COUNTED: Sequence[Sequence[tuple[Word, ...]]] = (
    [("HELLO", 3)],
    [("CLIENT", "SETNAME", "me"), ("client", "SetInfo", "lib-name", "x"), ("CLIENT", "ID")],
    [("SELECT", 3), ("CONFIG", "GET", "maxmemory"), ("INFO", "server")],
    [("SELECT", 99)],
    [("SET", "a", 1), ("INCR", "a"), ("SADDEX", "s", 100, "m"), ("SCAN", 0)],
    [("MULTI",), ("SET", "a", 1), ("GET", "a"), ("EXEC",), ("EXEC",)],
    [("WATCH", "a"), ("MULTI",), ("DISCARD",), ("UNWATCH",)],
    [("EVAL", "return {1, {2, 'x'}}", 0), ("PUBLISH", "nobody", "x")],
)
# After these nobody can tell for certain how many replies are owed.
UNCOUNTED: Sequence[Sequence[bytes]] = (
    [b"PING\r\n"],
    [command("SUBSCRIBE", "a", "b"), command("UNSUBSCRIBE")],
    [command("UnSubscribe", "a", "b", "c")],
    [command("CLIENT", "TRACKING", "ON")],
    [command("CLIENT", "REPLY", "SKIP"), command("PING"), command("PING")],
    [command("BLPOP", "none", "0.01")],
    [command("NO.SUCH.COMMAND")],
    [command("SET", "a", "b")[:-3], command("SET", "a", "b")[-3:]],
)


@pytest.mark.parametrize("at_once", [False, True])
def test_reads_are_checked_as_long_as_all_replies_are_counted(
    server: AnyServer, proxy: Proxy, at_once: bool
) -> None:
    for requests in COUNTED:
        with Connection(proxy.port) as client:
            if at_once:
                client.send(b"".join(command(*words) for words in requests))
                client.read_many(len(requests))
            else:
                for words in requests:
                    client.ask(*words)
            assert client.ask("STRLEN", "new") == b":0\r\n", requests
            assert _is_checked(server, client, "STRLEN", "new"), requests


def test_reads_wait_for_the_link_if_replies_are_not_counted(
    server: AnyServer, proxy: Proxy, direct: Client
) -> None:
    direct.ask("SADD", "due", "live")
    for packets in UNCOUNTED:
        _kept(direct, "due")
        with Connection(proxy.port) as client, Connection(server.port) as monitor:
            for packet in packets:
                client.send(packet)
            monitor.ask("MONITOR")
            client.send(command("ECHO", "they all came") + command("SCARD", "due"))
            while client.read() != b"$13\r\nthey all came\r\n":
                pass
            assert client.read() == b":1\r\n", packets
            seen = monitored(monitor, b'"SCARD"')
        own = seen[-1].split(b"]")[0].split()[-1]
        assert not any(b'"ZMSCORE"' in line and own in line for line in seen), packets


def test_reads_behind_a_login_are_checked(server: AnyServer, start_proxy: StartProxy) -> None:
    with Client(server.port) as direct:
        direct.ask("CONFIG", "SET", "requirepass", "word")
    proxy = start_proxy(f"redis://:word@127.0.0.1:{server.port}", asks=True)
    with Connection(proxy.port) as client:
        assert client.ask("GET", "new").startswith(b"-NOAUTH")
        assert client.ask("AUTH", "wrong").startswith(b"-WRONGPASS")
        client.send(command("AUTH", "word") + command("GET", "new") + command("GET", "newer"))
        assert client.read_many(3) == [b"+OK\r\n", b"$-1\r\n", b"$-1\r\n"]
        with Connection(server.port) as monitor:
            monitor.ask("AUTH", "word")
            monitor.ask("MONITOR")
            assert client.ask("GET", "third") == b"$-1\r\n"
            seen = monitored(monitor, b'"GET"')
        assert b'"ZMSCORE"' in seen[-2]


def test_reads_that_are_sent_without_waiting_are_all_answered(proxy: Proxy, direct: Client) -> None:
    _kept(direct, "k:500", "k:1500")
    count = 2000
    direct.ask_many([("SADD", f"k:{number}", "n") for number in range(0, count, 2)])
    with Connection(proxy.port) as client:
        for number in range(count):
            client.send(command("SMEMBERS", f"k:{number}"))
        replies = client.read_many(count)
    assert replies == [b"*0\r\n" if number % 2 else b"*1\r\n$1\r\nn\r\n" for number in range(count)]
