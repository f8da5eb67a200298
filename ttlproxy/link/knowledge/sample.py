"""The heartbeat's questions to the schedules, in one packet with its other requests.

In front of a Cluster there is a schedule for each slot, so nothing is asked in that packet: only
slots that are late are asked, and some are for their size.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any

from redis.asyncio import Redis

from ttlproxy.link.connecting.pipeline import Words, error, run
from ttlproxy.link.shared.context import Context
from ttlproxy.link.shared.schedule_queries import Late
from ttlproxy.link.shared.slot_schedules import SlotSchedules


class Sample:
    """The questions of one heartbeat, and their replies.

    now_ms: the server's clock when the sample was begun
    """

    def __init__(self, context: Context, with_sizes: bool) -> None:
        """`with_sizes`: whether sizes may be asked for that take a packet of their own."""
        self.now_ms = context.clock.now_ms()
        self._queries = context.schedule_queries
        self._databases = context.registry.databases()
        self._asks_size = with_sizes
        self._heads: dict[int, Any] = {}
        self._sizes: dict[int, int] | None = None

    def requests(self) -> list[tuple[int, Words]]:
        """Returns (database, words) for each."""
        return self._of(self._databases)

    def add_replies(self, replies: Sequence[Any]) -> None:
        """Takes the replies to `requests`."""
        self._add(self._databases, replies)

    async def widen(self, redis: Redis, databases: Collection[int]) -> None:
        """Asks the same of further databases."""
        self._databases += databases
        self._add(databases, await run(redis, self._of(databases)))

    def _of(self, databases: Iterable[int]) -> list[tuple[int, Words]]:
        queries = self._queries
        if isinstance(queries, SlotSchedules):
            return []
        both = (queries.first_late(self.now_ms), queries.how_many())
        return [(db, words) for db in databases for words in both]

    def _add(self, databases: Collection[int], replies: Sequence[Any]) -> None:
        if isinstance(self._queries, SlotSchedules):
            return
        self._heads |= dict(zip(databases, replies[::2], strict=False))
        if not any(map(error, sizes := replies[1::2])):
            self._sizes = (self._sizes or {}) | dict(zip(databases, sizes, strict=False))

    async def late(self, redis: Redis) -> Late:
        """Returns the keys that need attention by now."""
        if isinstance(self._queries, SlotSchedules):
            return await self._queries.late(redis, self._databases, self.now_ms)
        return await self._queries.counted(redis, self._heads, self.now_ms)

    async def sizes(self, redis: Redis) -> dict[int, int] | None:
        """Returns the number of managed keys in each database; None if that is not known.

        Slots are asked once in a heartbeat: each answer moves on to the next of them. Raises as
        `late`.
        """
        if self._asks_size and isinstance(self._queries, SlotSchedules):
            self._asks_size = False
            size = await self._queries.size(redis, self._databases)
            self._sizes = None if size is None else {0: size}
        return self._sizes
