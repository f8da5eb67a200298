"""A client's LEASE ... BLOCK: it is tried until it is answered, or its time is over.

Knows the time limit, and asks through functions; knows no socket.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from ttlproxy.core.registry import DbKey
from ttlproxy.link import ListWaiters
from ttlproxy.session import Session, Wait
from ttlproxy.session.replies import Tell

_NULLS: Final = (b"$-1\r\n", b"_\r\n")


class BlockingLease:
    """`run` ends when the request has been answered, or its last attempt is on its way."""

    def __init__(
        self,
        session: Session,
        wait: Wait,
        list_waiters: ListWaiters,
        ask: Callable[[bytes, Tell], None],
        be_sure: Callable[[DbKey], Awaitable[None]],
    ) -> None:
        """`ask(request, tell)` sends a request, and `tell` is told its reply;
        `be_sure(place)` comes before each attempt."""
        self._be_sure = be_sure
        self._session = session
        self._wait = wait
        self._list_waiters = list_waiters
        self._ask = ask
        self._limit: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def end(self) -> None:
        """The request must be answered now, even without an item."""
        if not self._limit.done():
            self._limit.set_result(None)

    async def run(self) -> None:
        loop, limit_ms = asyncio.get_running_loop(), self._wait.limit_ms
        timer = loop.call_later(limit_ms / 1000, self.end) if limit_ms else None
        try:
            wait, waiters = self._wait, self._list_waiters
            if not await waiters.wait(wait.source, self._attempt, self._limit, wait.number):
                await self._be_sure(self._wait.target)
                self._ask(self._session.attempt(self._wait), lambda line: True)
        finally:
            if timer is not None:
                timer.cancel()

    async def _attempt(self) -> bool:
        """Whether the client has its reply: an item, or an error."""
        await self._be_sure(self._wait.target)
        is_answered: asyncio.Future[bool] = asyncio.get_running_loop().create_future()

        def tell(line: bytes | None) -> bool:
            has_reply = line not in _NULLS
            if not is_answered.done():
                is_answered.set_result(has_reply)
            return has_reply

        self._ask(self._session.attempt(self._wait), tell)
        return await is_answered
