"""What is kept for clients that share a connection to Redis is bounded, also where one side does
not keep up."""

from __future__ import annotations

import os
import re
import select
import signal
from contextlib import suppress
from typing import Final

from tests.conftest import StartProxy, StartServer
from tests.support.admin_pages import FLAGS, Pages, families, metric, pages
from tests.support.processes import wait_until
from tests.support.raw_client import Connection, command
from tests.support.redis_client import Client

MIB: Final = 1 << 20
# More than all buffers of the sockets on the way.
MUCH: Final = 64 * MIB
REQUEST: Final = command("SET", "k", "v" * 1000) * 50
# So long it takes nothing before it counts as not being read.
PATIENCE_S: Final = 1.0
ECHO: Final = b"$4\r\nmine\r\n"


class _Flood:
    """Requests that a client sends without reading. sent: how many bytes the proxy has taken"""

    def __init__(self, client: Connection) -> None:
        self.sent = 0
        self._socket = client.socket
        self._socket.setblocking(False)
        self._rest = b""

    def goes_on(self) -> bool:
        """Sends what is taken, at most some more than MUCH."""
        with suppress(BlockingIOError):
            while self.sent < MUCH:
                self._rest = self._rest or REQUEST
                size = self._socket.send(self._rest)
                self._rest, self.sent = self._rest[size:], self.sent + size
        return True


def _taken(client: Connection) -> int:
    """The bytes of requests that can be sent to the proxy, at most some more than MUCH."""
    flood = _Flood(client)
    while flood.goes_on() and flood.sent < MUCH:
        if not select.select([], [client.socket], [], PATIENCE_S)[1]:
            break
    return flood.sent


def _kept_in_redis(direct: Client) -> int:
    """Bytes of replies that Redis keeps for clients of database 1."""
    found = re.findall(rb" db=1 .* omem=(\d+)", direct.ask("CLIENT", "LIST"))
    return sum(map(int, found))


def _connections(admin: Pages) -> float:
    """Clients' connections to Redis."""
    return sum(each.value for each in families(admin)["ttlproxy_node_connections"].samples)


def _waits(admin: Pages) -> float:
    """Bytes that wait for Redis."""
    return metric(admin, "ttlproxy_buffered_bytes", to="redis")


def test_a_client_that_joins_a_connection_that_redis_does_not_read_is_not_read_either(
    start_server: StartServer, start_proxy: StartProxy
) -> None:
    redis = start_server()
    proxy = start_proxy(redis.url, "--share-upstream", "1", *FLAGS)
    admin = pages(proxy)
    with Connection(proxy.port) as one:
        assert one.ask("ECHO", "mine") == ECHO
        os.kill(redis.pid, signal.SIGSTOP)
        try:
            flood = _Flood(one)
            wait_until(lambda: flood.goes_on() and _waits(admin) > 0, "requests that wait")
            with Connection(proxy.port) as other:
                assert _taken(other) < MUCH
        finally:
            os.kill(redis.pid, signal.SIGCONT)


def test_requests_that_wait_for_a_new_connection_are_bounded(
    start_server: StartServer, start_proxy: StartProxy
) -> None:
    redis = start_server("--requirepass", "word")
    url = f"redis://:word@127.0.0.1:{redis.port}"
    proxy = start_proxy(url, "--share-upstream", "1", *FLAGS)
    admin = pages(proxy)
    with Connection(redis.port) as direct, Connection(proxy.port) as client:
        assert direct.ask("AUTH", "word") == client.ask("AUTH", "word") == b"+OK\r\n"
        assert client.ask("ECHO", "mine") == ECHO
        (shared,) = re.findall(rb"id=(\d+) .*cmd=echo ", direct.ask("CLIENT", "LIST"))
        connections = _connections(admin)
        assert direct.ask("CLIENT", "KILL", "ID", shared) == b":1\r\n"
        wait_until(lambda: _connections(admin) < connections, "the proxy knows it")
        os.kill(redis.pid, signal.SIGSTOP)
        try:
            assert _taken(client) < MUCH
        finally:
            os.kill(redis.pid, signal.SIGCONT)
        client.socket.setblocking(True)
        assert client.read() == b"+OK\r\n", "it goes on"


def test_redis_waits_for_a_client_that_reads_slowly_when_it_leaves(
    start_proxy: StartProxy, start_server: StartServer
) -> None:
    """The server is its own: after many families of other tests SET is a script call."""
    value, few, many, server = b"v" * MIB, 20, 60, start_server()
    direct = Client(server.port)
    for db in (1, 0):
        assert direct.ask_many([("SELECT", db), ("SET", "k", value)]) == [b"OK", b"OK"]
    proxy = start_proxy(server.url, "--share-upstream", "1", *FLAGS)
    admin = pages(proxy)
    with Connection(proxy.port) as slow, Connection(proxy.port) as other:
        direct.ask("CLIENT", "PAUSE", 60_000, "WRITE")
        try:
            slow.send(command("SET", "other", "v") + command("GET", "k") * few)
            wait_until(lambda: b" cmd=set " in direct.ask("CLIENT", "LIST"), "Redis has it")
            slow.send(command("SELECT", 1) + command("GET", "k") * many)
            wait_until(lambda: metric(admin, "ttlproxy_held_connections") > 0, "it leaves")
        finally:
            direct.ask("CLIENT", "UNPAUSE")
        wait_until(lambda: _kept_in_redis(direct) > 0, "Redis has replies for it")
        for _ in range(few * many):  # time enough for the proxy to take all
            assert other.ask("ECHO", "mine") == ECHO
        assert _kept_in_redis(direct) > many * MIB / 2
        ok, big = b"+OK\r\n", b"$%d\r\n%b\r\n" % (MIB, value)
        assert slow.read_many(2 + few + many) == [ok] + [big] * few + [ok] + [big] * many
    direct.close()


def test_a_client_that_reads_nothing_before_its_last_request_is_taken_goes_on(
    serve: StartProxy, direct: Client
) -> None:
    """What it has not read is more than sockets take, before it sends as much again."""
    proxy = serve("--share-upstream", "1", *FLAGS)
    value, many, few = b"v" * MIB, 40, 24
    part, count = value[: 16 * 1024], few * 64
    direct.ask("SET", "k", value)
    with Connection(proxy.port) as slow, Connection(proxy.port) as other:
        slow.send(command("GET", "k") * many)
        assert other.ask("ECHO", "mine") == ECHO, "the proxy has all replies to the first"
        for _ in range(count):
            slow.send(command("ECHO", part))
        assert slow.read_many(many) == [b"$%d\r\n%b\r\n" % (MIB, value)] * many
        assert set(slow.read_many(count)) == {b"$%d\r\n%b\r\n" % (len(part), part)}
        assert metric(pages(proxy), "ttlproxy_sharing_left_total", reason="unread") == 1


def test_a_client_that_has_read_all_while_its_own_connection_begins_goes_on(
    start_server: StartServer, start_proxy: StartProxy
) -> None:
    """The proxy stopped to read for it as long as it did not keep up."""
    redis, count = start_server(), 20
    proxy = start_proxy(redis.url, "--share-upstream", "1", *FLAGS)
    admin, value = pages(proxy), b"v" * MIB
    with Connection(proxy.port) as client, Connection(proxy.port) as other:
        with Connection(redis.port) as direct:
            assert direct.ask("SET", "k", value) == b"+OK\r\n"
        client.send(command("GET", "k") * count)
        assert other.ask("ECHO", "mine") == ECHO, "the proxy has all replies to the first"
        connections = _connections(admin)
        os.kill(redis.pid, signal.SIGSTOP)
        try:
            client.send(command("SELECT", 1))
            wait_until(lambda: _connections(admin) > connections, "it has its own")
            big = b"$%d\r\n%b\r\n" % (MIB, value)
            assert client.read_many(count) == [big] * count
        finally:
            os.kill(redis.pid, signal.SIGCONT)
        assert client.read() == b"+OK\r\n"


def test_replies_that_a_client_does_not_read_end_it_at_the_limit_for_all(
    serve: StartProxy, direct: Client
) -> None:
    limit, count, value = 16 * MIB, 64, b"v" * MIB
    proxy = serve("--share-upstream", "1", "--max-buffer-bytes", str(limit))
    direct.ask("SET", "k", value)
    with Connection(proxy.port) as lazy, Connection(proxy.port) as other:
        assert other.ask("ECHO", "mine") == ECHO
        proxy.forget_peak()
        before = proxy.rss_bytes()
        lazy.send(command("GET", "k") * count)
        assert other.ask("ECHO", "mine") == ECHO
        assert proxy.peak_bytes() - before < limit + 8 * MIB
        with suppress(ConnectionResetError):
            assert len(lazy.read_to_end()) < count * MIB
