"""Several requests in one round trip, each with its own database and its own outcome."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from redis.asyncio import Redis
from redis.exceptions import ResponseError

Words = Sequence[bytes | int]


async def run(redis: Redis, requests: Iterable[tuple[int, Words]]) -> list[object]:
    """Sends (db, words) for each request; gives the replies, Redis's errors as exceptions.

    Raises redis-py's ConnectionError or TimeoutError.
    """
    pipeline = redis.pipeline(transaction=False)
    wanted: list[int] = []
    current: int | None = None
    for db, words in requests:
        if db != current:
            pipeline.execute_command(b"SELECT", db)
            current = db
        wanted.append(len(pipeline.command_stack))
        pipeline.execute_command(*words)
    replies = await pipeline.execute(raise_on_error=False)
    return [replies[at] for at in wanted]


def valid(reply: object) -> Any:
    """The reply; raises it where it is an error of Redis."""
    if isinstance(reply, Exception):
        raise reply
    return reply


def error(reply: object) -> ResponseError | None:
    """The reply where it is an error of Redis."""
    return reply if isinstance(reply, ResponseError) else None
