"""Looks up keys for sessions, where a proxy knows only the keys that its clients have named.

Redis tracks the news of each key that was looked up (core/keys.py), and tells the same connection
when a script sets them. Sessions that ask at the same moment share one round trip.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Sequence
from itertools import islice
from math import floor
from typing import Final, NamedTuple

import hiredis
from redis.exceptions import ResponseError

from ttlproxy.core.knowledge import Knowledge
from ttlproxy.core.registry import NOTHING_DUE, Place
from ttlproxy.errors import UpstreamError
from ttlproxy.link.connecting.pipeline import Words
from ttlproxy.link.knowledge.asked_places import AskedPlaces, by_database
from ttlproxy.link.knowledge.lookup_connection import LookupConnection
from ttlproxy.link.shared.context import Context

# Keys that are looked up in one round trip: Redis serves nobody else meanwhile, for 1 us each.
_TOGETHER: Final = 500


class _Asked(NamedTuple):
    """Keys that are looked up together, with the names of their indexes and news."""

    db: int
    keys: Sequence[bytes]
    indexes: Sequence[bytes]
    news: Sequence[bytes]


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
        self._is_brief = True  # the last keys were unmanaged, and so may the next be

    def add(self, places: Iterable[Place]) -> asyncio.Future[None]:
        """Done when these places were looked up; see AskedPlaces."""
        return self._rounds.add(places)

    def soon(self, places: Iterable[Place]) -> asyncio.Future[None]:
        """The same, but cancelled if it takes long; see AskedPlaces."""
        return self._rounds.soon(places)

    async def run(self) -> None:
        """Serves until cancelled."""
        await self._rounds.run()

    def unknown(self, places: Iterable[Place]) -> list[Place]:
        knowledge = self._context.knowledge
        return [] if knowledge is None else knowledge.unknown(places)

    def due(self, places: Collection[Place]) -> Collection[Place]:
        """Those of these places where something may be due, all if keys are not looked up."""
        knowledge, now_ms = self._context.knowledge, self._clock.now_ms()
        if knowledge is None:
            return places
        known = knowledge.known
        return [(db, key) for db, key in places if known(db).bound(key) < now_ms]

    async def _serve(self, places: set[Place]) -> None:
        """Raises UpstreamError."""
        connection = self._connection()
        knowledge = self._context.knowledge
        if connection is None or knowledge is None:
            raise UpstreamError("there is no connection for look-ups")
        for db, keys in by_database(places, _TOGETHER):
            await self._learn(connection, knowledge, db, keys)

    async def _learn(
        self, connection: LookupConnection, knowledge: Knowledge, db: int, keys: Sequence[bytes]
    ) -> None:
        """Learns of these keys. If Redis refuses, they stay unknown."""
        finding = knowledge.begin_finding()
        try:
            asked = _Asked(db, keys, *self._keys.indexes_and_news(keys))
            firsts_ms = await self._unmanaged(connection, asked) if self._is_brief else None
            if firsts_ms is None:
                firsts_ms = await self._firsts_ms(connection, knowledge, asked)
                self._is_brief = all(first_ms is None for first_ms in firsts_ms.values())
            knowledge.learn(finding, db, firsts_ms)
        finally:
            knowledge.end_finding(finding)

    async def _unmanaged(
        self, connection: LookupConnection, asked: _Asked
    ) -> dict[bytes, int | None] | None:
        """What `_firsts_ms` returns, if none of these keys has an index; else None.

        That is most often so, and takes half the time.
        """
        self._is_brief = False
        replies = await connection.ask([*self._tracking(asked), (b"EXISTS", *asked.indexes)])
        if any(isinstance(reply, hiredis.ReplyError) for reply in replies) or replies[-1]:
            return None
        self._is_brief = True
        return dict.fromkeys(asked.keys)

    async def _firsts_ms(
        self, connection: LookupConnection, knowledge: Knowledge, asked: _Asked
    ) -> dict[bytes, int | None]:
        """The first deadline of each key, None if it has none; nothing if Redis refuses.

        None for all in a database that the server does not have: a client may have asked for it.
        """
        keys = asked.keys
        requests = [
            *self._tracking(asked),
            (b"ZMSCORE", self._keys.schedule, *keys),
            *((b"ZCARD", index) for index in asked.indexes),
        ]
        replies = iter(await connection.ask(requests))
        tracked = list(islice(replies, 3))
        scheduled, sizes = next(replies), list(replies)
        if _has_no_such_database(tracked[0]):
            knowledge.lacks(asked.db)
            return dict.fromkeys(keys)
        for refusal in tracked:
            if isinstance(refusal, hiredis.ReplyError):
                self._refusals.note("to track what is looked up", ResponseError(str(refusal)))
                return {}
        if isinstance(scheduled, hiredis.ReplyError):  # something else is in its place
            scheduled = await self._scores(connection, keys)
        return {
            key: _first_ms(at_ms, size)
            for key, at_ms, size in zip(keys, scheduled, sizes, strict=True)
            if size.__class__ is int
        }

    @staticmethod
    def _tracking(asked: _Asked) -> list[Words]:
        """What is tracked comes before it is read, so that no change is missed between."""
        return [
            (b"SELECT", asked.db),
            (b"CLIENT", b"CACHING", b"YES"),
            (b"EXISTS", *asked.news),
        ]

    async def _scores(
        self, connection: LookupConnection, keys: Sequence[bytes]
    ) -> list[float | None]:
        """The first deadline in each index, for want of a schedule."""
        first = (0, b"+inf", b"WITHSCORES", b"LIMIT", 0, 1)
        heads = [(b"ZRANGEBYSCORE", self._keys.index(key), *first) for key in keys]
        replies = await connection.ask(heads)
        return [reply[0][1] if isinstance(reply, list) and reply else None for reply in replies]


def _has_no_such_database(selected: object) -> bool:
    """By the reply to SELECT."""
    return isinstance(selected, hiredis.ReplyError) and "out of range" in str(selected)


def _first_ms(scheduled_ms: float | None, size: int) -> int | None:
    """The first deadline of a key, from its score in the schedule and the size of its index; 0 if
    the schedule lacks it, until a reap has put it there; None if it is not managed."""
    if scheduled_ms is None:
        return 0 if size else None
    return floor(min(max(scheduled_ms, 0), NOTHING_DUE))
