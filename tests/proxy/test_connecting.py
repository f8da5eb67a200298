"""How a client gets its connection to Redis."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest

from tests.proxy.conftest import let_pass
from ttlproxy.addresses import Upstream
from ttlproxy.config import Settings
from ttlproxy.core.counters import Counters
from ttlproxy.link import Context, Link
from ttlproxy.proxy.connecting import connect
from ttlproxy.proxy.redis_connection import Backend

LIMIT_S = 10.0
CONNECTED = cast(Backend, "a connection")


class Redis:
    """A server that refuses connections as often as a test says; asked: how often it was asked"""

    def __init__(self, link: Link, refuses: int = 0) -> None:
        self.link = link
        self.refuses = refuses
        self.asked = 0

    async def __call__(self) -> Backend:
        assert self.link.serving.now
        self.asked += 1
        if self.asked <= self.refuses:
            raise ConnectionRefusedError("nobody listens")
        return CONNECTED


def _link() -> Link:
    settings, counters = Settings(), Counters()
    upstream = Upstream.parse("redis://127.0.0.1:1")
    return Link(upstream, Context(settings, counters))


async def test_the_link_is_waited_for() -> None:
    link = _link()
    redis = Redis(link)
    connecting = asyncio.create_task(connect(link, redis, LIMIT_S))
    await let_pass(LIMIT_S / 2)
    assert not connecting.done()
    link.server.term = 4
    link.serving.start()
    assert await connecting == (CONNECTED, 4)
    assert redis.asked == 1


async def test_it_is_not_waited_for_longer_than_a_request_is_held() -> None:
    link = _link()
    begun_s = asyncio.get_running_loop().time()
    with pytest.raises(ConnectionError, match="Redis is unavailable: "):
        await connect(link, Redis(link), LIMIT_S)
    assert asyncio.get_running_loop().time() - begun_s == pytest.approx(LIMIT_S)


async def test_a_server_that_refuses_is_asked_again_before_long_and_not_at_once() -> None:
    """The link may not have noticed yet that the server has gone."""
    link = _link()
    link.serving.start()
    redis = Redis(link, refuses=5)
    begun_s = asyncio.get_running_loop().time()
    assert (await connect(link, redis, LIMIT_S))[0] == CONNECTED
    assert redis.asked == 6
    assert 0 < asyncio.get_running_loop().time() - begun_s < 2


async def test_a_server_that_refuses_for_too_long_is_asked_no_more() -> None:
    link = _link()
    link.serving.start()
    redis = Redis(link, refuses=1_000_000)
    with pytest.raises(ConnectionError, match="Redis is unavailable: "):
        await connect(link, redis, LIMIT_S)
    assert LIMIT_S / 0.2 <= redis.asked < LIMIT_S / 0.05


async def test_the_term_is_that_from_before_the_connection() -> None:
    """The server that accepted may be the one from before a failover."""
    link = _link()
    link.serving.start()
    redis = Redis(link)

    async def fails_over() -> Backend:
        link.server.term += 1
        return await redis()

    assert await connect(link, fails_over, LIMIT_S) == (CONNECTED, 0)
