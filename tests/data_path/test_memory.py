"""How much of the proxy's memory clients take: large values, slow readers, many clients."""

from __future__ import annotations

import resource
import select
import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest

from tests.conftest import StartProxy, StartServer
from tests.support.containers import AnyServer
from tests.support.event_loops import both_loops
from tests.support.processes import wait_until
from tests.support.raw_client import RECEIVE_BYTES, Connection, command
from tests.support.server_queries import calls, until_blocked
from tests.support.servers import Proxy, unshared

pytestmark = [pytest.mark.any_server, pytest.mark.slow, pytest.mark.long]

MIB = 1 << 20
KIB = 1 << 10
PATIENCE_S = 100.0
# For one connection, whatever passes: two buffers of 256 KiB, and a chunk on its way. Allocators
# add one to four MiB, from run to run.
CEILING = 6 * MIB
IDLE = 2_000
IDLE_CEILING = 40 * KIB
# Descriptors: the proxy needs two for each connection, the test one.
_DESCRIPTORS = 2 * IDLE + 200


@pytest.fixture
def fresh(server: AnyServer, start_proxy: StartProxy) -> Proxy:
    """A proxy without earlier clients, so it has no free memory left over from them."""
    return start_proxy(server.url)


@contextmanager
def _bounded(proxy: Proxy) -> Iterator[None]:
    """Within the context the proxy's memory never grows by CEILING or more."""
    proxy.forget_peak()
    before = proxy.rss_bytes()
    yield
    assert proxy.peak_bytes() - before < CEILING


def _receive(client: Connection, count: int) -> int:
    """Reads so many bytes and drops them; returns how often the letter v was among them."""
    found = 0
    while count:
        data = client.socket.recv(min(count, RECEIVE_BYTES))
        assert data, f"it ends {count} bytes early"
        count -= len(data)
        found += data.count(b"v")
    return found


@both_loops
def test_values_of_256_mib_pass_without_being_kept(fresh: Proxy) -> None:
    size = 256 * MIB
    with Connection(fresh.port, PATIENCE_S) as client:
        assert client.ask("SET", "large", b"v" * MIB) == b"+OK\r\n"
        with _bounded(fresh):
            client.send(command("PING") * 4 + b"*5\r\n$3\r\nSET\r\n$5\r\nlarge\r\n$%d\r\n" % size)
            for _ in range(size // MIB):
                client.send(b"v" * MIB)
            client.send(b"\r\n$2\r\nEX\r\n$4\r\n1000\r\n" + command("STRLEN", "large"))
            assert client.read_many(6) == [b"+PONG\r\n"] * 4 + [b"+OK\r\n", b":%d\r\n" % size]
            client.send(command("GET", "large"))
            assert _receive(client, len(b"$%d\r\n" % size) + size + 2) == size


@unshared
@both_loops
def test_replies_that_nobody_reads_stay_with_redis(fresh: Proxy, server: AnyServer) -> None:
    count = 128
    with Connection(fresh.port) as lazy, Connection(fresh.port) as busy:
        assert busy.ask("SET", "big", b"v" * MIB) == b"+OK\r\n"
        assert busy.ask("CONFIG", "RESETSTAT") == b"+OK\r\n"
        with _bounded(fresh):
            lazy.send(command("GET", "big") * count)
            wait_until(lambda: calls(server.port, "get") == count, "Redis has answered")
            for _ in range(3000):  # as many passes of the proxy's loop
                busy.ask("PING")
            assert _receive(lazy, count * (MIB + len(b"$1048576\r\n\r\n"))) == count * MIB


@both_loops
def test_a_million_requests_before_the_first_reply_is_read_are_answered(fresh: Proxy) -> None:
    with Connection(fresh.port, PATIENCE_S) as client:
        assert client.ask("SET", "k", "v") == b"+OK\r\n"
        some, replies = command("GET", "k") * 10_000, len(b"$1\r\nv\r\n") * 10_000
        client.send(some)  # the loop allocates some memory once: it is not counted
        _receive(client, replies)
        with _bounded(fresh):
            for _ in range(100):
                client.send(some)
            client.send(command("QUIT"))
            assert _receive(client, 1_000_000 * len(b"$1\r\nv\r\n")) == 1_000_000
        assert client.read_to_end() == b"+OK\r\n"


def _accepted(client: Connection, one: bytes) -> int:
    """How many bytes of such requests can be sent, which are not all that there are."""
    client.socket.setblocking(False)
    accepted = 0
    while accepted < 64 * MIB and select.select([], [client.socket], [], 1.0)[1]:
        accepted += client.socket.send(one[accepted % len(one) :])
    assert accepted < 64 * MIB
    client.socket.settimeout(PATIENCE_S)
    return accepted


def test_requests_that_redis_does_not_read_stay_with_the_client(
    start_server: StartServer, start_proxy: StartProxy
) -> None:
    server = start_server()
    proxy = start_proxy(server.url)
    one = command("SET", "big", b"v" * MIB)
    with Connection(proxy.port) as client:
        assert client.ask("SET", "big", b"v" * MIB) == b"+OK\r\n"
        with _bounded(proxy):
            server.child.send_signal(signal.SIGSTOP)
            try:
                accepted = _accepted(client, one)
            finally:
                server.child.send_signal(signal.SIGCONT)
            client.send(one[accepted % len(one) :] + command("QUIT"))
            assert client.read_to_end() == b"+OK\r\n" * (accepted // len(one) + 2)


def test_requests_behind_one_that_waits_stay_with_the_client(
    fresh: Proxy, server: AnyServer
) -> None:
    one = command("SET", "big", b"v" * MIB)
    with Connection(fresh.port) as client, Connection(fresh.port) as other:
        client.send(command("LEASE", "jobs", "lent", "EX", 100, "BLOCK", 0))
        until_blocked(server.port, 1)
        with _bounded(fresh):
            accepted = _accepted(client, one)
        assert other.ask("RPUSH", "jobs", "a") == b":1\r\n"
        client.send(one[accepted % len(one) :])
        assert client.read() == b"$1\r\na\r\n"
        assert set(client.read_many(accepted // len(one) + 1)) == {b"+OK\r\n"}


@both_loops
def test_two_thousand_idle_clients_take_at_most_40_kib_each(
    start_server: StartServer, start_proxy: StartProxy
) -> None:
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if limit < _DESCRIPTORS:
        pytest.skip(f"a process may have {limit} descriptors here, and {_DESCRIPTORS} are needed")
    server = start_server()
    proxy = start_proxy(server.url)
    with Connection(proxy.port) as first, ExitStack() as stack:
        first.ask("PING")
        before = proxy.rss_bytes()
        for _ in range(IDLE):
            client = stack.enter_context(Connection(proxy.port))
            assert client.ask("PING") == b"+PONG\r\n"
        assert (proxy.rss_bytes() - before) / IDLE < IDLE_CEILING
