"""Which proxies must know a family before it counts; what becomes of one that does not react."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection
from contextlib import nullcontext

import pytest

from tests.link.conftest import all_know
from tests.link.running import Running, running
from tests.support.containers import AnyServer
from ttlproxy.errors import UpstreamError
from ttlproxy.link.knowledge import activation

KEY = (0, b"family:1")


class _Other:
    """Another master; `tell()` is done when its proxies know the news."""

    def __init__(self, tell: Callable[[], Awaitable[object]]) -> None:
        self._tell = tell

    async def until_all_have_acknowledged(self, news: Collection[bytes]) -> None:
        assert news == {b"f:family:"}
        await self._tell()


async def _is_away() -> None:
    raise UpstreamError("it is away")


async def _hangs() -> None:
    await asyncio.Event().wait()


async def _knows() -> None:
    await all_know([KEY])


@pytest.mark.parametrize(
    ("others", "counts"),
    [
        ((), True),
        ((_knows,), True),
        ((_is_away,), False),
        ((_hangs,), False),
        ((_is_away, _knows), True),
        ((_hangs, _knows), True),
        ((_hangs, _is_away), False),
        ((_hangs, _is_away, _knows), False),
        ((_hangs, _is_away, _knows, _knows), True),
    ],
)
async def test_most_masters_must_know_it(
    server: AnyServer, others: Collection[Callable[[], Awaitable[object]]], counts: bool
) -> None:
    async with running(Running(server.url, "--hold-max", "0.3")) as life:
        await life.beats(1)
        life.context.tellers = lambda: [_Other(tell) for tell in others]
        with nullcontext() if counts else pytest.raises(UpstreamError, match="too few masters"):
            await life.link.activation.add([KEY])
        assert life.context.script_calls.families.are_sure(KEY[1]) == counts


@pytest.mark.parametrize("over", [0, 1, 2])
async def test_a_proxy_that_does_not_react_is_noticed_though_it_has_heard_more(
    server: AnyServer, monkeypatch: pytest.MonkeyPatch, over: int
) -> None:
    """It still hears of rules that are over for others, which have come earlier."""
    monkeypatch.setattr(activation, "_PATIENCE_S", 0.05)
    async with running(Running(server.url)) as life, running(Running(server.url)) as deaf:
        await life.beats(1)
        announcements = deaf.link.announcements
        connection = announcements.acknowledging
        assert connection is not None
        for number in range(over):
            channel = deaf.context.keys.news_channel(b"r:%d" % number)
            await connection.ask([(b"SUBSCRIBE", channel)])
        announcements.on_news = lambda news: None
        await life.link.activation.tell_all()
        assert announcements.acknowledging is not connection
