"""Converts what version 0.1 has left in Redis to the present layout, and signs it: once.

In version 0.1 rules stood in one hash, deferred commands were not signed, and each database had one
set for each kind of internal key. Every step is atomic, and skips what is already converted, so it
does no harm if a proxy is killed in between, or if two convert at once.
"""

from __future__ import annotations

import logging
from typing import Any

from redis.asyncio import Redis
from redis.exceptions import ResponseError

from ttlproxy.commands import Call
from ttlproxy.core.counted import counted
from ttlproxy.core.expiry_actions import listed
from ttlproxy.core.signing import RULE
from ttlproxy.link.connecting.pipeline import run, valid
from ttlproxy.link.connecting.refusals import is_wrong_type
from ttlproxy.link.connecting.single_calls import answered
from ttlproxy.scripts.script_calls import ScriptCalls

log = logging.getLogger(__name__)

_PAGE = 500


class Migration:
    """Converts one server. All methods raise redis-py's RedisError."""

    def __init__(self, script_calls: ScriptCalls, redis: Redis) -> None:
        self._script_calls = script_calls
        self._keys = script_calls.keys
        self._redis = redis

    async def is_due(self, databases: list[int]) -> bool:
        """Whether version 0.1 was here, judged by keys that few clients may write."""
        keys = self._keys
        (layout,) = await run(self._redis, [(0, (b"GET", keys.old_layout))])
        if layout == b"1":
            return True
        names = (keys.old_deferring, keys.old_serial, keys.old_keeping, keys.old_counts)
        found = await run(self._redis, [(db, (b"EXISTS", *names)) for db in databases])
        return any(valid(count) for count in found)

    async def convert(self, databases: list[int]) -> None:
        """Converts all; it cannot tell what a client has forged before."""
        for db in databases:
            rules = await self._rules(db)
            deferred = await self._deferred(db)
            await self._kept(db)
            while await self._call(db, Call("old_counts", (), (b"%d" % _PAGE,))):
                pass
            keys = self._keys
            names = (keys.old_deferring, keys.old_serial, keys.old_keeping, keys.old_counts)
            await self._ask(db, b"UNLINK", *names)
            if rules or deferred:
                log.info(
                    "database %d: migrated %s, and the deferred commands of %s, from version 0.1",
                    db,
                    counted(rules, "rule"),
                    counted(deferred, "key"),
                )

    async def _rules(self, db: int) -> int:
        try:
            words = await self._ask(db, b"HGETALL", self._keys.rules)
        except ResponseError as refusal:
            if is_wrong_type(refusal):
                return 0
            raise
        _, patterns = listed(words)
        rows = dict(zip(words[::2], words[1::2], strict=True))
        old = {pattern: row for pattern in patterns if (row := rows[b":" + pattern])}
        migrated = 0
        for pattern, row in old.items():
            signature = self._script_calls.signer.sign(RULE, (pattern, row))
            call = Call("old_rule", (pattern,), (pattern, row, signature))
            migrated += await self._call(db, call)
        return migrated

    async def _deferred(self, db: int) -> int:
        names = await self._members(db, self._keys.old_deferring)
        found = [key for name in names if (key := self._keys.deferring(name)) is not None]
        for key in found:
            cursor = b"0"
            while True:
                argv = (*self._script_calls.signer.pads, cursor, b"%d" % _PAGE)
                cursor = await self._call(db, Call("old_deferred", (key,), argv))
                if cursor == b"0":
                    break
        return len(found)

    async def _kept(self, db: int) -> None:
        kept = [self._keys.kept(key) for key in await self._members(db, self._keys.old_keeping)]
        for at in range(0, len(kept), _PAGE):
            await self._ask(db, b"SADD", self._keys.others, *kept[at : at + _PAGE])

    async def _members(self, db: int, name: bytes) -> list[bytes]:
        cursor, found = b"0", dict[bytes, None]()
        while True:
            cursor, page = await self._ask(db, b"SSCAN", name, cursor, b"COUNT", _PAGE)
            found |= dict.fromkeys(page)
            if cursor == b"0":
                return list(found)

    async def _ask(self, db: int, *words: bytes | int) -> Any:
        (reply,) = await run(self._redis, [(db, words)])
        return valid(reply)

    async def _call(self, db: int, call: Call) -> Any:
        return valid(await answered(self._redis, self._script_calls, db, call))
