"""Takes over the server's own deadlines of hash fields where ONEXPIRE has a rule.

What the server removes cannot be handed on. New deadlines of these hashes are always ours: see
Override.is_native.
"""

from __future__ import annotations

from redis.asyncio import Redis
from redis.exceptions import ResponseError

from ttlproxy.commands import Call
from ttlproxy.link.connecting.pipeline import run, valid
from ttlproxy.link.connecting.single_calls import answered
from ttlproxy.link.shared.barriers import IsPaused
from ttlproxy.link.shared.context import Context

_PAGE = b"1000"
# Pages of one database at each call: the heartbeat has other things to do.
_PAGES = 20


class NativeDeadlines:
    """Goes through the hashes of databases whose rules have changed, some at each call."""

    def __init__(self, context: Context, is_paused: IsPaused) -> None:
        self._is_paused = is_paused
        self._script_calls = context.script_calls
        self._actions = context.actions
        self._refusals = context.refusals
        self._cursors: dict[int, bytes] = {}
        self._seen: dict[int, int] = {}  # of a database, how often a rule was set

    async def __call__(self, redis: Redis) -> None:
        """Raises redis-py's ConnectionError or TimeoutError."""
        for db, times in self._actions.set_anew.items():
            if self._seen.get(db) != times:
                self._cursors[db] = b"0"
            self._seen[db] = times
        if not self._cursors or await self._is_paused():
            return
        for db in list(self._cursors):
            try:
                await self._some(redis, db)
            except ResponseError as refusal:
                self._refusals.note(f"to take over deadlines in database {db}", refusal)

    async def _some(self, redis: Redis, db: int) -> None:
        for _ in range(_PAGES):
            words = (b"SCAN", self._cursors[db], b"COUNT", _PAGE, b"TYPE", b"hash")
            (reply,) = await run(redis, [(db, words)])
            self._cursors[db], names = valid(reply)
            for name in filter(self._actions.of(db).of, names):
                await self._hash(redis, db, name)
            if self._cursors[db] == b"0":
                del self._cursors[db]
                return

    async def _hash(self, redis: Redis, db: int, key: bytes) -> None:
        cursor = b"0"
        while True:
            call = Call("hash_adopt", (key,), (cursor,))
            cursor = valid(await answered(redis, self._script_calls, db, call, b"%d" % db))
            if cursor == b"0":
                return
