"""How long to wait before a failed attempt is repeated."""

from __future__ import annotations

from redis.backoff import ExponentialWithJitterBackoff

_ENOUGH = 64


class Backoff(ExponentialWithJitterBackoff):
    """For any number of failures: redis-py's own overflows at 1,024, half an hour without Redis."""

    def compute(self, failures: int) -> float:
        return super().compute(min(failures, _ENOUGH))
