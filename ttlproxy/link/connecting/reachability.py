"""Whether a server that is silent can still be reached, and which server new connections reach."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from redis.exceptions import RedisError

from ttlproxy.addresses import Upstream
from ttlproxy.link.connecting.connections import client, close
from ttlproxy.link.connecting.pipeline import run, valid
from ttlproxy.link.connecting.server_identity import INFO, Identity, fields
from ttlproxy.net.time_limit import time_limit


async def accepts(upstream: Upstream, timeout_s: float) -> bool:
    """Whether a new connection is accepted; the kernel does so even if the server is stopped.

    A host that has vanished accepts none, although connections to it look alive.
    """
    try:
        async with time_limit(timeout_s):
            if upstream.path:
                _, writer = await asyncio.open_unix_connection(upstream.path)
            else:
                _, writer = await asyncio.open_connection(upstream.host, upstream.port)
    except OSError:
        return False
    writer.close()
    with suppress(OSError):
        await writer.wait_closed()
    return True


async def identity(upstream: Upstream, timeout_s: float) -> Identity:
    """The server that a new connection reaches. Raises redis-py's RedisError, or OSError."""
    redis = client(upstream, "ttlproxy:probe", timeout_s, patient=True)
    try:
        async with time_limit(timeout_s):
            (reply,) = await run(redis, [(0, INFO)])
            return Identity.of(fields(valid(reply)))
    finally:
        await close(redis)


async def met(upstream: Upstream, timeout_s: float) -> Identity | None:
    """The same; None if no server answers in time."""
    try:
        return await identity(upstream, timeout_s)
    except (RedisError, OSError):
        return None
