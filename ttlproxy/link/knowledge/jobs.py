"""What the link does on the heartbeat's connection between two heartbeats: jobs, and looks at what
requests of clients have changed for all sessions."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final, TypeAlias

from redis.asyncio import Redis

from ttlproxy.scripts.unconfirmed import UnconfirmedChanges

# A request whose reply cannot be known should be carried out within this time.
UNANSWERED_S: Final = 0.03
# After a refused change none is believed for this time. So a client that repeats refused ones has
# scripts sent as text for a small part of the time.
_DISTRUST_S: Final = 1.0
# A client waits for a look for this time at most.
_PATIENCE_S: Final = 1.0

Job: TypeAlias = Callable[[Redis], Awaitable[None]]
Look: TypeAlias = Callable[[Redis], Awaitable[bool]]
"""Returns whether it got another answer than the last one."""


class Jobs:
    """`soon`, `beat` and `verify` ask for something; `until_beat` carries it out.

    rests: whether the heartbeat's connection waits for no reply
    look: looks at what requests of clients may change
    """

    def __init__(self, unconfirmed: UnconfirmedChanges) -> None:
        self.rests = False
        self.look: Look = _finds_nothing
        self._unconfirmed = unconfirmed
        self._asked = asyncio.Event()
        self._jobs: list[Job] = []
        self._beats = False
        self._waiting: list[asyncio.Event] = []  # for the next look
        self._trust: asyncio.TimerHandle | None = None

    async def verify(self, answered: Awaitable[None]) -> None:
        """Ends when the link has looked at what a request has changed, or 1 s after its reply. The
        link looks also if this is cancelled.

        `answered` sends the request, and ends when it has been answered, or should have been
        carried out.
        """
        looked, pause_s = asyncio.Event(), UNANSWERED_S
        self._unconfirmed.sent()
        try:
            await answered
            pause_s = 0.0
        finally:
            asyncio.get_running_loop().call_later(pause_s, self._was_answered, looked)
        with suppress(TimeoutError):
            async with asyncio.timeout(_PATIENCE_S):
                await looked.wait()

    def _was_answered(self, looked: asyncio.Event) -> None:
        self._unconfirmed.answered()
        self._waiting.append(looked)
        self.soon(self._look)

    def soon(self, job: Job) -> None:
        """Asks for a job, which is done before anything else, and before the next heartbeat."""
        if job not in self._jobs:
            self._jobs.append(job)
        self._asked.set()

    def beat(self) -> None:
        """Asks for the next heartbeat at once."""
        self._beats = True
        self._asked.set()

    async def until_beat(self, pause_s: float, redis: Redis) -> None:
        """Carries out jobs and looks; ends when the pause is over, or after `beat`."""
        loop = asyncio.get_running_loop()
        end_s = loop.time() + pause_s
        await self._do_jobs(redis)  # also where heartbeats take all the time
        while not self._beats and (left_s := end_s - loop.time()) > 0:
            if not await self._has_been_asked(left_s):
                return
            self._asked.clear()
            await self._do_jobs(redis)
        self._beats = False

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

    async def _look(self, redis: Redis) -> None:
        waiting, self._waiting = self._waiting, []
        try:
            # Twice, because the first one settles doubts, and the second one knows.
            changed = any([await self.look(redis) for _ in range(2)])
            self._judge(changed)
        finally:
            for looked in waiting:
                looked.set()

    def _judge(self, changed: bool) -> None:
        if self._trust is not None and changed:
            self._trust.cancel()
            self._believe()
        elif self._unconfirmed.were_wrong(changed):
            self._trust = asyncio.get_running_loop().call_later(_DISTRUST_S, self._believe)

    def _believe(self) -> None:
        self._trust = None
        self._unconfirmed.believed = True


async def _finds_nothing(redis: Redis) -> bool:
    return False
