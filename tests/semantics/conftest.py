"""Two proxies in front of one Redis."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from tests.support.raw_client import Connection
from tests.support.redis_client import Client
from tests.support.redis_content import LEASE
from tests.support.servers import Binary, Proxy, Server


@contextmanager
def two_proxies(
    binary: Binary, asks: bool | None = None, before: Callable[[Client], None] = lambda direct: None
) -> Iterator[list[int]]:
    """The ports of two proxies, and of their Redis. `asks`: see Proxy; `before`: what is done with
    Redis before they start."""
    with Server(binary) as server:
        with Client(server.port) as direct:
            before(direct)
        with (
            Proxy(server.url, forked=True, asks=asks) as one,
            Proxy(server.url, forked=True, asks=asks) as other,
        ):
            yield [one.port, other.port, server.port]


@pytest.fixture(scope="module")
def ports_of_three(binary: Binary) -> Iterator[list[int]]:
    """The ports of two proxies, and of their Redis; the tests of a file share them."""
    with two_proxies(binary) as ports:
        yield ports


@pytest.fixture
def three(ports_of_three: list[int]) -> Iterator[list[Connection]]:
    """Connections through two proxies, and to Redis itself, which is empty; no proxy can get the
    reaper's lease."""
    one, other, direct = map(Connection, ports_of_three)
    with one, other, direct:
        for words in (("MULTI",), ("FLUSHALL",), ("SET", LEASE, "somebody else", "PX", 600_000)):
            direct.ask(*words)
        direct.ask("EXEC")
        yield [one, other, direct]
