"""Work on the data at each regular heartbeat: overdue keys, rules, orphans, old entries."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Final

from redis.asyncio import Redis
from redis.exceptions import ResponseError

from ttlproxy.core.registry import Place
from ttlproxy.link.connecting.known_server import KnownServer
from ttlproxy.link.knowledge.glance import Glance
from ttlproxy.link.life.recheck import Recheck
from ttlproxy.link.reaping.native_deadlines import NativeDeadlines
from ttlproxy.link.reaping.orphans import Orphans
from ttlproxy.link.reaping.schedules import Schedules
from ttlproxy.link.reaping.sweep_script import SweepScript
from ttlproxy.link.reaping.waiting_survey import WaitingSurvey
from ttlproxy.link.reaping.walks import Walks
from ttlproxy.link.server.script_cache import ScriptCache
from ttlproxy.link.server.shared_state import SharedState
from ttlproxy.link.server.stored_commands import StoredCommands
from ttlproxy.link.shared.barriers import IsPaused
from ttlproxy.link.shared.context import Context

# If something has been due for longer, whoever should reap it may be gone.
_LATE_S: Final = 0.5


class Upkeep:
    """Within one life of the link: how far the walks are ends with it."""

    def __init__(
        self,
        context: Context,
        server: KnownServer,
        scripts: ScriptCache,
        schedules: Schedules,
        native_deadlines: NativeDeadlines,
        sweep_script: SweepScript,
        walks: Walks,
        stored_commands: StoredCommands,
        shared_state: SharedState,
        is_paused: IsPaused,
        be_sure: Callable[[Iterable[Place]], Awaitable[None]],
    ) -> None:
        """`be_sure(places)`: see link/knowledge/activation.py."""
        self._is_paused = is_paused
        self._context = context
        self._server = server
        self._schedules = schedules
        self._walks = walks
        self._stored_commands = stored_commands
        self._shared_state = shared_state
        self._native_deadlines = native_deadlines
        self._orphans = Orphans(context, is_paused, be_sure)
        self._recheck = Recheck(context, sweep_script, scripts.would_wait)
        self._waiting = WaitingSurvey(context, scripts.would_wait)

    @property
    def walks(self) -> bool:
        """Whether this proxy walks over the data, alone or for all."""
        return self._walks.is_on

    async def run(self, redis: Redis, glance: Glance, *, thorough: bool) -> None:
        """Some of each; `thorough`: also looks at what seldom needs to be looked at.

        Raises redis-py's ConnectionError or TimeoutError.
        """
        has_others = self._context.fleet.attached > 1 and self._context.script_calls.has_state
        if has_others and self._stored_commands.is_wanted and not await self._is_paused():
            await self._stored_commands.store(redis)
        await self._count_overdue(redis, glance)
        await self._learn_rules(redis)
        identity, walks = self._server.identity, await self._walks.mine(redis)
        if self._context.scripts.traits.field_ttls and (walks or self._context.fleet.are_few):
            await self._native_deadlines(redis)
        databases = identity.databases if identity else []
        if walks:
            await self._orphans.look(redis, databases)
            if thorough:
                await self._waiting.look(redis, databases)
                await self._shared_state.drop(redis, databases)
        else:
            self._waiting.forget()
        if walks:
            await self._recheck.look(redis)

    async def _count_overdue(self, redis: Redis, glance: Glance) -> None:
        context = self._context
        registry, overdue, clock = context.registry, context.overdue, context.clock
        overdue.learn(await glance.late(redis))
        if overdue.oldest_s(clock.now_ms()) > _LATE_S:
            context.agenda.stand_in(0)
        for db in overdue.broken:
            if await self._is_paused():
                break
            await self._schedules.try_to_rebuild(redis, db)
        registry.beat(clock.now_ms())

    async def _learn_rules(self, redis: Redis) -> None:
        """Reads rules that have changed. If Redis refuses, reaps that need them tell so."""
        actions = self._context.actions
        for db in actions.unread:
            try:
                await self._context.learn_rules(redis, db)
            except ResponseError as refusal:
                self._context.refusals.note(f"to read the rules of database {db}", refusal)
