"""Gives elements the deadlines that rules ask for.

Where the write's own step could not, elements get deadlines by rules of ONWRITE here: those that
have none, a page of a key at a time. The server's own deadlines of hash fields become ours if
ONEXPIRE has a rule, because elements that the server removes cannot be delivered. New deadlines of
these hashes are always ours: see Override.is_native.
"""

from __future__ import annotations

from redis.asyncio import Redis
from redis.exceptions import ResponseError

from ttlproxy.commands import Call
from ttlproxy.core.element_types import TYPES
from ttlproxy.core.registry import DbKey
from ttlproxy.errors import UpstreamError
from ttlproxy.link.connecting.failures import passes
from ttlproxy.link.connecting.pipeline import answered, run, valid
from ttlproxy.link.shared.context import Context


class TtlScript:
    """Calls the script until it has gone through a whole key; if Redis refuses for a while, as
    while a slot of a Cluster moves, the key is put off."""

    def __init__(self, context: Context) -> None:
        self._context = context

    async def __call__(self, redis: Redis, place: DbKey) -> None:
        """Gives deadlines to the elements of the key."""
        context, (db, key), cursor = self._context, place, b"0"
        rules = [context.actions.rules.how((db,), key, type_, True) or b"" for type_ in TYPES]
        if any(rules) and not context.script_calls.families.are_sure(key):
            try:
                await context.be_sure([place])
            except UpstreamError:
                context.on_awaiting_ttl([place])
                return
        while any(rules):
            call = Call("key_date", (key,), (cursor, *rules))
            try:
                reply = await answered(redis, context.script_calls, db, call, b"%d" % db)
                cursor, dated = valid(reply)
            except ResponseError as refusal:
                context.refusals.note(f"to give deadlines by rule in database {db}", refusal)
                if passes(refusal):
                    context.on_awaiting_ttl([place])
                return
            context.counters.dated_elements += dated
            if cursor == b"0":
                return


_PAGE = b"1000"
# Pages of one database at each call: the heartbeat has other things to do.
_PAGES = 20


class NativeDeadlines:
    """Goes through the hashes of databases whose rules have changed, some at each call."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._cursors: dict[int, bytes] = {}
        self._seen: dict[int, int] = {}  # how often a rule of each database was set

    async def __call__(self, redis: Redis) -> None:
        """Takes over some deadlines."""
        for db, times in self._context.actions.set_anew.items():
            if self._seen.get(db) != times:
                self._cursors[db] = b"0"
            self._seen[db] = times
        if not self._cursors or await self._context.is_paused():
            return
        for db in list(self._cursors):
            try:
                await self._some(redis, db)
            except ResponseError as refusal:
                self._context.refusals.note(f"to take over deadlines in database {db}", refusal)

    async def _some(self, redis: Redis, db: int) -> None:
        for _ in range(_PAGES):
            words = (b"SCAN", self._cursors[db], b"COUNT", _PAGE, b"TYPE", b"hash")
            (reply,) = await run(redis, [(db, words)])
            self._cursors[db], names = valid(reply)
            for name in filter(self._context.actions.of(db).of, names):
                await self._hash(redis, db, name)
            if self._cursors[db] == b"0":
                del self._cursors[db]
                return

    async def _hash(self, redis: Redis, db: int, key: bytes) -> None:
        cursor = b"0"
        while True:
            call = Call("hash_adopt", (key,), (cursor,))
            reply = await answered(redis, self._context.script_calls, db, call, b"%d" % db)
            cursor = valid(reply)
            if cursor == b"0":
                return
