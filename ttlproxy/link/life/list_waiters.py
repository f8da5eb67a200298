"""Waits on lists for clients: one connection for each list tells when there is an item.

It blocks in a BLMOVE from the list's right end to the same end, which changes nothing. Then the
waiting clients are tried in the order in which they came; each takes its item itself.
"""

from __future__ import annotations

import asyncio
import logging
from bisect import insort
from collections.abc import Awaitable, Callable
from typing import TypeAlias

from redis.asyncio import Redis
from redis.exceptions import RedisError

from ttlproxy.addresses import Upstream
from ttlproxy.core.registry import DbKey
from ttlproxy.link.connecting.connections import Backoff, connected
from ttlproxy.link.connecting.pipeline import error, run
from ttlproxy.net.tasks import cancel

log = logging.getLogger(__name__)

Attempt: TypeAlias = Callable[[], Awaitable[bool]]
"""Tries to take an item; returns whether the waiting client has been answered."""

# Redis holds one BLMOVE for this time.
_BLOCK_S = 10
# An attempt without a reply holds up the others for this time.
_PATIENCE_S = 1.0
# Pauses between two looks at a list whose items no waiting client can take.
_PACE = Backoff(cap=0.5, base=0.005)


class Waiter:
    """One waiting client.

    number: lower than those of clients that came later
    answered: done when the client has its reply; over: whether no attempt is made for it any more
    """

    def __init__(self, attempt: Attempt, number: int) -> None:
        self._attempt = attempt
        self.number = number
        self._trying: asyncio.Task[None] | None = None
        self.over = False
        self.answered: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def turn(self) -> None:
        """Makes an attempt. If it gets no reply, it goes on while the next waiter has its turn."""
        if self.over:
            await asyncio.sleep(0)  # lets its task take it out of the line
            return
        if self._trying is None:
            self._trying = asyncio.create_task(self._try(), name="waiter: attempt")
        await asyncio.wait({self._trying}, timeout=_PATIENCE_S)

    async def rest(self) -> None:
        """Ends when no attempt is under way."""
        if self._trying is not None:
            await asyncio.wait({self._trying})

    async def leave(self) -> None:
        """Cancels the attempt, because the client does not wait any more."""
        if self._trying is not None:
            trying, self._trying = (
                self._trying,
                None,
            )  # `_try` does not reset it if it never began
            await cancel(trying)

    async def _try(self) -> None:
        try:
            if await self._attempt():
                self.over = True
                self.answered.set_result(None)
        finally:
            self._trying = None


class ListWaiters:
    """The lists for which clients wait, each with its line of waiters."""

    def __init__(self, upstream: Callable[[], Upstream], timeout_s: Callable[[], float]) -> None:
        """`upstream()` returns the server as of now."""
        self._upstream = upstream
        self._timeout_s = timeout_s
        self._lines: dict[DbKey, list[Waiter]] = {}
        self._tasks: dict[DbKey, asyncio.Task[None]] = {}

    async def wait(
        self, place: DbKey, attempt: Attempt, limit: asyncio.Future[None], number: int = 0
    ) -> bool:
        """Waits for an item of the list at `place`, after those with lower numbers.

        Ends when an attempt was answered, or `limit` is done: returns whether it was answered.
        """
        waiter = Waiter(attempt, number)
        self._join(place, waiter)
        try:
            await asyncio.wait({waiter.answered, limit}, return_when=asyncio.FIRST_COMPLETED)
            self._leave(place, waiter)
            await waiter.rest()
            return waiter.answered.done()
        finally:
            self._leave(place, waiter)
            await waiter.leave()

    def start_anew(self) -> None:
        """Has waiting clients wait at the new server."""
        for task in self._tasks.values():
            task.cancel()

    async def close(self) -> None:
        """Closes the connections, when nobody waits any more."""
        if self._tasks:
            await cancel(*self._tasks.values())

    def _join(self, place: DbKey, waiter: Waiter) -> None:
        insort(self._lines.setdefault(place, []), waiter, key=lambda each: each.number)
        if place not in self._tasks:
            self._tasks[place] = asyncio.create_task(self._serve(place), name="waiter")
            self._tasks[place].add_done_callback(lambda task: self._served(place, task))

    def _leave(self, place: DbKey, waiter: Waiter) -> None:
        waiter.over = True
        line = self._lines.get(place, [])
        if waiter in line:
            line.remove(waiter)
            if not line:
                self._tasks[place].cancel()

    def _served(self, place: DbKey, task: asyncio.Task[None]) -> None:
        """The task of a list has ended; clients that came just now get a new one."""
        del self._tasks[place]
        for waiter in self._lines.pop(place):
            self._join(place, waiter)
        if not task.cancelled() and (trouble := task.exception()):
            log.error("the line for a list was lost", exc_info=trouble)

    async def _serve(self, place: DbKey) -> None:
        """Tries the waiters of one list whenever it has an item."""
        failures, longest_s = 0, self._timeout_s() + _BLOCK_S
        async with connected(self._upstream(), "ttlproxy:waiter", longest_s) as redis:
            while self._lines[place]:
                failures = 0 if await self._goes_on(redis, place) else failures + 1
                if failures:
                    await asyncio.sleep(_PACE.compute(failures))

    async def _goes_on(self, redis: Redis, place: DbKey) -> bool:
        """Does one round; returns False if the next one must wait for a while."""
        try:
            answered, is_empty = await self._turns(redis, place)
            if is_empty and self._lines[place]:
                words = (b"BLMOVE", place[1], place[1], b"RIGHT", b"RIGHT", _BLOCK_S)
                (item,) = await run(redis, [(place[0], words)])
                return not error(item)
            return answered
        except (RedisError, OSError) as trouble:
            log.debug("LEASE ... BLOCK cannot watch a list: %s", trouble)
            return False

    async def _turns(self, redis: Redis, place: DbKey) -> tuple[bool, bool]:
        """Tries the waiters in line; returns whether one was answered, and whether the list is
        empty."""
        answered = False
        for waiter in list(self._lines[place]):
            await waiter.turn()
            if not waiter.over:
                (length,) = await run(redis, [(place[0], (b"LLEN", place[1]))])
                if length == 0:
                    return answered, True
                # An item may have come just now: then it is not for those behind.
                await waiter.turn()
            answered = answered or waiter.over
        return answered, False
