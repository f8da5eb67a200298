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
    loop, limit = asyncio.get_running_loop(), asyncio.timeout(None)
    piece_s, left = limit_s / _PIECES, _PIECES
    timer = loop.call_later(piece_s, lambda: next_piece())

    def next_piece() -> None:
        nonlocal left, timer
        left -= 1
        if left:
            timer = loop.call_later(piece_s, next_piece)
        else:
            limit.reschedule(loop.time())

    try:
        async with limit:
            yield
    except TimeoutError as trouble:
        if limit.expired():
            raise TimeoutError(f"it took longer than {limit_s:g} s") from trouble
        raise
    finally:
        timer.cancel()
