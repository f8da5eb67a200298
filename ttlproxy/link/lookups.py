"""Looks up keys for sessions, where a proxy knows only the keys that its clients have named.

Redis tracks the claim of each key that was looked up (claims.py), and tells the same connection
when somebody sets it. Sessions that ask at the same moment share one round trip.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Sequence
from itertools import islice
from math import floor
from typing import Any, Final

import hiredis
from redis.exceptions import ResponseError

from ttlproxy.core.knowledge import Knowledge
from ttlproxy.core.registry import NOTHING_DUE, Place
from ttlproxy.errors import UpstreamError
from ttlproxy.link.asked_places import AskedPlaces
from ttlproxy.link.context import Context
from ttlproxy.link.lookup_connection import LookupConnection
from ttlproxy.link.pipeline import Words

# Keys that are looked up in one round trip: Redis serves nobody else meanwhile, for 1 us each.
_TOGETHER: Final = 500


class Lookups:
    """Gathers what sessions ask, and serves it in rounds."""

    def __init__(
        self,
        context: Context,
        connection: Callable[[], LookupConnection | None],
    ) -> None:
        """`connection()`: the present one; None while there is none."""
        self._context = context
        self._keys = context.keys
        self._refusals = context.refusals
        self._clock = context.clock
        self._connection = connection
        self._rounds = AskedPlaces(self._serve)

    def add(self, places: Iterable[Place]) -> asyncio.Future[None]:
        """Done when these places were looked up; see AskedPlaces."""
        return self._rounds.add(places)

    async def run(self) -> None:
        """Serves until cancelled."""
        await self._rounds.run()

    def unknown(self, places: Iterable[Place]) -> list[Place]:
        knowledge = self._context.knowledge
        return [] if knowledge is None else list(filter(knowledge.is_unknown, places))

    def due(self, places: Collection[Place]) -> Collection[Place]:
        """Those of these places where something may be due, all if keys are not looked up."""
        knowledge, now_ms = self._context.knowledge, self._clock.now_ms()
        if knowledge is None:
            return places
        known = knowledge.known
        return [(db, key) for db, key in places if known(db)[key] < now_ms]

    async def _serve(self, places: set[Place]) -> None:
        """Raises UpstreamError."""
        connection = self._connection()
        knowledge = self._context.knowledge
        if connection is None or knowledge is None:
            raise UpstreamError("there is no connection for look-ups")
        for db in {db for db, _ in places}:
            left = iter([place for place in places if place[0] == db])
            while some := list(islice(left, _TOGETHER)):
                await self._learn(connection, knowledge, some)

    async def _learn(
        self, connection: LookupConnection, knowledge: Knowledge, places: Sequence[Place]
    ) -> None:
        """Learns of these keys, in one database. If Redis refuses, they stay unknown."""
        for place in places:
            knowledge.begin_reap(place)
        try:
            replies = await connection.ask(self._requests(places))
            for refusal in replies[: -len(places)]:
                if isinstance(refusal, hiredis.ReplyError):
                    self._refusals.note("to track what is looked up", ResponseError(str(refusal)))
                    return
            claimed, firsts = replies[-len(places) - 1], replies[-len(places) :]
            now_ms = self._clock.now_ms()
            for place, until_ms, first in zip(places, claimed, firsts, strict=True):
                if (until_ms or 0) < now_ms and isinstance(first, list):
                    knowledge.learn(place, _first_ms(first))
        finally:
            for place in places:
                knowledge.end_reap(place)

    def _requests(self, places: Sequence[Place]) -> list[Words]:
        """What is tracked comes before it is read, so that no change is missed between."""
        keys = self._keys
        return [
            (b"SELECT", places[0][0]),
            (b"CLIENT", b"CACHING", b"YES"),
            (b"EXISTS", *(keys.claim(key) for _, key in places)),
            (b"ZMSCORE", keys.claimed, *(keys.index(key) for _, key in places)),
            *((b"ZRANGE", keys.index(key), 0, 0, b"WITHSCORES") for _, key in places),
        ]


def _first_ms(entries: list[Any]) -> int | None:
    """The deadline in [[element, deadline]]; None for []."""
    return floor(min(max(entries[0][1], 0), NOTHING_DUE)) if entries else None
