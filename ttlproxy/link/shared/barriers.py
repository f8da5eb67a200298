"""Barriers: requests that Redis holds back when it holds back the writes of its clients.

If a barrier is answered, requests sent long before it have been executed. If it is not, while Redis
answers reads, writes are paused (CLIENT PAUSE ... WRITE). A read goes out before each barrier, in
the same packet: its reply shows that Redis has the barrier, too, and would have answered it. A
connection that is being opened, or delivers nothing for a while, proves no pause.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from redis.asyncio import Redis
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import NoScriptError

from ttlproxy.commands import Call
from ttlproxy.link.connecting.connections import close
from ttlproxy.link.connecting.pipeline import run
from ttlproxy.link.shared.context import Context
from ttlproxy.net.tasks import cancel, unless

# A server that is neither paused nor unusually busy has answered by then.
PATIENCE_S: Final = 0.1
# A caller that must not block waits this long for a verdict.
_SOON_S: Final = 1.0
# A request that is answered while writes are paused.
_READ: Final = (b"TIME",)
# The name of tasks that wait while a barrier is not answered.
_NAME: Final = "before a barrier"
# This number of reads on another connection must be answered while the barrier is not.
_READS: Final = 2


class Barriers:
    """Sends a barrier when a pause is suspected.

    holds: whether writes are paused
    """

    def __init__(self, context: Context, connect: Callable[[str], Redis]) -> None:
        """`connect(name)` returns a new connection with this name."""
        self._script_calls = context.script_calls
        self._connect = connect
        self._wanted = asyncio.Event()
        self._change = asyncio.Event()  # set when a barrier is answered, or found held
        self.holds = False

    async def judged(self) -> bool:
        """Whether writes are paused, as soon as that is clear. Waits while Redis is silent."""
        while not self.holds:
            change = self._change
            self._wanted.set()
            await change.wait()
            if not self.holds:
                return False
        return True

    async def may_hold(self) -> bool:
        """Whether writes may be paused: also true if that is not clear soon."""
        try:
            async with asyncio.timeout(_SOON_S):
                return await self.judged()
        except TimeoutError:
            return True

    async def released(self) -> None:
        """Ends when writes are not paused."""
        while self.holds:
            await self._change.wait()

    async def run(self) -> None:
        """Runs until cancelled. Raises redis-py's ConnectionError after two losses in a row."""
        writes, reads = self._connect("ttlproxy:barrier"), self._connect("ttlproxy:barrier")
        losses = 0
        try:
            while True:
                await self._wanted.wait()
                try:
                    await self._pass(writes, reads)
                    losses = 0
                except RedisConnectionError:
                    losses += 1
                    if losses > 1:
                        raise
                    # it is opened again
        finally:
            self._tell(False)
            await close(writes, reads)

    async def _pass(self, writes: Redis, reads: Redis) -> None:
        """Sends a barrier; ends when Redis answers it."""
        self._wanted.clear()
        received = asyncio.Event()
        passing = asyncio.create_task(self._answer(writes, received), name="barrier")
        try:
            await asyncio.wait({passing}, timeout=PATIENCE_S)
            if not passing.done() and await _is_held(passing, received, reads):
                self._tell(True)
            await passing
        finally:
            await cancel(passing)
            self._tell(False)

    async def _answer(self, writes: Redis, received: asyncio.Event) -> object:
        """Returns Redis's reply to a barrier. `received` is set as soon as Redis must have it."""
        while True:
            words = self._script_calls.words(Call("barrier", (), ()), b"")
            _, reply = await run(writes, [(0, _READ), (0, words)], received.set)
            if not isinstance(reply, NoScriptError):
                return reply
            received.clear()
            self._script_calls.flushed()  # the next call has the text

    def _tell(self, holds: bool) -> None:
        self.holds = holds
        change, self._change = self._change, asyncio.Event()
        change.set()


async def _is_held(passing: asyncio.Task[object], received: asyncio.Event, reads: Redis) -> bool:
    """Whether Redis has the barrier, and answers reads but not the barrier."""
    if not await unless(passing, received.wait(), _NAME):
        return False
    for _ in range(_READS):
        if not await unless(passing, run(reads, [(0, _READ)]), _NAME):
            return False
    return received.is_set()  # unset if Redis answered NOSCRIPT: the barrier is sent again
