"""TCP keepalive on both sides, as the kernel tells it: Linux only."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import StartProxy
from tests.containers import AnyServer
from tests.processes import wait_until
from tests.raw import Connection

KEEPALIVE = "02"  # the timer of /proc/net/tcp (net/ipv4/tcp_ipv4.c, get_tcp4_sock)
SECONDS = 1234
TICKS = 100  # a second (USER_HZ)


def _timers(port: int, *, remote: bool) -> Iterator[tuple[str, float]]:
    """Kind and seconds left, of the established connections from or to a port, but for one end."""
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        row = line.split()
        if row[2 if remote else 1].endswith(f":{port:04X}") and row[3] == "01":
            kind, left = row[5].split(":")
            yield kind, int(left, 16) / TICKS


def _probed(port: int) -> int:
    """How many connections to a port, from here, have a timer of that many seconds."""
    return sum(
        kind == KEEPALIVE and SECONDS - 100 < left <= SECONDS
        for kind, left in _timers(port, remote=True)
    )


@pytest.mark.parametrize("workers", [1, 2])
def test_both_sides_are_probed_as_the_setting_says(
    start_proxy: StartProxy, server: AnyServer, workers: int
) -> None:
    proxy = start_proxy(server.url, "--tcp-keepalive", str(SECONDS), "--workers", str(workers))
    with Connection(proxy.port) as client:
        assert client.ask("PING") == b"+PONG\r\n"
        wait_until(lambda: _probed(client.socket.getsockname()[1]) == 1, "the client is")
        # The link's, the pushes' and the reaper's of each worker.
        wait_until(lambda: _probed(server.port) == 3 * workers + 1, "all that leads to Redis is")


def test_no_keepalive_is_no_timer(start_proxy: StartProxy, server: AnyServer) -> None:
    proxy = start_proxy(server.url, "--tcp-keepalive", "0")
    with Connection(proxy.port) as client:
        assert client.ask("PING") == b"+PONG\r\n"
        ((kind, _),) = _timers(proxy.port, remote=False)
        assert kind != KEEPALIVE
