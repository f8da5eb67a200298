"""Ends of a client that take time, because something may still be on its way to it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, Protocol

from ttlproxy.proxy.redis_connection import ToRedis

# The time for replies to a client that has ended in a large request.
_GRACE_S: Final = 1.0
# A client that has lost its server gets what that has sent already: the client is closed after this
# many looks at which nothing more had come. One is too few: a process that gets no processor for a
# while looks before it has read.
_LOOKS: Final = 3
_LOOK_S: Final = 0.1
# The time for a client to close its side after we have closed ours.
_LINGER_S: Final = 5.0


class Ending(Protocol):
    """The rest of a client's end, which can be cancelled."""

    def cancel(self) -> None:
        """The client has gone, or ends in another way."""


def cut_later(backend: ToRedis) -> Ending:
    """The client has ended within a large request: Redis gets no more after a while."""
    return asyncio.get_running_loop().call_later(_GRACE_S, backend.cut)


class CloseWhenQuiet:
    """The client's server is not served any more: ends once that server sends nothing more.

    A server that cannot be reached does not close; one that still sends replies will.
    """

    def __init__(
        self, transport: asyncio.Transport, backend: ToRedis, end: Callable[[], None]
    ) -> None:
        self._transport = transport
        self._backend = backend
        self._end = end
        self._look_later()

    def cancel(self) -> None:
        self._timer.cancel()

    def _look_later(self, looks: int = _LOOKS) -> None:
        loop, progress = asyncio.get_running_loop(), self._backend.replies.progress
        self._timer = loop.call_later(_LOOK_S, self._look, progress, looks - 1)

    def _look(self, progress: object, looks: int) -> None:
        """`progress`: what had come from Redis at the last look; `looks`: how many are left if no
        more has come."""
        transport, backend = self._transport, self._backend
        has_more = transport.get_write_buffer_size() > 0 or backend.replies.progress != progress
        if transport.is_closing() or not (has_more or looks):
            backend.abort()  # it may still answer
            self._end()
        else:
            self._look_later(_LOOKS if has_more else looks)


class LingeringClose:
    """Our side is closed: closes the client's once it has taken all, and had time to do it."""

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._look_later()

    def cancel(self) -> None:
        self._timer.cancel()

    def _look_later(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(_LINGER_S, self._look)

    def _look(self) -> None:
        if self._transport.get_write_buffer_size():
            self._look_later()
        else:
            self._transport.close()
