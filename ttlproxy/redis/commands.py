"""The commands as one mixin, for plain clients, for asyncio and for pipelines.

The type parameters of Commands are what its methods return.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Generic, TypeAlias, TypeVar

from ttlproxy.redis.elements import Elements
from ttlproxy.redis.queues import Expired, Leaderboards, Limiters, Queues
from ttlproxy.redis.replies import Deadline, Deferred, Lease, Left, Row, Taken, Throttled
from ttlproxy.redis.timed_writes import TimedWrites
from ttlproxy.redis.words import Word

Int = TypeVar("Int")
Ints = TypeVar("Ints")
MaybeInt = TypeVar("MaybeInt")
Flag = TypeVar("Flag")
MaybeWord = TypeVar("MaybeWord")
MaybeWords = TypeVar("MaybeWords")
Rules = TypeVar("Rules")
AllTaken = TypeVar("AllTaken")
AllLeft = TypeVar("AllLeft")
Deadlines = TypeVar("Deadlines")
MaybeLease = TypeVar("MaybeLease")
AllDeferred = TypeVar("AllDeferred")
Rows = TypeVar("Rows")
Throttle = TypeVar("Throttle")
Queued = TypeVar("Queued")


class Commands(
    Elements[Int, Ints],
    TimedWrites[Int],
    Expired[Flag, MaybeWords, Rules, AllTaken, AllLeft, Deadlines],
    Queues[Int, MaybeInt, MaybeWord, MaybeWords, MaybeLease, AllDeferred],
    Leaderboards[Int, MaybeInt, Rows],
    Limiters[Throttle],
    Generic[
        Int,
        Ints,
        MaybeInt,
        Flag,
        MaybeWord,
        MaybeWords,
        Rules,
        AllTaken,
        AllLeft,
        Deadlines,
        MaybeLease,
        AllDeferred,
        Rows,
        Throttle,
    ],
):
    """Mixed in before a class of redis-py; see ttlproxy.redis."""


SyncCommands: TypeAlias = Commands[
    int,
    list[int],
    int | None,
    bool,
    Word | None,
    list[Word] | None,
    list[list[Word]],
    list[Taken],
    list[Left],
    list[Deadline],
    Lease | None,
    list[Deferred],
    list[Row],
    Throttled,
]
AsyncCommands: TypeAlias = Commands[
    Awaitable[int],
    Awaitable[list[int]],
    Awaitable[int | None],
    Awaitable[bool],
    Awaitable[Word | None],
    Awaitable[list[Word] | None],
    Awaitable[list[list[Word]]],
    Awaitable[list[Taken]],
    Awaitable[list[Left]],
    Awaitable[list[Deadline]],
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
