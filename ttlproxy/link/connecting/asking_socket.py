"""A RESP3 connection that asks, and takes replies and pushes in the order in which they come."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import hiredis

from ttlproxy.errors import UpstreamError
from ttlproxy.link.connecting.pipeline import Words
from ttlproxy.link.connecting.push_socket import PushSocket
from ttlproxy.wire import encode


class _Answer:
    """The replies to requests that were sent together."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.replies: list[Any] = []
        self.done: asyncio.Future[list[Any]] = asyncio.get_running_loop().create_future()


class AskingSocket(PushSocket):
    """One connection, with a name of its own."""

    def __init__(self, name: bytes, on_loss: Callable[[], None]) -> None:
        super().__init__(on_loss)
        self._name = name
        self._turn = asyncio.Lock()
        self._owed: deque[_Answer] = deque()

    async def ask(self, requests: Sequence[Words]) -> list[Any]:
        """The replies, Redis's errors as exceptions. Raises UpstreamError if the connection ends.

        Pushes that Redis has sent before a reply are taken before it.
        """
        answer = _Answer(len(requests))
        async with self._turn:
            self._owed.append(answer)
            await self.send(b"".join(encode(tuple(words)) for words in requests))
        return await answer.done

    def close(self) -> None:
        super().close()
        for answer in self._owed:
            if not answer.done.done():
                answer.done.set_exception(UpstreamError("the connection was lost"))
                answer.done.exception()  # maybe nobody waits
        self._owed.clear()

    def _take(self, message: object) -> None:
        if isinstance(message, hiredis.PushNotification):
            self._pushed(message)
            return
        answer = self._owed[0]
        answer.replies.append(message)
        if len(answer.replies) == answer.count:
            self._owed.popleft()
            if not answer.done.done():
                answer.done.set_result(answer.replies)

    def _pushed(self, message: Sequence[Any]) -> None:
        """Takes what Redis pushes."""

    def _opening(self) -> list[Words]:
        return [(b"CLIENT", b"SETNAME", self._name)]
