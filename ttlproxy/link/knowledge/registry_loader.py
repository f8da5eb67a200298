"""Reads what must be known of a server before it is served, and the registry ahead of the clock."""

from __future__ import annotations

import logging
from typing import Final

from redis.asyncio import Redis
from redis.exceptions import ResponseError

from ttlproxy.core.families import ALL
from ttlproxy.core.registry import ANNOUNCED_MS
from ttlproxy.link.connecting.known_server import KEYSPACE, databases, fields, unix_ms
from ttlproxy.link.connecting.pipeline import run, valid
from ttlproxy.link.knowledge.announcements import Announcements, Pushes
from ttlproxy.link.reaper.schedules import Schedules
from ttlproxy.link.server.acl import Acl
from ttlproxy.link.server.shared_state import SharedState
from ttlproxy.link.shared.context import Context

log = logging.getLogger(__name__)

# Attempts to read all schedules while databases are swapped; after these, the next heartbeat tries.
_MOST_LOADS = 5
# The registry is read further when it reaches less far ahead than this.
_AHEAD_MS: Final = ANNOUNCED_MS // 2


class RegistryLoader:
    """Reads the registry; knows since when nothing was missed, and why all must be read anew."""

    def __init__(
        self, context: Context, announcements: Announcements, acl: Acl, shared_state: SharedState
    ) -> None:
        self._context = context
        self._announcements = announcements
        announcements.load_changed = self.load_changed
        self._acl = acl
        self._schedules = Schedules(context)
        self._shared_state = shared_state
        shared_state.knows_all = lambda: self.knows_families
        self._whole: Pushes | None = None  # the push connection since which nothing was missed
        self._wanted = self._knows_families = False
        self._changes = (0, 0)  # those announced when the schedules were last read
        self._flushes = 0  # those announced when all was last read for a flush

    def want(self) -> None:
        """Asks for all to be read at the next `load_if_needed`: something may have been missed."""
        self._wanted = True

    @property
    def is_whole(self) -> bool:
        """Whether nothing was missed since the push connection was opened. False without one."""
        connection = self._announcements.connection
        return connection is not None and self._whole is connection

    @property
    def knows_families(self) -> bool:
        """Whether all families of the server are certainly known."""
        return self.is_whole and self._knows_families

    async def check(self, redis: Redis) -> None:
        """Looks, in each regular heartbeat, for reasons to read all anew."""
        swapped = self._context.script_calls.unconfirmed.wants_reading()
        self._wanted = self._wanted or swapped

    async def load_if_needed(self, redis: Redis) -> None:
        """Reads all schedules, while announcements go on arriving, unless nothing is missing.

        If schedules are not trusted, all keys are searched for those with an index, unless
        databases were only swapped, or may have been: that adds no family.

        If databases are swapped meanwhile, one of them may have been read twice and the other not
        at all: all is read again before it counts. The push of a swap that came before a page was
        read is there when the page is. Raises redis-py's RedisError.
        """
        announcements, missed = self._announcements, not self.is_whole
        pushes, context = announcements.connection, self._context
        if not (missed or self._wanted or self._changes != self._announced_changes):
            await self._read_ahead(redis)
            return
        if missed:
            context.registry.forget_all()
            await context.learn_missed_rules(redis)
            await self._acl.learn_users(redis)
        for _ in range(_MOST_LOADS):
            swaps = announcements.swaps
            await self._read_schedules(redis, missed=missed)
            announcements.receive()
            if announcements.swaps == swaps:
                break
        self._whole = pushes

    async def load_changed(self, redis: Redis) -> None:
        """Reads schedules and rules at once, unless there has been no flush or swap. Until then
        Redis is asked at each request.

        Raises redis-py's RedisError.
        """
        flushes, context = self._announcements.flushes, self._context
        has_flushed = flushes != self._flushes
        if not self.is_whole or not (has_flushed or self._changes != self._announced_changes):
            return
        await self.load_if_needed(redis)
        if not has_flushed:
            return
        for db in context.actions.unread:
            await context.learn_rules(redis, db)
        self._flushes = flushes

    @property
    def _announced_changes(self) -> tuple[int, int]:
        return self._announcements.swaps, self._announcements.flushes

    async def _read_schedules(self, redis: Redis, *, missed: bool) -> None:
        context, registry = self._context, self._context.registry
        has_flushed = self._changes[1] != self._announcements.flushes
        self._wanted, self._changes = False, self._announced_changes
        losses = context.slot_schedules.losses.total()
        needs_no_names = await self._knows_families_of(redis)
        is_known = not (missed or has_flushed) or (needs_no_names and not context.has_rules)
        until_ms = await self._now_ms(redis) + ANNOUNCED_MS
        reading = registry.begin_reading(until_ms)
        await self._populate(redis)
        is_read = True
        for db in registry.databases():
            try:
                if needs_no_names and context.rights.trusts_schedules:
                    until_ms = min(until_ms, await self._schedules.load_soon(redis, db, until_ms))
                else:
                    is_read = await self._schedules.load(redis, db, is_known=is_known) and is_read
                await context.learn_rules(redis, db)  # also those that were found by their names
            except ResponseError as refusal:
                self._schedules.refused(db, refusal)
                if not context.serving.now:
                    raise  # families may be missing, so nothing can be promised
                context.script_calls.families.known.add([ALL])
                is_read = False
        if needs_no_names:
            context.slot_schedules.need_no_names(losses)
        self._knows_families = is_read
        if is_read:
            registry.end_reading(reading, until_ms)

    async def _read_ahead(self, redis: Redis) -> None:
        """Reads what needs attention soon, if that is not known far enough ahead."""
        context, registry = self._context, self._context.registry
        now_ms = context.clock.now_ms()
        if not (registry.hears and context.rights.trusts_schedules):
            return
        if registry.until_ms - now_ms > _AHEAD_MS:
            return
        now_ms = await self._now_ms(redis)
        most_ms = now_ms + ANNOUNCED_MS
        reading = registry.begin_reading(most_ms)
        await self._populate(redis)
        try:
            until_ms = await self._schedules.read_ahead(redis, registry.until_ms, most_ms, now_ms)
        except ResponseError as refusal:
            context.refusals.note("to read which keys need attention soon", refusal)
            return
        registry.end_reading(reading, until_ms)

    async def _populate(self, redis: Redis) -> None:
        """Learns which databases hold keys."""
        (info,) = await run(redis, [(0, KEYSPACE)])
        self._context.registry.populate(databases(fields(valid(info))))

    async def _now_ms(self, redis: Redis) -> int:
        """Returns the server's clock, read before what is read next; an estimate if it does not
        tell."""
        clock, sent = self._context.clock, self._context.clock.reading()
        (now,) = await run(redis, [(0, (b"TIME",))])
        if not isinstance(now, Exception):
            clock.adjust_by(valid(now), sent)
            return unix_ms(valid(now))
        return clock.now_ms()

    async def _knows_families_of(self, redis: Redis) -> bool:
        """Whether all families of the server are known, without the names of its keys."""
        context = self._context
        families = await self._shared_state.families(redis)
        context.script_calls.families.known.add(families or ())
        known = set(await context.take_known_slots())
        is_known = bool(known) and known.issuperset(context.slot_schedules.owned)
        context.counters.loads["known" if is_known else "read"] += 1
        if is_known:
            log.info("a replica was promoted: the families of its keys are known")
        return is_known or families is not None
