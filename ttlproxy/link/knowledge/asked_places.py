"""What sessions ask about places at the same moment, gathered into one round trip to Redis."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from itertools import groupby, islice
from operator import itemgetter
from typing import NamedTuple

from ttlproxy.core.registry import Place
from ttlproxy.errors import UpstreamError
from ttlproxy.link.shared.barriers import PATIENCE_S


def by_database(places: Iterable[Place], together: int) -> Iterator[tuple[int, list[bytes]]]:
    """Places by database, at most so many keys together."""
    for db, of_db in groupby(sorted(places), itemgetter(0)):
        keys = (key for _, key in of_db)
        while some := list(islice(keys, together)):
            yield db, some


class _Asked(NamedTuple):
    """is_hasty: its future is cancelled if Redis does not answer soon"""

    places: Sequence[Place]
    done: asyncio.Future[None]
    is_hasty: bool


class AskedPlaces:
    """Serves rounds: those that ask during one get the next."""

    def __init__(self, serve: Callable[[set[Place]], Awaitable[None]]) -> None:
        """`serve(places)` asks Redis; raises UpstreamError if a connection is lost."""
        self._serve = serve
        self._new: list[_Asked] = []
        self._under_way: list[_Asked] = []
        self._asked = asyncio.Event()
        self._look: asyncio.TimerHandle | None = None  # the next one at what is hasty
        self._seen: set[asyncio.Future[None]] = set()  # at the last look, and not done

    def add(self, places: Iterable[Place]) -> asyncio.Future[None]:
        """Done when these places were served. An UpstreamError if a connection, or the link, was
        lost before."""
        return self._add(places, is_hasty=False)

    def soon(self, places: Iterable[Place]) -> asyncio.Future[None]:
        """The same, but cancelled if it takes longer than PATIENCE_S, or twice that. One timer
        serves all that ask: a timer for each would take longer than the rest."""
        if self._look is None:
            self._look = asyncio.get_running_loop().call_later(PATIENCE_S, self._look_at_hasty)
        return self._add(places, is_hasty=True)

    def _add(self, places: Iterable[Place], is_hasty: bool) -> asyncio.Future[None]:
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._new.append(_Asked(tuple(places), done, is_hasty))
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
            await self._serve(set[Place]().union(*(asked.places for asked in self._under_way)))
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
            done = asked.done
            if done.done():
                continue
            if trouble is None:
                done.set_result(None)
            else:
                done.set_exception(trouble)
                done.exception()  # maybe nobody waits

    def _look_at_hasty(self) -> None:
        """Cancels those that the last look has seen already."""
        self._look = None
        all_ = (*self._under_way, *self._new)
        hasty = {asked.done for asked in all_ if asked.is_hasty and not asked.done.done()}
        for late in hasty & self._seen:
            late.cancel()
        self._seen = hasty - self._seen
        if self._seen:
            self._look = asyncio.get_running_loop().call_later(PATIENCE_S, self._look_at_hasty)
