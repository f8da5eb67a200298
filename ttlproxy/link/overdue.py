"""What is past its deadline and still there, as the schedules say.

The registry cannot tell: it holds lower bounds, and hears of no reap that is another proxy's.
"""

from __future__ import annotations

from collections.abc import Iterable

from redis.asyncio import Redis

from ttlproxy.link.pipeline import everywhere
from ttlproxy.link.refusals import is_wrong_type
from ttlproxy.link.scores import whole_ms


class Overdue:
    """keys: how many, over all databases, when it was last looked; broken: databases with something
    else in the place of their schedule."""

    def __init__(self, schedule: bytes) -> None:
        self.keys = 0
        self.broken: list[int] = []
        self._schedule = schedule
        self._first_ms: int | None = None  # what is past its deadline for longest

    async def look(self, redis: Redis, databases: Iterable[int], now_ms: int) -> None:
        """Asks Redis; what it does not let us read counts as nothing."""
        until = (b"-inf", b"(%d" % now_ms)
        first = (b"ZRANGEBYSCORE", self._schedule, *until, b"WITHSCORES", b"LIMIT", 0, 1)
        heads, refused = await everywhere(redis, databases, first)
        self.broken = [db for db, refusal in refused.items() if is_wrong_type(refusal)]
        late = {db: whole_ms(head[1]) for db, head in heads.items() if head}
        counts, _ = await everywhere(redis, late, (b"ZCOUNT", self._schedule, *until))
        self.keys = sum(counts.values())
        self._first_ms = min(late.values(), default=None)

    def oldest_s(self, now_ms: int) -> float:
        """How long the first of them has been due; 0 where there is none."""
        first_ms = self._first_ms
        return 0.0 if first_ms is None else max(now_ms - first_ms, 0) / 1000
