"""Looks, between two heartbeats, at what a client's request may have changed."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final, TypeAlias

from redis.asyncio import Redis

from ttlproxy.scripts.unconfirmed import UnconfirmedChanges

# The pause before each look, until one finds a change: Redis may carry out the request after a
# look.
_PAUSES_S: Final = (0.0, 0.002, 0.004, 0.008, 0.016)
# The pauses while no unconfirmed change is believed.
_FEW_PAUSES_S: Final = (0.0, 0.03)
# After a wrong one none is believed for this time. So a client that repeats wrong ones has scripts
# sent as text for one thirtieth of the time.
_DISTRUST_S: Final = 1.0
# A client waits for a look for this time at most.
_PATIENCE_S: Final = 1.0

Job: TypeAlias = Callable[[Redis], Awaitable[None]]
Look: TypeAlias = Callable[[Redis], Awaitable[bool]]
"""Returns whether it got another answer than the last one."""


class Confirmations:
    """`confirm` asks for a look and waits for it; `until_beat` carries looks out.

    rests: whether the heartbeat's connection waits for no reply
    """

    def __init__(self, unconfirmed: UnconfirmedChanges) -> None:
        self.rests = False
        self._unconfirmed = unconfirmed
        self._wanted = False
        self._asked = asyncio.Event()
        self._jobs: list[Job] = []
        self._beats = False
        self._over = asyncio.Event()
        self._trust: asyncio.TimerHandle | None = None

    async def confirm(self) -> None:
        """Ends when the link has checked the effect of a request that was just sent to Redis, or
        after 1 s."""
        over = self._over
        self._wanted = True
        self._asked.set()
        with suppress(TimeoutError):
            async with asyncio.timeout(_PATIENCE_S):
                await over.wait()

    def first(self, job: Job) -> None:
        """Asks for a job, which is done before anything else, and before the next heartbeat."""
        if job not in self._jobs:
            self._jobs.append(job)
        self._asked.set()

    def beat(self) -> None:
        """Asks for the next heartbeat at once."""
        self._beats = True
        self._asked.set()

    async def until_beat(self, pause_s: float, redis: Redis, look: Look) -> None:
        """Carries out jobs and looks; ends when the pause is over, or after `beat`."""
        loop = asyncio.get_running_loop()
        end_s = loop.time() + pause_s
        await self._do_jobs(redis)  # also where heartbeats take all the time
        while (left_s := end_s - loop.time()) > 0:
            if not await self._has_been_asked(left_s):
                return
            self._asked.clear()
            await self._do_jobs(redis)
            if self._beats:
                break
            if self._wanted:
                await self._look(redis, look)
        self._beats = False
        if self._wanted:  # the look comes after the heartbeat
            self._asked.set()

    async def _has_been_asked(self, within_s: float) -> bool:
        self.rests = True
        try:
            async with asyncio.timeout(within_s):
                await self._asked.wait()
        except TimeoutError:
            return False
        finally:
            self.rests = False
        return True

    async def _do_jobs(self, redis: Redis) -> None:
        """Does the jobs. Those that are asked for meanwhile come next, but do not delay a
        heartbeat."""
        for _ in range(len(self._jobs)):
            await self._jobs.pop(0)(redis)
        if self._jobs:
            self._asked.set()

    async def _look(self, redis: Redis, look: Look) -> None:
        self._wanted = False
        changed = False
        over, self._over = self._over, asyncio.Event()
        try:
            for pause_s in _PAUSES_S if self._unconfirmed.believed else _FEW_PAUSES_S:
                await asyncio.sleep(pause_s)
                changed = await look(redis)
                if changed:
                    await look(redis)  # what was in doubt is known now
                    break
            self._judge(changed)
        finally:
            over.set()

    def _judge(self, changed: bool) -> None:
        if self._trust is not None and changed:
            self._trust.cancel()
            self._believe()
        elif self._unconfirmed.were_wrong(changed):
            self._trust = asyncio.get_running_loop().call_later(_DISTRUST_S, self._believe)

    def _believe(self) -> None:
        self._trust = None
        self._unconfirmed.believed = True
