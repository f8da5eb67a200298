"""Script calls of the proxy's own, each in a round trip of its own."""

from __future__ import annotations

from redis.asyncio import Redis
from redis.exceptions import NoScriptError

from ttlproxy.commands import Call
from ttlproxy.link.pipeline import run
from ttlproxy.scripts.script_calls import ScriptCalls


async def answered(
    redis: Redis, script_calls: ScriptCalls, db: int, call: Call, database: bytes = b""
) -> object:
    """The reply of a script in database `db`, Redis's error as an exception; never a NOSCRIPT.

    If somebody has flushed the scripts, the text is sent, and Redis knows this one again.
    `database`: the number of `db`, for scripts that ask for it. Raises redis-py's ConnectionError
    or TimeoutError.
    """
    (reply,) = await run(redis, [(db, script_calls.words(call, database))])
    if isinstance(reply, NoScriptError):
        script_calls.flushed()
        (reply,) = await run(redis, [(db, script_calls.words(call, database))])
    return reply
