"""redis-py with the proxy's commands as typed methods: `Redis` here, and in `asyncio`.

Knows redis-py; knows nothing of the proxy itself. It imports no other package of ttlproxy.
"""

from __future__ import annotations

from typing import Any, Self

import redis

from ttlproxy.redis.commands import PipelineCommands, SyncCommands
from ttlproxy.redis.replies import PARSERS, Deadline, Deferred, Lease, Left, Row, Taken, Throttled

__all__ = [
    "Deadline",
    "Deferred",
    "Lease",
    "Left",
    "Pipeline",
    "Redis",
    "Row",
    "Taken",
    "Throttled",
]


class Pipeline(PipelineCommands["Pipeline"], redis.client.Pipeline):
    """redis-py's pipeline with the proxy's commands."""

    def __enter__(self) -> Self:
        super().__enter__()
        return self


class Redis(SyncCommands, redis.Redis):
    """redis-py's client with the proxy's commands."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.response_callbacks.update(PARSERS)

    def __enter__(self) -> Self:
        return self

    @classmethod
    def from_url(cls, url: str, **options: Any) -> Self:
        made = super().from_url(url, **options)
        assert isinstance(made, cls)
        return made

    def pipeline(self, transaction: bool = True, shard_hint: str | None = None) -> Pipeline:
        return Pipeline(self.connection_pool, self.response_callbacks, transaction, shard_hint)
