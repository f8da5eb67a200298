"""The commands as one mixin, for plain clients, for asyncio and for pipelines."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TypeAlias, TypeVar

from ttlproxy.redis.elements import Elements
from ttlproxy.redis.queues import Expired, Leaderboards, Limiters, Queues
from ttlproxy.redis.replies import (
    AllDeferred,
    AllLeft,
    AllTaken,
    Deadline,
    Deadlines,
    Deferred,
    Flag,
    Int,
    Ints,
    Lease,
    Left,
    MaybeInt,
    MaybeLease,
    MaybeWord,
    MaybeWords,
    Row,
    Rows,
    Rules,
    Taken,
    Throttle,
    Throttled,
)
from ttlproxy.redis.timed_writes import TimedWrites
from ttlproxy.redis.words import Word

Queued = TypeVar("Queued")


class Commands(
    Elements[Int, Ints],
    TimedWrites[Int],
    Expired[Flag, MaybeWords, Rules, AllTaken, AllLeft, Deadlines],
    Queues[Int, MaybeInt, MaybeWord, MaybeWords, MaybeLease, AllDeferred],
    Leaderboards[Int, MaybeInt, Rows],
    Limiters[Throttle],
):
    """Mixed in before a class of redis-py. The type parameters, in the order of their first use
    above, are what its methods return."""


SyncCommands: TypeAlias = Commands[
    int,
    list[int],
    bool,
    list[Word] | None,
    list[list[Word]],
    list[Taken],
    list[Left],
    list[Deadline],
    int | None,
    Word | None,
    Lease | None,
    list[Deferred],
    list[Row],
    Throttled,
]
AsyncCommands: TypeAlias = Commands[
    Awaitable[int],
    Awaitable[list[int]],
    Awaitable[bool],
    Awaitable[list[Word] | None],
    Awaitable[list[list[Word]]],
    Awaitable[list[Taken]],
    Awaitable[list[Left]],
    Awaitable[list[Deadline]],
    Awaitable[int | None],
    Awaitable[Word | None],
    Awaitable[Lease | None],
    Awaitable[list[Deferred]],
    Awaitable[list[Row]],
    Awaitable[Throttled],
]
# In a pipeline, commands return the pipeline.
PipelineCommands: TypeAlias = Commands[
    Queued,
    Queued,
    Queued,
    Queued,
    Queued,
    Queued,
    Queued,
    Queued,
    Queued,
    Queued,
    Queued,
    Queued,
    Queued,
    Queued,
]
