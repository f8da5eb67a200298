"""A time limit for what other machines do. Time in which our own event loop stood still does not
count.

An event loop runs its timers before it looks at its sockets, or cancels a task whose result has
come in the same turn. So after a stall (a paused machine, or one that is very busy)
`asyncio.timeout` would give up on connections that were accepted long ago.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

# The limit is cut into so many pieces. A stall costs one of them, however long it was, and the
# loop looks at its sockets before the next one ends.
_PIECES: Final = 10


class _Pieces:
    """Lets a limit expire after so many pieces. No function that refers to itself: the task would
    live on with that until a collection of cycles, and the task's client with it."""

    def __init__(self, limit: asyncio.Timeout, limit_s: float) -> None:
        self._limit = limit
        self._left = _PIECES
        self._piece_s = limit_s / _PIECES
        self._next()

    def _next(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(self._piece_s, self._ended)

    def _ended(self) -> None:
        self._left -= 1
        if self._left:
            self._next()
        else:
            self._limit.reschedule(asyncio.get_running_loop().time())

    def cancel(self) -> None:
        self._timer.cancel()


@asynccontextmanager
async def time_limit(limit_s: float) -> AsyncIterator[None]:
    """Like `asyncio.timeout`: raises TimeoutError, with a text, if its body takes longer."""
    limit = asyncio.timeout(None)
    pieces = _Pieces(limit, limit_s)
    try:
        async with limit:
            yield
    except TimeoutError as trouble:
        if limit.expired():
            raise TimeoutError(f"it took longer than {limit_s:g} s") from trouble
        raise
    finally:
        pieces.cancel()
