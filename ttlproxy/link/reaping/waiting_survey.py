"""Counts what waits in Redis beside the elements with deadlines: deferred commands, kept elements.

Of many internal keys some are looked at, picked by chance, and stand for all: so it costs Redis the
same however many there are. Of several proxies only the one that walks counts.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, TypeAlias, cast

from redis.asyncio import Redis
from redis.exceptions import NoPermissionError, ResponseError

from ttlproxy.commands import Call
from ttlproxy.core.counters import Waiting
from ttlproxy.core.shares import shares
from ttlproxy.link.connecting.pipeline import valid
from ttlproxy.link.connecting.refusals import is_elsewhere
from ttlproxy.link.connecting.single_calls import answered
from ttlproxy.link.shared.context import Context

# Internal keys that are looked at each time, in all databases: that took Redis 1 ms where there
# were 200, and 4 ms of 50,000, on a busy machine.
SAMPLE: Final = 200
_MOST_DATABASES: Final = 16
# Slots that one script looks at: about 1 ms of Redis.
_SLOTS: Final = 1024
# The length of a slot's word.
_WORD: Final = 3


_Place: TypeAlias = tuple[int, bytes]
"""A database, and the words of some slots of a Cluster."""


class WaitingSurvey:
    """Keeps the counts of the present server. A refusal for a missing right ends them, as Redis
    logs each."""

    def __init__(self, context: Context, would_wait: Callable[[], Awaitable[bool]]) -> None:
        """`would_wait` says whether a script would have to wait for the end of a pause."""
        self._context = context
        self._would_wait = would_wait
        self._may = True

    def forget(self) -> None:
        """Another proxy counts."""
        self._context.node_counts.waiting = None

    async def look(self, redis: Redis, databases: Sequence[int]) -> None:
        """Counts anew in these databases, which are those with keys.

        Raises redis-py's ConnectionError or TimeoutError.
        """
        # Without the state, nothing of ours is there, and no script is called to find that out.
        has_none = self._context.script_calls.has_state is False
        places = [] if has_none else self._places(databases)
        if not self._may or (places and await self._would_wait()):
            return
        try:
            parts = zip(places, await self._parts(redis, places), strict=True)
            found = [await self._counts(redis, place, most) for place, most in parts if most]
        except ResponseError as refusal:
            if is_elsewhere(refusal):
                return  # a slot is on its way
            self._may = not isinstance(refusal, NoPermissionError)
            self._context.refusals.note("to count deferred commands and kept elements", refusal)
            self.forget()
        else:
            self._context.node_counts.waiting = _together(found)

    def _places(self, databases: Sequence[int]) -> list[_Place]:
        context = self._context
        if not context.keys.clustered:
            return [(db, b"") for db in databases[:_MOST_DATABASES]]
        slots = context.slot_schedules.to_survey(context.may_have_rules)
        words = b"".join(map(context.keys.word, slots))
        most = _SLOTS * _WORD
        return [(0, words[at : at + most]) for at in range(0, len(words), most)]

    async def _parts(self, redis: Redis, places: Sequence[_Place]) -> Sequence[int]:
        """How many internal keys to look at in each place."""
        if len(places) == 1:
            return [SAMPLE]
        sizes = [(await self._ask(redis, place, 0))[0] for place in places]
        return shares(sizes, SAMPLE)

    async def _counts(self, redis: Redis, place: _Place, most: int) -> Waiting:
        """What waits there, by a look at `most` keys."""
        size, looked_at, deferred, due_ms, kept, was_due_ms, _ = await self._ask(redis, place, most)
        share, now_ms = size / max(looked_at, 1), self._context.clock.now_ms()
        return Waiting(
            round(deferred * share),
            due_ms - now_ms if deferred else None,
            round(kept * share),
            now_ms - was_due_ms if kept else None,
        )

    async def _ask(self, redis: Redis, place: _Place, most: int) -> Sequence[Any]:
        db, words = place
        call = Call("others_survey", (), (b"%d" % most, words, b""))
        reply = valid(await answered(redis, self._context.script_calls, db, call))
        return cast(Sequence[Any], reply)


def _together(found: Sequence[Waiting]) -> Waiting:
    return Waiting(
        sum(each.deferred for each in found),
        min((each.until_next_ms for each in found if each.until_next_ms is not None), default=None),
        sum(each.kept for each in found),
        max(
            (each.since_oldest_ms for each in found if each.since_oldest_ms is not None),
            default=None,
        ),
    )
