"""A client's LEASE ... BLOCK: it is tried until it is answered, or its time is over.

Knows the time limit, and asks through functions; knows no socket.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from ttlproxy.core.registry import Place
from ttlproxy.link import ListWaiters
from ttlproxy.session import Session, Wait


class BlockingLease:
    """`run` ends when the request's reply is on its way."""

    def __init__(
        self,
        session: Session,
        wait: Wait,
        list_waiters: ListWaiters,
        to_redis: Callable[[bytes], None],
        is_answered: Callable[[Callable[[bytes], bytes]], Awaitable[bool]],
        claim: Callable[[Place], Awaitable[None]],
    ) -> None:
        """`is_answered(request)` sends `request(mark)`; False if the reply is null, and kept
        back; `claim(place)` comes before each attempt."""
        self._claim = claim
        self._session = session
        self._wait = wait
        self._list_waiters = list_waiters
        self._to_redis = to_redis
        self._is_answered = is_answered
        self._limit: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def end(self) -> None:
        """The request must be answered now, even without an item."""
        if not self._limit.done():
            self._limit.set_result(None)

    async def run(self) -> None:
        loop, limit_ms = asyncio.get_running_loop(), self._wait.limit_ms
        timer = loop.call_later(limit_ms / 1000, self.end) if limit_ms else None
        try:
            if not await self._list_waiters.wait(self._wait.source, self._attempt, self._limit):
                await self._claim(self._wait.target)
                self._to_redis(self._session.attempt(self._wait))
        finally:
            if timer is not None:
                timer.cancel()

    async def _attempt(self) -> bool:
        await self._claim(self._wait.target)
        return await self._is_answered(lambda mark: self._session.attempt(self._wait, mark))
