"""Checks managed keys again: another proxy, or a client without one, may have deleted or replaced
a key, and no announcement tells that.

One of several proxies walks over the schedules, a page at each regular heartbeat, for some 2 us a
key: what it finds goes from there. Until then a deleted key counts as managed, which is no error:
scripts carry out its commands, and its fields get our deadlines even where the server has its own.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Final

from redis.asyncio import Redis
from redis.exceptions import NoPermissionError, ResponseError

from ttlproxy.core.registry import Place
from ttlproxy.link.connecting.pipeline import KEYS_PER_CALL
from ttlproxy.link.reaping.sweep_script import SweepScript
from ttlproxy.link.shared.context import Context

# Calls in one heartbeat.
_CALLS: Final = 4
# Heartbeats between the last page and the next first one.
_REST: Final = 5
# The longest one, of one of several proxies: walks that find nothing come less and less often.
_LONGEST_REST: Final = 60


class Recheck:
    """The walk over managed keys, and how far it is."""

    def __init__(
        self,
        context: Context,
        sweep_script: SweepScript,
        would_wait: Callable[[], Awaitable[bool]],
    ) -> None:
        """`would_wait` says whether a script would have to wait for the end of a pause."""
        self._context = context
        self._sweep_script = sweep_script
        self._would_wait = would_wait
        self._listed: list[Place] = []  # the next one stands last
        self._pages: AsyncIterator[list[Place]] | None = None  # of the schedules
        self._turn = 0  # how many walks have ended
        self._rest = self._resting = _REST
        self._found = False  # something in the present walk
        self._may = True
        self._ruled = False

    async def look(self, redis: Redis) -> None:
        """Checks one page, if it is time. Raises redis-py's ConnectionError or TimeoutError."""
        ruled = self._context.scripts.traits.ruled
        if ruled != self._ruled:  # keys become kept, or are given back
            self._ruled, self._resting, self._listed, self._pages = ruled, 0, [], None
        self._resting = max(self._resting - 1, 0)
        if self._resting or not self._may:
            return
        try:
            for _ in range(_CALLS):
                places = await self._take(redis)
                if not places:
                    self._end()
                    return
                if await self._would_wait():  # to find that out may take a script, too
                    self._listed += places[::-1]
                    return
                db = places[0][0]
                unswept = await self._sweep_script.must_be_swept(
                    redis, db, [key for _, key in places], self._turn
                )
                self._context.sweep_later(unswept)
                self._found = self._found or bool(unswept)
        except ResponseError as refusal:
            # Redis logs each refusal for a missing right, so one is enough.
            self._may = not isinstance(refusal, NoPermissionError)
            self._context.refusals.note("to check keys with deadlines again", refusal)

    def _end(self) -> None:
        """The walk is over."""
        self._turn += 1
        found = self._found or self._context.fleet.is_alone
        self._rest = _REST if found else min(self._rest * 2, _LONGEST_REST)
        self._resting, self._found = self._rest, False

    async def _take(self, redis: Redis) -> list[Place]:
        """The next places, all of which one script may name; none at the end of the walk."""
        if not self._listed:
            self._listed = (await self._list(redis))[::-1]
        if not self._listed:
            return []
        together, taken = self._context.keys.together, list[Place]()
        group = together(*self._listed[-1])
        while self._listed and together(*self._listed[-1]) == group and len(taken) < KEYS_PER_CALL:
            taken.append(self._listed.pop())
        return taken

    async def _list(self, redis: Redis) -> list[Place]:
        """The next places of the walk."""
        self._pages = self._pages or self._scheduled(redis)
        async for page in self._pages:
            return page
        self._pages = None
        return []

    async def _scheduled(self, redis: Redis) -> AsyncIterator[list[Place]]:
        """What is in the schedules, page by page."""
        context = self._context
        for db in context.registry.databases():
            async for keys in context.schedule_queries.scan(redis, db):
                if keys:
                    yield [(db, key) for key in keys]
