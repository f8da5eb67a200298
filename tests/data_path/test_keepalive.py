"""TCP keepalive on both sides, as the kernel reports it: Linux only."""

import asyncio
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import StartProxy
from tests.support.containers import AnyServer
from tests.support.processes import wait_until
from tests.support.raw_client import Connection
from tests.support.worker_counts import alone_or_with
from ttlproxy.addresses import Upstream
from ttlproxy.link.connecting.connections import client as to_redis
from ttlproxy.link.connecting.connections import plain_socket

KEEPALIVE = "02"  # the timer of /proc/net/tcp (net/ipv4/tcp_ipv4.c, get_tcp4_sock)
SECONDS = 1234
OWN_SECONDS = 15  # of the proxy's own connections, unless the setting is shorter
TICKS = 100  # a second (USER_HZ)


def _timers(port: int, *, remote: bool) -> Iterator[tuple[str, float]]:
    """Kind and remaining seconds of the timers of established connections from or to a port."""
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        row = line.split()
        if row[2 if remote else 1].endswith(f":{port:04X}") and row[3] == "01":
            kind, left = row[5].split(":")
            yield kind, int(left, 16) / TICKS


def _probed(port: int, seconds: int) -> int:
    """How many connections to a port from here have a keepalive timer of about so many seconds."""
    return sum(
        kind == KEEPALIVE and seconds * 0.9 < left <= seconds
        for kind, left in _timers(port, remote=True)
    )


@alone_or_with(2)
def test_both_sides_are_probed_as_the_setting_says(
    start_proxy: StartProxy, server: AnyServer, workers: int
) -> None:
    proxy = start_proxy(server.url, "--tcp-keepalive", str(SECONDS), "--workers", str(workers))
    with Connection(proxy.port) as client:
        assert client.ask("PING") == b"+PONG\r\n"
        own_port = client.socket.getsockname()[1]
        wait_until(lambda: _probed(own_port, SECONDS) == 1, "the client is")
        wait_until(lambda: _probed(server.port, SECONDS) == 1, "its connection to Redis is")
        ours = [kind for kind, left in _timers(server.port, remote=True) if left <= OWN_SECONDS]
        assert len(ours) >= 3 * workers  # link, pushes and reaper of each worker


@pytest.mark.skipif(not hasattr(socket, "TCP_USER_TIMEOUT"), reason="the system has no such option")
def test_unacknowledged_data_ends_a_connection_of_the_proxys_own(server: AnyServer) -> None:
    """A network that swallows packets is noticed in seconds, not after the system's 15 minutes."""

    async def of_the_link() -> int:
        redis = to_redis(Upstream.parse(server.url), "test", 5, SECONDS, patient=True)
        async with redis.client() as connected:
            assert connected.connection is not None
            writer = connected.connection._writer
            assert writer is not None
            sock = writer.transport.get_extra_info("socket")
            found = int(sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT))
        await redis.aclose(close_connection_pool=True)
        return found

    with plain_socket(Upstream.parse(server.url), 5, SECONDS) as of_pushes:
        found = of_pushes.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT)
    assert [found, asyncio.run(of_the_link())] == [OWN_SECONDS * 1000] * 2


def test_no_keepalive_is_no_timer(serve: StartProxy) -> None:
    proxy = serve("--tcp-keepalive", "0")
    with Connection(proxy.port) as client:
        assert client.ask("PING") == b"+PONG\r\n"
        ((kind, _),) = _timers(proxy.port, remote=False)
        assert kind != KEEPALIVE
