"""Reads the schedules into the registry: which keys are managed, and when each needs attention.

A client with narrow rights may write to the schedule that it shares with others. Then the schedule
only tells the reaper when to look. Which keys are managed is read from the names of the indexes
instead: only clients that may change a key may change its index. Any of these keys may have
something due.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable, Collection, Iterable
from itertools import islice

from redis.asyncio import Redis
from redis.exceptions import ResponseError

from ttlproxy.commands import Call
from ttlproxy.core.families import ALL
from ttlproxy.core.registry import UNKNOWN, Place
from ttlproxy.link.connecting.pipeline import error, run, valid
from ttlproxy.link.connecting.refusals import is_wrong_type
from ttlproxy.link.connecting.single_calls import answered
from ttlproxy.link.shared.context import Context
from ttlproxy.link.shared.places import by_database
from ttlproxy.link.shared.schedule_queries import DUE, Refused, UnreadError

log = logging.getLogger(__name__)

_PAGE = 1000

# Called after each page that was loaded.
Tell = Callable[[], None]


class Schedules:
    """Reads and mends the schedules of a server."""

    def __init__(self, context: Context) -> None:
        self._script_calls = context.script_calls
        self._actions = context.actions
        self._refusals = context.refusals
        self._context = context

    async def due(
        self, redis: Redis, databases: Iterable[int], now_ms: int, most: int = DUE
    ) -> tuple[list[Place], Refused]:
        """ScheduleQueries.due; what Redis refuses is logged and counted."""
        due, refused = await self._context.schedule_queries.due(redis, databases, now_ms, most)
        for db, refusal in refused.items():
            self.refused(db, refusal)
        return due, refused

    def refused(self, which: int, refusal: ResponseError) -> None:
        """Redis does not let us read the schedule of a database, or of a slot."""
        where = self._context.schedule_queries.shown(which)
        self._refusals.note(f"to read the schedule of {where}", refusal)

    async def load(self, redis: Redis, db: int, tell: Tell) -> None:
        """Loads a database's schedule; rebuilds it if it is none. Raises redis-py's RedisError."""
        try:
            await self._load(redis, db, tell)
        except UnreadError as unread:
            for which, refusal in unread.refused.items():
                if not is_wrong_type(refusal):
                    raise refusal from unread
                await self.rebuild(redis, which)
            await self._load(redis, db, tell)

    async def search(self, redis: Redis, db: int, tell: Tell) -> None:
        """Loads all keys that have an index, without the schedule; finds all keys of rules."""
        async for names in self._pages(redis, db):
            keys = self._keys_of(names)
            self._context.registry.load(db, ((key, UNKNOWN) for key in keys))
            begin = self._script_calls.keys.rule(b"")
            rules = (name for name in names if name.startswith(begin))
            self._actions.named(db, (name.removeprefix(begin) for name in rules))
            tell()
        slots = self._context.slot_schedules
        if self._context.is_one_of_several and (gone := await slots.leaving(redis, slots.owned)):
            slots.on_unread(gone)

    async def indexed(self, redis: Redis, db: int) -> AsyncIterator[list[bytes]]:
        """All keys that have an index, without the schedule. Raises redis-py's RedisError."""
        async for names in self._pages(redis, db):
            yield self._keys_of(names)

    async def rebuild(self, redis: Redis, which: int) -> None:
        """Rebuilds a schedule, of a database or a slot, if another type of key is in its place."""
        queries = self._context.schedule_queries
        db, clearing = queries.clearing(which)
        if not valid(await answered(redis, self._script_calls, db, clearing)):
            return
        log.error("the schedule of %s was overwritten: it is created again", queries.shown(which))
        async for names in self._pages(redis, db):
            keys = [key for key in self._keys_of(names) if queries.has_place(which, key)]
            calls = [Call("schedule_mend", (key,), ()) for key in keys]
            requests = [(db, self._script_calls.words(call, b"%d" % db)) for call in calls]
            for mended in await run(redis, requests) if requests else []:
                if refusal := error(mended):
                    what = f"to repair the schedule of {queries.shown(which)}"
                    self._refusals.note(what, refusal)

    async def try_to_rebuild(self, redis: Redis, which: int) -> None:
        """The same; what Redis refuses is tried again at the next heartbeat."""
        try:
            await self.rebuild(redis, which)
        except ResponseError as refusal:
            where = self._context.schedule_queries.shown(which)
            self._refusals.note(f"to create the schedule of {where} again", refusal)

    async def due_among(self, redis: Redis, places: Collection[Place], now_ms: int) -> set[Place]:
        """Those of these places where something may be due. A key that the schedule lacks though it
        has an index is one of them, so that it is put there, and so is one that Redis refuses to
        tell of. Raises redis-py's ConnectionError or TimeoutError."""
        if not self._context.rights.trusts_schedules:
            return set(places)
        keys, asked = self._script_calls.keys, list(by_database(places, _PAGE))
        requests = [
            (db, words)
            for db, of_db in asked
            for words in (
                (b"ZMSCORE", keys.schedule, *of_db),
                *((b"EXISTS", index) for index in keys.indexes(of_db)),
            )
        ]
        replies = iter(await run(redis, requests))
        found = set[Place]()
        for db, of_db in asked:
            scores, are_there = next(replies), list(islice(replies, len(of_db)))
            if not isinstance(scores, list):
                scores = [None] * len(of_db)
            for key, score, is_there in zip(of_db, scores, are_there, strict=True):
                if is_there != 0 if score is None else float(score) < now_ms:
                    found.add((db, key))
        return found

    async def indexed_among(self, redis: Redis, places: Collection[Place]) -> set[Place]:
        """Those of these places that have an index, for all that Redis tells. Raises redis-py's
        ConnectionError or TimeoutError."""
        if not places:
            return set()
        index = self._script_calls.keys.index
        asked = sorted(places)
        replies = await run(redis, [(db, (b"EXISTS", index(key))) for db, key in asked])
        return {place for place, reply in zip(asked, replies, strict=True) if reply != 0}

    async def _load(self, redis: Redis, db: int, tell: Tell) -> None:
        async for entries in self._context.schedule_queries.pages(redis, db):
            self._context.registry.load(db, entries)
            tell()

    async def learn_families(self, redis: Redis, db: int) -> None:
        """Which families have keys with deadlines. Raises redis-py's RedisError."""
        known = self._script_calls.families.known
        if not self._context.rights.trusts_schedules:
            known.learn([ALL])
            return
        try:
            async for entries in self._context.schedule_queries.pages(redis, db):
                known.learn_of(key for key, _ in entries)
        except UnreadError:
            known.learn([ALL])

    async def _pages(self, redis: Redis, db: int) -> AsyncIterator[list[bytes]]:
        """All internal names in a database."""
        cursor = b"0"
        while True:
            words = (b"SCAN", cursor, b"MATCH", self._script_calls.keys.pattern, b"COUNT", _PAGE)
            cursor, names = valid((await run(redis, [(db, words)]))[0])
            yield names
            if cursor == b"0":
                return

    def _keys_of(self, names: list[bytes]) -> list[bytes]:
        """The data keys of those names that are indexes."""
        return [key for name in names if (key := self._script_calls.keys.data(name)) is not None]
