"""Finds the slots of a Cluster's node that may have a schedule: most have none, and need not be
read.

A slot is left out only if the node has said that its schedule is empty. Any refusal counts as
"perhaps": then the request that reads the schedule tells why.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Final

from redis.asyncio import Redis

from ttlproxy.commands import Call
from ttlproxy.core.keys import Keys
from ttlproxy.link.connecting.pipeline import answered, error
from ttlproxy.scripts.script_calls import ScriptCalls

# Slots that one script looks at, in about 1 ms of Redis.
_EACH: Final = 1024
# Fewer slots are read without a survey.
_WORTH_IT: Final = 64
# The length of a slot's word.
_WORD: Final = 3

Survey = Callable[[Redis, Sequence[int]], Awaitable[Collection[int]]]
"""Which of the slots may have a schedule. Raises redis-py's ConnectionError or TimeoutError."""


async def all_may_have(redis: Redis, slots: Sequence[int]) -> Collection[int]:
    return slots


class SlotSurvey:
    """A Survey of one node."""

    def __init__(
        self, script_calls: ScriptCalls, keys: Keys, would_wait: Callable[[], Awaitable[bool]]
    ) -> None:
        """`would_wait()` returns whether a script would have to wait for the end of a pause."""
        self._script_calls = script_calls
        self._keys = keys
        self._would_wait = would_wait

    async def __call__(self, redis: Redis, slots: Sequence[int]) -> Collection[int]:
        if len(slots) < _WORTH_IT or await self._would_wait():
            return slots
        found: list[int] = []
        for at in range(0, len(slots), _EACH):
            found += await self._some(redis, slots[at : at + _EACH])
        return found

    async def _some(self, redis: Redis, slots: Sequence[int]) -> Sequence[int]:
        numbers = {self._keys.word(number): number for number in slots}
        call = Call("slots_occupied", (), (b"".join(numbers),))
        reply = await answered(redis, self._script_calls, 0, call)
        if error(reply) or not isinstance(reply, bytes):
            return slots
        return [numbers[reply[at : at + _WORD]] for at in range(0, len(reply), _WORD)]
