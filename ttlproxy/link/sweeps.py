"""Sweeps: index entries whose element is gone are dropped, a page of an index at a time."""

from __future__ import annotations

from redis.asyncio import Redis
from redis.exceptions import ResponseError

from ttlproxy.caller import Caller
from ttlproxy.commands import Call
from ttlproxy.link.pipeline import valid
from ttlproxy.link.refusals import Refusals
from ttlproxy.link.script_calls import answered
from ttlproxy.metrics import Metrics
from ttlproxy.registry import Place

_PAGE = b"500"


class Sweep:
    """The sweep script, called until it has gone through a whole index."""

    def __init__(self, caller: Caller, metrics: Metrics, refusals: Refusals) -> None:
        self._caller = caller
        self._metrics = metrics
        self._refusals = refusals

    async def __call__(self, redis: Redis, place: Place) -> ResponseError | None:
        """Sweeps one index; gives the error for which Redis does not let it.

        Raises redis-py's ConnectionError or TimeoutError.
        """
        cursor = b"0"
        while True:
            try:
                cursor, dropped = await self._page(redis, place, cursor)
            except ResponseError as refusal:
                self._refusals.note(f"to sweep in database {place[0]}", refusal)
                return refusal
            self._metrics.swept_entries += dropped
            if cursor == b"0":
                return None

    async def _page(self, redis: Redis, place: Place, cursor: bytes) -> tuple[bytes, int]:
        """The next cursor, and how many entries were dropped."""
        db, key = place
        call = Call("sweep", (key,), (cursor, _PAGE))
        following, dropped = valid(await answered(redis, self._caller, db, call))
        return following, dropped
