"""Script calls of the proxy's own. If Redis knows a script no more, its text is sent."""

from __future__ import annotations

from collections.abc import Sequence

from redis.asyncio import Redis
from redis.exceptions import NoScriptError

from ttlproxy.commands import Call
from ttlproxy.link.connecting.pipeline import run
from ttlproxy.scripts.script_calls import ScriptCalls


async def answered(
    redis: Redis, script_calls: ScriptCalls, db: int, call: Call, database: bytes = b""
) -> object:
    """The reply of a script in database `db`, Redis's error as an exception; never a NOSCRIPT.

    `database`: the number of `db`, for scripts that ask for it. Raises redis-py's ConnectionError
    or TimeoutError.
    """
    (reply,) = await all_answered(redis, script_calls, [call], db, database)
    return reply


async def all_answered(
    redis: Redis,
    script_calls: ScriptCalls,
    calls: Sequence[Call],
    db: int = 0,
    database: bytes = b"0",
) -> list[object]:
    """The same for several calls, in one round trip."""
    replies = await run(redis, [(db, script_calls.words(call, database)) for call in calls])
    unknown = [at for at, reply in enumerate(replies) if isinstance(reply, NoScriptError)]
    if unknown:
        script_calls.flushed()
        again = [(db, script_calls.words(calls[at], database)) for at in unknown]
        for at, reply in zip(unknown, await run(redis, again), strict=True):
            replies[at] = reply
    return replies
