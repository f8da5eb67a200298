"""What sessions ask about places at the same moment, gathered into one round trip to Redis."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable

from ttlproxy.core.registry import Place
from ttlproxy.errors import UpstreamError


class AskedPlaces:
    """Serves rounds: those that ask during one get the next."""

    def __init__(self, serve: Callable[[set[Place]], Awaitable[None]]) -> None:
        """`serve(places)` asks Redis; raises UpstreamError if a connection is lost."""
        self._serve = serve
        self._new: list[tuple[set[Place], asyncio.Future[None]]] = []
        self._asked = asyncio.Event()

    def add(self, places: Iterable[Place]) -> asyncio.Future[None]:
        """Done when these places were served. An UpstreamError if a connection, or the link, was
        lost before."""
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._new.append((set(places), done))
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
            self._end(self._taken(), UpstreamError("the link was lost"))

    async def _round(self) -> None:
        new = self._taken()
        trouble: UpstreamError | None = UpstreamError("the link was lost")
        try:
            await self._serve(set[Place]().union(*(places for places, _ in new)))
            trouble = None
        except UpstreamError as lost:
            trouble = lost
        finally:
            self._end(new, trouble)

    def _taken(self) -> list[tuple[set[Place], asyncio.Future[None]]]:
        new, self._new = self._new, []
        return new

    @staticmethod
    def _end(
        asked: Iterable[tuple[set[Place], asyncio.Future[None]]], trouble: UpstreamError | None
    ) -> None:
        for _, done in asked:
            if done.done():
                continue
            if trouble is None:
                done.set_result(None)
            else:
                done.set_exception(trouble)
                done.exception()  # maybe nobody waits
