"""redis-py's asyncio client with the proxy's commands as typed methods."""

from __future__ import annotations

from typing import Any, Self

import redis.asyncio
from redis.asyncio.client import Pipeline as _Pipeline

from ttlproxy.redis.commands import AsyncCommands, PipelineCommands
from ttlproxy.redis.replies import PARSERS

__all__ = ["Pipeline", "Redis"]


# mypy ignores this: two base classes of redis-py itself do not fit each other.
class Pipeline(PipelineCommands["Pipeline"], _Pipeline):  # type: ignore[misc]
    """redis-py's pipeline with the proxy's commands."""

    async def __aenter__(self) -> Self:
        await super().__aenter__()
        return self


class Redis(AsyncCommands, redis.asyncio.Redis):  # type: ignore[misc]
    """redis-py's client with the proxy's commands."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.response_callbacks.update(PARSERS)

    async def __aenter__(self) -> Self:
        await super().__aenter__()
        return self

    @classmethod
    def from_url(cls, url: str, *args: Any, **options: Any) -> Self:
        made = super().from_url(url, *args, **options)
        assert isinstance(made, cls)
        return made

    def pipeline(self, transaction: bool = True, shard_hint: str | None = None) -> Pipeline:
        return Pipeline(self.connection_pool, self.response_callbacks, transaction, shard_hint)
