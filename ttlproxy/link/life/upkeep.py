"""Work on the data at each regular heartbeat: overdue keys, rules, orphans, old entries.

Managed keys are checked again, because another proxy, or a client without one, may have deleted or
replaced a key, and no announcement tells that. One of several proxies walks over the schedules for
this, a page at each regular heartbeat, for some 2 us a key, and has such keys swept. Until then a
deleted key counts as managed, which is no error: scripts execute its commands, and its fields get
our deadlines even where the server has its own.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from itertools import groupby, islice
from typing import TYPE_CHECKING, Final

from redis.asyncio import Redis
from redis.exceptions import NoPermissionError, ResponseError

from ttlproxy.core.registry import DbKey
from ttlproxy.link.connecting.pipeline import KEYS_PER_CALL
from ttlproxy.link.knowledge.sample import Sample
from ttlproxy.link.reaper.removal import SweepScript
from ttlproxy.link.reaper.schedules import Schedules
from ttlproxy.link.reaper.walks import Orphans, Rest, WaitingSurvey
from ttlproxy.link.shared.context import Context

if TYPE_CHECKING:
    from ttlproxy.link.life.link import Link

# The most calls in one heartbeat.
_CALLS: Final = 4
# Heartbeats between the last page and the next first one.
_REST: Final = 5
# The longest rest, for one of several proxies: walks that find nothing come less and less often.
_LONGEST_REST: Final = 60


class Recheck:
    """The walk over managed keys, and its position."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._sweep_script = SweepScript(context)
        self._left: list[DbKey] = []  # the next places, if they had to be left
        self._walk: AsyncIterator[list[DbKey]] | None = None
        self._turn = 0  # how many walks have ended
        self._rest = Rest(_REST, _LONGEST_REST)
        self._rest.begin(True)
        self._found = False  # something in the present walk
        self._may = True
        self._ruled = False

    async def check_page(self, redis: Redis) -> None:
        """Checks one page, if it is time."""
        context = self._context
        ruled = context.scripts.traits.ruled
        if ruled != self._ruled:  # keys become kept, or are given back
            self._ruled, self._left, self._walk = ruled, [], None
            self._rest.end()
        if not (self._rest.is_over() and self._may):
            return
        try:
            for _ in range(_CALLS):
                self._walk = self._walk or self._scheduled(redis)
                places = self._left or await anext(self._walk, [])
                if not places:  # the walk is over
                    self._turn += 1
                    self._rest.begin(self._found or context.fleet.is_alone)
                    self._found, self._walk = False, None
                    return
                self._left = places
                if await context.would_wait():  # to find that out may take a script, too
                    return
                self._left = []
                keys = [key for _, key in places]
                unswept = await self._sweep_script.must_be_swept(
                    redis, places[0][0], keys, self._turn
                )
                context.sweep_later(unswept)
                self._found = self._found or bool(unswept)
        except ResponseError as refusal:
            # Redis logs each refusal for a missing right, so one is enough.
            self._may = not isinstance(refusal, NoPermissionError)
            context.refusals.note("to check keys with deadlines again", refusal)

    async def _scheduled(self, redis: Redis) -> AsyncIterator[list[DbKey]]:
        """Yields the entries of the schedules, as many at a time as one script may name."""
        context = self._context
        for db in context.registry.databases():
            async for keys in context.schedule_queries.scan(redis, db):
                places = [(db, key) for key in keys]
                for _, group in groupby(places, lambda place: context.keys.together(*place)):
                    while some := list(islice(group, KEYS_PER_CALL)):
                        yield some


# If something has been overdue for longer, the proxy that should reap it may be gone.
_LATE_S: Final = 0.5


class Upkeep:
    """The work of one life of the link; the positions of the walks end with it."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._context = link.context
        self._schedules = Schedules(link.context)
        self._orphans = Orphans(link.context)
        self._recheck = Recheck(link.context)
        self._waiting = WaitingSurvey(link.context)

    @property
    def walks(self) -> bool:
        """Whether this proxy walks over the data, alone or for all."""
        return self._link.walks.is_on

    async def run(self, redis: Redis, sample: Sample, *, thorough: bool) -> None:
        """Does some of each; `thorough`: also looks at what seldom needs to be looked at."""
        context, commands = self._context, self._link.commands
        has_others = context.fleet.attached > 1 and context.script_calls.has_state
        if has_others and commands.is_wanted and not await context.is_paused():
            await commands.store(redis)
        await self._count_overdue(redis, sample)
        await self._learn_rules(redis)
        identity, walks = self._link.server.identity, await self._link.walks.mine(redis)
        if context.scripts.traits.field_ttls and (walks or context.fleet.are_few):
            await self._link.native_deadlines(redis)
        databases = identity.databases if identity else []
        if walks:
            await self._orphans.search(redis, databases)
            if thorough:
                await self._waiting.count(redis, databases)
                await self._link.shared_state.drop(redis, databases)
        else:
            self._waiting.forget()
        if walks:
            await self._recheck.check_page(redis)

    async def _count_overdue(self, redis: Redis, sample: Sample) -> None:
        context = self._context
        registry, overdue, clock = context.registry, context.overdue, context.clock
        overdue.update(await sample.late(redis))
        if overdue.oldest_s(clock.now_ms()) > _LATE_S:
            context.agenda.take_over(0)
        for db in overdue.broken:
            if await context.is_paused():
                break
            await self._schedules.try_to_rebuild(redis, db)
        registry.beat(clock.now_ms())

    async def _learn_rules(self, redis: Redis) -> None:
        """Reads rules that have changed, and notes refusals."""
        actions = self._context.actions
        for db in actions.unread:
            try:
                await self._context.learn_rules(redis, db)
            except ResponseError as refusal:
                self._context.refusals.note(f"to read the rules of database {db}", refusal)
