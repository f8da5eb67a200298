"""Gathers the questions of sessions about places at one moment into one round trip to Redis."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import NamedTuple

from ttlproxy.core.registry import DbKey
from ttlproxy.errors import UpstreamError
from ttlproxy.net.tasks import fail


class _Asked(NamedTuple):
    places: Sequence[DbKey]
    done: asyncio.Future[None]


class AskedPlaces:
    """Serves in rounds: questions that come during one are answered in the next."""

    def __init__(self, serve: Callable[[set[DbKey]], Awaitable[None]]) -> None:
        """`serve(places)` asks Redis; raises UpstreamError if a connection is lost."""
        self._serve = serve
        self._new: list[_Asked] = []
        self._under_way: list[_Asked] = []
        self._asked = asyncio.Event()

    def add(self, places: Iterable[DbKey]) -> asyncio.Future[None]:
        """Returns a future that is done when these places were served; it has an UpstreamError if a
        connection, or the link, was lost before."""
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._new.append(_Asked(tuple(places), done))
        self._asked.set()
        return done

    async def run(self) -> None:
        """Serves until cancelled."""
        try:
            while True:
                await self._asked.wait()
                self._asked.clear()
                await self._round()
        finally:
            self._take()
            self._end(UpstreamError("the link was lost"))

    async def _round(self) -> None:
        self._take()
        trouble: UpstreamError | None = UpstreamError("the link was lost")
        try:
            await self._serve(set[DbKey]().union(*(asked.places for asked in self._under_way)))
            trouble = None
        except UpstreamError as lost:
            trouble = lost
        finally:
            self._end(trouble)

    def _take(self) -> None:
        self._under_way, self._new = self._new, []

    def _end(self, trouble: UpstreamError | None) -> None:
        under_way, self._under_way = self._under_way, []
        for asked in under_way:
            if trouble is not None:
                fail(asked.done, trouble)
            elif not asked.done.done():
                asked.done.set_result(None)
