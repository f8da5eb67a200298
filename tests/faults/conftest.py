"""Sentinels for the tests of failovers, and whom a proxy serves."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress

import pytest

from tests.support.processes import wait_until
from tests.support.raw_client import Connection
from tests.support.sentinels import NAME, Sentinel
from tests.support.servers import Binary, Proxy, Server

StartSentinel = Callable[..., Sentinel]


def sentinel_url(*places: int | str, scheme: str = "redis-sentinel", name: str = NAME) -> str:
    """`places`: ports of this machine, or hosts."""
    hosts = (f"127.0.0.1:{each}" if isinstance(each, int) else each for each in places)
    return f"{scheme}://{','.join(hosts)}#{name}"


def is_refused(proxy: Proxy, *reasons: str) -> None:
    """A client gets an error, and the log says why."""
    with Connection(proxy.port) as client:
        assert client.read_to_end().startswith(b"-ERR ttlproxy has no connection to Redis")
    wait_until(lambda: all(reason in proxy.stderr for reason in reasons), f"{reasons} in the log")


def until_served_by(server: Server, proxy: Proxy) -> None:
    def is_served() -> bool:
        with suppress(OSError, EOFError), Connection(proxy.port) as client:
            return b"tcp_port:%d\r\n" % server.port in client.ask("INFO", "server")
        return False

    wait_until(is_served, "a client that is served by it")


@pytest.fixture
def start_sentinel(binary: Binary) -> Iterator[StartSentinel]:
    """start_sentinel(port, *config) is a Sentinel that watches the server there."""
    with ExitStack() as owned:

        def start(port: int, *config: str) -> Sentinel:
            return owned.enter_context(Sentinel(binary, port, *config))

        yield start
