"""Reads the registry from Redis, at first and whenever it may lack something."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import partial

from redis.asyncio import Redis
from redis.exceptions import ResponseError

from ttlproxy.core.knowledge import Knowledge
from ttlproxy.link.connecting.pipeline import error, everywhere, run, valid
from ttlproxy.link.connecting.pushes import Pushes
from ttlproxy.link.connecting.server_identity import KEYSPACE, databases, fields
from ttlproxy.link.connecting.serving import Serving
from ttlproxy.link.knowledge.announcements import Announcements
from ttlproxy.link.knowledge.glance import Glance
from ttlproxy.link.reaping.schedules import Schedules
from ttlproxy.link.server.acl import Acl
from ttlproxy.link.shared.context import Context
from ttlproxy.link.shared.schedule_queries import ScheduleQueries
from ttlproxy.net.progress import Progress

log = logging.getLogger(__name__)

# The least number of keys for which it matters that most of them are managed no more.
_MANY = 2000
# Between two walks over all keys.
_SEARCH_MS = 600_000
# Attempts to read all schedules while databases are swapped; the next is a heartbeat later.
_MOST_LOADS = 5
# A replica that was promoted must tell within this what it has announced; else all is read.
_HERITAGE_S = 3.0


class RegistryLoader:
    """Knows since when the registry is whole, and why it must be read anew."""

    def __init__(
        self,
        context: Context,
        serving: Serving,
        announcements: Announcements,
        acl: Acl,
        schedules: Schedules,
        shown: Callable[[], str],
    ) -> None:
        """`shown`: the server, for people"""
        self._context = context
        self._serving = serving
        self._announcements = announcements
        self._acl = acl
        self._schedules = schedules
        self._shown = shown
        self._whole: Pushes | None = None  # the push connection since which the registry is whole
        self._wanted = False
        self._changes = 0  # those announced when the schedules were last read
        self._flushes = 0  # those announced when all was last read for a flush
        self._bloated = False
        self._next_search_ms = 0.0
        self._least = 0  # keys in the registry, since their number in Redis was last told

    def want(self) -> None:
        """Something may have been missed: all is read at the next `load`."""
        self._wanted = True

    @property
    def is_whole(self) -> bool:
        """Whether nothing was missed since the push connection was opened. False without one."""
        connection = self._announcements.connection
        return connection is not None and self._whole is connection

    async def look(self, redis: Redis, glance: Glance) -> None:
        """Looks, in each regular heartbeat, for reasons to read all anew."""
        swapped = self._context.script_calls.unconfirmed.wants_reading()
        self._bloated = await self._is_bloated(redis, glance)
        self._wanted = self._wanted or swapped or self._bloated

    async def load_if_needed(self, redis: Redis) -> None:
        """Reads all schedules, while announcements go on arriving, unless nothing is missing.

        Schedules that are not trusted only add to what is known: then indexes are searched for if
        announcements may have been missed, or most known keys are not managed any more.

        If databases are swapped meanwhile, one of them may have been read twice and the other not
        at all: all is read again before it counts. The push of a swap that came before a page was
        read is there when the page is. Raises redis-py's RedisError.
        """
        announcements, missed = self._announcements, not self.is_whole
        pushes = announcements.connection
        if not (missed or self._wanted or self._changes != self._announced_changes):
            return
        if missed:
            await self._context.learn_missed_rules(redis)
            await self._acl.learn_users(redis)
        if (knowledge := self._context.knowledge) is not None:
            await self._begin_anew(redis, knowledge)
            self._whole = pushes
            return
        progress = Progress.logged(log, may_replace=self._context.may_replace_lines)
        try:
            for _ in range(_MOST_LOADS):
                swaps = announcements.swaps
                await self._read_schedules(redis, missed or self._bloated, progress)
                announcements.receive()
                if announcements.swaps == swaps:
                    break
        finally:
            progress.clear()
        self._context.registry.end_load()
        self._bloated = False
        self._whole = pushes

    async def load_after_flush(self, redis: Redis) -> None:
        """Reads schedules and rules at once, unless there has been no flush, or too many keys are
        known: then the next heartbeat does. Until then keys that are gone count as managed, and
        fields of any hash get our deadlines even where the server has its own.

        Raises redis-py's RedisError.
        """
        flushes, context = self._announcements.flushes, self._context
        if flushes == self._flushes or not self.is_whole or len(context.registry) > _MANY:
            return
        await self.load_if_needed(redis)
        for db in context.actions.unread:
            await context.learn_rules(redis, db)
        self._flushes = flushes
        context.script_calls.unconfirmed.read_after_flush()

    async def _begin_anew(self, redis: Redis, knowledge: Knowledge) -> None:
        """Keeps nothing of the schedules but the families of their keys."""
        self._wanted, self._changes = False, self._announced_changes
        knowledge.populate(await self._databases(redis))
        for db in knowledge.databases():
            await self._context.learn_rules(redis, db)
            await self._schedules.learn_families(redis, db)

    @property
    def _announced_changes(self) -> int:
        return self._announcements.swaps + self._announcements.flushes

    async def _read_schedules(self, redis: Redis, anew: bool, progress: Progress) -> None:
        clock, rights = self._context.clock, self._context.rights
        self._wanted, self._changes = False, self._announced_changes
        sent = clock.reading()
        (now,) = await run(redis, [(0, (b"TIME",))])
        if error(now):
            self._context.registry.begin_load()
        else:
            clock.learn_time(valid(now), sent)
            self._context.registry.begin_load(clock.now_ms())
        is_known = await self._take_heritage() and not self._context.has_rules
        databases = await self._databases(redis)
        tell = partial(progress.at, await self._how_far(redis, databases))
        for db in databases:
            try:
                if not rights.trusts_schedules and anew and not is_known:
                    await self._schedules.search(redis, db, tell)
                elif not rights.trusts_schedules:
                    self._context.registry.load_known(db)
                await self._context.learn_rules(redis, db)
                await self._schedules.load(redis, db, tell)
            except ResponseError as refusal:
                self._schedules.refused(db, refusal)
                if not self._serving.now:
                    raise  # nothing is known yet, so nothing can be promised
                self._context.registry.load_known(db)

    async def _how_far(self, redis: Redis, databases: Sequence[int]) -> Callable[[], str]:
        """A sentence on how much was read; of how much, unless it is in many slots."""
        registry, queries = self._context.registry, self._context.schedule_queries
        total = 0
        if isinstance(queries, ScheduleQueries):
            sizes, _ = await everywhere(redis, databases, queries.how_many())
            total = sum(sizes.values())
        of_all = f" of {total}" if total else ""
        return lambda: f"Redis at {self._shown()}: reading managed keys, {registry.loaded}{of_all}"

    async def _take_heritage(self) -> bool:
        """Takes what is known of a promoted replica; returns whether that is everything."""
        context, schedules = self._context, self._context.slot_schedules
        heritage, context.heritage = context.heritage, None
        entries = await heritage.take(_HERITAGE_S) if heritage is not None else None
        context.counters.loads["read" if entries is None else "inherited"] += 1
        if heritage is None or entries is None:
            if heritage is not None:
                log.debug("a replica was promoted, but what it has announced may be missing")
            schedules.inherit(set(), set())
            return False
        log.info("a replica was promoted: its deadlines are known from its master's time")
        context.registry.adopt(0, entries)
        schedules.inherit(heritage.slots, heritage.deferring)
        return schedules.are_inherited

    async def _databases(self, redis: Redis) -> list[int]:
        """The logical databases that hold keys."""
        (info,) = await run(redis, [(0, KEYSPACE)])
        return databases(fields(valid(info)))

    async def _is_bloated(self, redis: Redis, glance: Glance) -> bool:
        """Whether others have reaped most of the keys that the registry held before their number
        was asked. Of many slots that takes several heartbeats, in which keys are added.

        If it takes a walk over all keys to read it anew, at most once in `_SEARCH_MS`.
        """
        context, registry = self._context, self._context.registry
        if context.knowledge is not None:
            return False
        is_early = context.clock.reading() < self._next_search_ms
        least = self._least = min(self._least, len(registry))
        if len(registry) < _MANY or (is_early and not context.rights.trusts_schedules):
            return False
        size = await glance.size(redis)
        if size is None:
            return False
        self._least = len(registry)
        if least < _MANY or least <= 2 * size:
            return False
        self._next_search_ms = context.clock.reading() + _SEARCH_MS
        self._least = 0
        return True
