"""What is gathered only when somebody looks, because it takes the event loop some work.

Who looks never waits: it starts the gathering, and sees its result at one of the next looks.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeAlias

from ttlproxy.net.tasks import report

Details: TypeAlias = Mapping[str, Any]
"""A JSON object: `clients` and `parked`; empty before the first look."""
Gather: TypeAlias = Callable[[], Awaitable[Details]]


class OnDemand:
    """The details of this process.

    on_news: called in the event loop with what was gathered
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, gather: Gather) -> None:
        self._loop = loop
        self._gather = gather
        self._gathering: asyncio.Task[None] | None = None
        self.latest: Details = {}
        self.on_news: Callable[[Details], None] = lambda details: None

    def look(self) -> None:
        """Gathers anew, unless that is being done. Any thread may call it."""
        self._loop.call_soon_threadsafe(self._begin)

    def _begin(self) -> None:
        if self._gathering is None:
            self._gathering = self._loop.create_task(self._renew(), name="details")
            self._gathering.add_done_callback(report)

    async def _renew(self) -> None:
        try:
            self.latest = await self._gather()
            self.on_news(self.latest)
        finally:
            self._gathering = None
