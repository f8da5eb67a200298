"""Reads the schedules: which families have keys with deadlines, and which keys need attention soon.

A client with narrow rights may write to the schedule that it shares with others. Then the schedule
only tells the reaper when to look. The families of keys with deadlines are then read from the names
of the indexes: only clients that may change a key may change its index. Any of these keys may have
something due.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Collection, Iterable, Sequence

from redis.asyncio import Redis
from redis.exceptions import ResponseError

from ttlproxy.commands import Call
from ttlproxy.core.registry import UNKNOWN, DbKey
from ttlproxy.link.connecting.failures import is_wrong_type
from ttlproxy.link.connecting.pipeline import answered, error, run, valid
from ttlproxy.link.shared.context import Context
from ttlproxy.link.shared.schedule_queries import DUE, PAGE, Refused, UnreadError, whole_ms

log = logging.getLogger(__name__)

_PAGE = 1000


class Schedules:
    """Reads and fixes the schedules of a server."""

    def __init__(self, context: Context) -> None:
        self._script_calls = context.script_calls
        self._actions = context.actions
        self._refusals = context.refusals
        self._context = context

    async def due(
        self, redis: Redis, databases: Iterable[int], now_ms: int, most: int = DUE
    ) -> tuple[list[DbKey], Refused]:
        """Returns what ScheduleQueries.due does; logs and counts what Redis refuses."""
        due, refused = await self._context.schedule_queries.due(redis, databases, now_ms, most)
        for db, refusal in refused.items():
            self.refused(db, refusal)
        return due, refused

    def refused(self, which: int, refusal: ResponseError) -> None:
        """Notes that Redis does not let us read the schedule of a database, or of a slot."""
        where = self._context.schedule_queries.shown(which)
        self._refusals.note(f"to read the schedule of {where}", refusal)

    async def load(self, redis: Redis, db: int, *, is_known: bool) -> bool:
        """Reads which families have keys with deadlines in a database, and what needs attention
        soon; rebuilds a schedule if another type of key is in its place.

        Returns whether all was read, which is not the case if schedules are not trusted.
        `is_known`: whether the keys with an index, and those of rules, are known. Raises redis-py's
        RedisError.
        """
        if not self._context.rights.trusts_schedules:
            if not is_known:
                self._context.slot_schedules.read.clear()
                await self._search(redis, db)
            await self._context.schedule_queries.find(redis)  # for the reaper
            return False
        try:
            await self._load(redis, db)
        except UnreadError as unread:
            await self._rebuild_all(redis, unread)
            await self._load(redis, db)
        return True

    async def load_soon(self, redis: Redis, db: int, until_ms: int) -> int:
        """Reads only what needs attention soon, as all families are known; returns until when that
        is known. Raises redis-py's RedisError."""
        queries = self._context.schedule_queries
        try:
            soon = await queries.soon(redis, db, UNKNOWN, until_ms)
        except UnreadError as unread:
            await self._rebuild_all(redis, unread)
            soon = await queries.soon(redis, db, UNKNOWN, until_ms)
        self._context.registry.read(db, soon.entries)
        return soon.until_ms

    async def read_ahead(self, redis: Redis, since_ms: int, most_ms: int, now_ms: int) -> int:
        """Reads what needs attention from `since_ms` on and before `most_ms`, and when the keys
        need it again that needed it before `now_ms`; returns until when it is known. Raises
        redis-py's RedisError."""
        registry, until_ms = self._context.registry, most_ms
        for db in registry.databases():
            soon = await self._context.schedule_queries.soon(redis, db, since_ms, most_ms)
            registry.read(db, soon.entries)
            until_ms = min(until_ms, soon.until_ms)
            past = registry.past(db, now_ms)
            for at in range(0, len(past), PAGE):
                await self._learn_scores(redis, db, past[at : at + PAGE])
        return until_ms

    async def _learn_scores(self, redis: Redis, db: int, keys: Sequence[bytes]) -> None:
        registry, places = self._context.registry, [(db, key) for key in keys]
        with registry.reaping(places):
            scores = await self._context.schedule_queries.scores(redis, db, keys)
            for place, score in zip(places, scores, strict=True):
                registry.set_first_deadline(place, score)

    async def _search(self, redis: Redis, db: int) -> None:
        """Finds the families of all keys that have an index, without the schedule, and all keys of
        rules."""
        known = self._script_calls.families.known
        async for names in self._pages(redis, db):
            known.add_of(self._keys_of(names))
            begin = self._script_calls.keys.rule(b"")
            rules = (name for name in names if name.startswith(begin))
            self._actions.named(db, (name.removeprefix(begin) for name in rules))
        slots = self._context.slot_schedules
        if self._context.is_one_of_several and (gone := await slots.leaving(redis, slots.owned)):
            slots.on_unread(gone)

    async def indexed(self, redis: Redis, db: int) -> AsyncIterator[list[bytes]]:
        """Yields all keys that have an index, found without the schedule. Raises redis-py's
        RedisError."""
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
            calls = [Call("schedule_fix", (key,), ()) for key in keys]
            requests = [(db, self._script_calls.words(call, b"%d" % db)) for call in calls]
            for fixed in await run(redis, requests) if requests else []:
                if refusal := error(fixed):
                    what = f"to repair the schedule of {queries.shown(which)}"
                    self._refusals.note(what, refusal)

    async def _rebuild_all(self, redis: Redis, unread: UnreadError) -> None:
        """Rebuilds what could not be read. Raises redis-py's ResponseError if it was refused for
        another reason than its type."""
        for which, refusal in unread.refused.items():
            if not is_wrong_type(refusal):
                raise refusal from unread
            await self.rebuild(redis, which)

    async def try_to_rebuild(self, redis: Redis, which: int) -> None:
        """Rebuilds a schedule; what Redis refuses is tried again at the next heartbeat."""
        try:
            await self.rebuild(redis, which)
        except ResponseError as refusal:
            where = self._context.schedule_queries.shown(which)
            self._refusals.note(f"to create the schedule of {where} again", refusal)

    async def due_among(self, redis: Redis, places: Collection[DbKey], now_ms: int) -> set[DbKey]:
        """Returns the places among these where something may be due. A key that has an index but is
        not in the schedule is among them, so that it is put there; and so is one whose slot moves
        to a master that cannot be asked."""
        keys, trusts = self._script_calls.keys, self._context.rights.trusts_schedules
        asked = sorted(places)
        requests = [
            (db, words)
            for db, key in asked
            for words in (
                (b"ZSCORE", keys.shared_by(key, keys.schedule), key),
                (b"EXISTS", keys.index(key)),
            )
        ]
        replies = await self._context.ask_for_keys(redis, requests)
        found = set[DbKey]()
        for place, score, is_there in zip(asked, replies[::2], replies[1::2], strict=True):
            if error(is_there):
                is_due = "out of range" not in str(is_there)
            elif isinstance(score, bytes) and trusts:
                is_due = whole_ms(score) < now_ms
            else:
                is_due = is_there == 1
            if is_due:
                found.add(place)
        return found

    async def _load(self, redis: Redis, db: int) -> None:
        known = self._script_calls.families.known
        async for entries in self._context.schedule_queries.pages(redis, db):
            known.add_of(key for key, _ in entries)
            self._context.registry.read(db, entries)

    async def _pages(self, redis: Redis, db: int) -> AsyncIterator[list[bytes]]:
        """Yields all internal names in a database, page by page."""
        cursor = b"0"
        while True:
            words = (b"SCAN", cursor, b"MATCH", self._script_calls.keys.pattern, b"COUNT", _PAGE)
            cursor, names = valid((await run(redis, [(db, words)]))[0])
            yield names
            if cursor == b"0":
                return

    def _keys_of(self, names: list[bytes]) -> list[bytes]:
        """Returns the data keys of the names that are indexes."""
        return [key for name in names if (key := self._script_calls.keys.data(name)) is not None]
