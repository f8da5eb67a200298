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


@asynccontextmanager
async def time_limit(limit_s: float) -> AsyncIterator[None]:
    """Like `asyncio.timeout`: raises TimeoutError, with a text, if its body takes longer."""
    limit = asyncio.timeout(None)
    countdown = _Countdown(limit, limit_s / _PIECES)
    try:
        async with limit:
            yield
    except TimeoutError as trouble:
        if limit.expired():
            raise TimeoutError(f"it took longer than {limit_s:g} s") from trouble
        raise
    finally:
        countdown.stop()


class _Countdown:
    """Ends `limit` after so many pieces. Once stopped it is in no circle of references, which would
    keep what a client has used until the collector comes."""

    def __init__(self, limit: asyncio.Timeout, piece_s: float) -> None:
        self._limit = limit
        self._piece_s = piece_s
        self._left = _PIECES
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._begin()

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _begin(self) -> None:
        self._timer = self._loop.call_later(self._piece_s, self._end)

    def _end(self) -> None:
        self._left -= 1
        if self._left:
            self._begin()
        else:
            self._limit.reschedule(self._loop.time())
