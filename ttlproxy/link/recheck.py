"""Checks the keys of the registry again: another proxy, or a client without one, may have deleted
or replaced a key, and no announcement tells that.

Each regular heartbeat checks one page, for some 2 us a key. Until then a deleted key counts as
managed, which is no error: scripts carry out its commands, and its fields get our deadlines even
where the server has its own.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

from redis.asyncio import Redis
from redis.exceptions import NoPermissionError, ResponseError

from ttlproxy.core.registry import Place
from ttlproxy.link.context import Context
from ttlproxy.link.pipeline import KEYS_PER_CALL
from ttlproxy.link.sweep_script import SweepScript

# Calls in one heartbeat.
_CALLS: Final = 4
# Heartbeats between the last page and the next first one.
_REST: Final = 5
# Places that are taken from the registry at a time: to find the next takes a walk over it.
_LISTED: Final = 50_000


class Recheck:
    """The walk over the registry, and how far it is."""

    def __init__(
        self,
        context: Context,
        sweep_script: SweepScript,
        would_wait: Callable[[], Awaitable[bool]],
    ) -> None:
        """`would_wait` says whether a script would have to wait for the end of a pause."""
        self._context = context
        self._registry = context.registry
        self._sweep_script = sweep_script
        self._would_wait = would_wait
        self._listed: list[Place] = []  # the next one stands last
        self._next = 0
        self._resting = _REST
        self._may = True

    async def look(self, redis: Redis) -> None:
        """Checks one page. Raises redis-py's ConnectionError or TimeoutError."""
        self._resting = max(self._resting - 1, 0)
        if self._resting or not self._may or not len(self._registry) or await self._would_wait():
            return
        try:
            for _ in range(_CALLS):
                places = self._take()
                if not places:
                    self._resting = _REST
                    return
                db = places[0][0]
                unswept = await self._sweep_script.must_be_swept(
                    redis, db, [key for _, key in places]
                )
                self._context.sweep_later(unswept)
        except ResponseError as refusal:
            # Redis logs each refusal for a missing right, so one is enough.
            self._may = not isinstance(refusal, NoPermissionError)
            self._context.refusals.note("to check keys with deadlines again", refusal)

    def _take(self) -> list[Place]:
        """The next places, all of which one script may name; none at the end of the walk."""
        if not self._listed:
            self._listed = self._registry.listed(self._next, _LISTED)[::-1]
            self._next = self._next + len(self._listed) if self._listed else 0
        if not self._listed:
            return []
        together, taken = self._context.keys.together, list[Place]()
        group = together(*self._listed[-1])
        while self._listed and together(*self._listed[-1]) == group and len(taken) < KEYS_PER_CALL:
            taken.append(self._listed.pop())
        return taken
