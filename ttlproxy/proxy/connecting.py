"""Connects a client to Redis: waits for the link, and tries again while Redis refuses."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from ttlproxy.link import Backoff, Link

# Between two attempts to connect to Redis.
_AGAIN: Final = Backoff(cap=0.2, base=0.01)

Made = TypeVar("Made")


async def connect(
    link: Link, attempt: Callable[[], Awaitable[Made]], limit_s: float
) -> tuple[Made, int]:
    """A connection to Redis, and the link's term when it was made. Raises OSError.

    `attempt()` connects, once the link serves; that is waited for up to `limit_s`, as a request
    waits. If Redis has gone just now, the link may not have noticed: then it is tried again, too.
    """
    loop, failures = asyncio.get_running_loop(), 0
    until_s = loop.time() + limit_s
    while True:
        try:
            async with asyncio.timeout_at(until_s):
                await asyncio.sleep(_AGAIN.compute(failures) if failures else 0)
                await link.serving.ready.wait()
        except TimeoutError:
            raise ConnectionError(f"Redis is unavailable: {link.trouble}") from None
        term = link.server.term
        try:
            return await attempt(), term
        except ConnectionError:
            failures += 1
