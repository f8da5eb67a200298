"""Sweeps: index entries whose element is gone are dropped, a page of an index at a time."""

from __future__ import annotations

from redis.asyncio import Redis
from redis.exceptions import NoScriptError

from ttlproxy.caller import Caller
from ttlproxy.commands import Call
from ttlproxy.link.pipeline import run, valid
from ttlproxy.metrics import Metrics
from ttlproxy.registry import Place

_PAGE = b"500"


class Sweep:
    """The sweep script, called until it has gone through a whole index."""

    def __init__(self, caller: Caller, metrics: Metrics) -> None:
        self._caller = caller
        self._metrics = metrics

    async def __call__(self, redis: Redis, place: Place) -> None:
        """Sweeps one index. Raises redis-py's exceptions."""
        cursor = b"0"
        while True:
            try:
                cursor, dropped = await self._page(redis, place, cursor)
            except NoScriptError:
                self._caller.flushed()
                continue
            self._metrics.swept_entries += dropped
            if cursor == b"0":
                return

    async def _page(self, redis: Redis, place: Place, cursor: bytes) -> tuple[bytes, int]:
        """The next cursor, and how many entries were dropped."""
        db, key = place
        call = Call("sweep", (key,), (cursor, _PAGE))
        (reply,) = await run(redis, [(db, self._caller.words(call, b""))])
        following, dropped = valid(reply)
        return following, dropped
