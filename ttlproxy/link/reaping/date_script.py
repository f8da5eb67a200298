"""Gives elements their deadlines by rules of ONWRITE where the write's own step could not.

Only elements that have no deadline get one, a page of a key at a time.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable

from redis.asyncio import Redis
from redis.exceptions import ResponseError

from ttlproxy.commands import Call
from ttlproxy.core.registry import Place
from ttlproxy.core.write_rules import TYPES
from ttlproxy.errors import UpstreamError
from ttlproxy.link.connecting.pipeline import valid
from ttlproxy.link.connecting.refusals import passes
from ttlproxy.link.connecting.single_calls import answered
from ttlproxy.link.shared.context import Context


class DateScript:
    """The script, called until it has gone through a whole key; what passes by itself, as while a
    slot of a Cluster is on its way, puts it off."""

    def __init__(
        self, context: Context, be_sure: Callable[[Iterable[Place]], Awaitable[None]]
    ) -> None:
        """`be_sure(places)`: see link/knowledge/activation.py."""
        self._be_sure = be_sure
        self._context = context
        self._script_calls = context.script_calls
        self._book = context.actions.book
        self._refusals = context.refusals
        self._counters = context.counters

    async def __call__(self, redis: Redis, place: Place) -> None:
        """Raises redis-py's ConnectionError or TimeoutError."""
        db, key = place
        rules = [self._book.how((db,), key, type_, True) or b"" for type_ in TYPES]
        cursor = b"0"
        if any(rules) and not self._script_calls.families.are_sure(key):
            try:
                await self._be_sure([place])
            except UpstreamError:
                self._context.on_undated([place])
                return
        while any(rules):
            call = Call("key_date", (key,), (cursor, *rules))
            try:
                database = b"%d" % db
                reply = await answered(redis, self._script_calls, db, call, database)
                cursor, dated = valid(reply)
            except ResponseError as refusal:
                self._refusals.note(f"to give deadlines by rule in database {db}", refusal)
                if passes(refusal):
                    self._context.on_undated([place])
                return
            self._counters.dated_elements += dated
            if cursor == b"0":
                return
