"""Which keys are past their deadline and still there, according to the schedules.

The registry cannot tell: it holds lower bounds, and hears of no other proxy's reaps.
"""

from __future__ import annotations

from collections.abc import Iterable

from redis.asyncio import Redis

from ttlproxy.link.pipeline import everywhere
from ttlproxy.link.refusals import is_wrong_type
from ttlproxy.link.scores import whole_ms


class Overdue:
    """keys: how many are overdue in all databases, at the last look; broken: databases where
    another type of key stands in place of the schedule."""

    def __init__(self, schedule: bytes) -> None:
        self.keys = 0
        self.broken: list[int] = []
        self._schedule = schedule
        self._first_ms: int | None = None  # the earliest deadline that is past

    async def look(self, redis: Redis, databases: Iterable[int], now_ms: int) -> None:
        """Asks Redis; a schedule that we may not read counts as empty."""
        until = (b"-inf", b"(%d" % now_ms)
        first = (b"ZRANGEBYSCORE", self._schedule, *until, b"WITHSCORES", b"LIMIT", 0, 1)
        heads, refused = await everywhere(redis, databases, first)
        self.broken = [db for db, refusal in refused.items() if is_wrong_type(refusal)]
        late = {db: whole_ms(head[1]) for db, head in heads.items() if head}
        counts, _ = await everywhere(redis, late, (b"ZCOUNT", self._schedule, *until))
        self.keys = sum(counts.values())
        self._first_ms = min(late.values(), default=None)

    def oldest_s(self, now_ms: int) -> float:
        """How long the oldest key has been due, in s; 0 if none is."""
        first_ms = self._first_ms
        return 0.0 if first_ms is None else max(now_ms - first_ms, 0) / 1000
