"""How many proxies are connected to a server, as the server says."""

from __future__ import annotations

import re

from redis.asyncio import Redis
from redis.exceptions import ResponseError

from ttlproxy.core.keys import DEFAULT_PREFIX
from ttlproxy.link.connecting.pipeline import run, valid
from ttlproxy.link.connecting.server_identity import INFO, Identity, fields

_NO_NAME = re.compile(rb"[^!-~]")


def push_name(prefix: bytes) -> bytes:
    """The name of the push connection of a proxy with this prefix of internal keys."""
    name = b"ttlproxy:pushes"
    return name if prefix == DEFAULT_PREFIX else name + b":" + _NO_NAME.sub(b"?", prefix)


async def attached(redis: Redis, prefix: bytes) -> int:
    """How many proxies with this prefix there are.

    If we may not call CLIENT LIST: all clients that track keys. Raises ResponseError.
    """
    listed, info = await run(redis, [(0, (b"CLIENT", b"LIST")), (0, INFO)])
    if isinstance(listed, ResponseError):
        return Identity.of(fields(valid(info))).trackers
    name = b"name=" + push_name(prefix)
    return sum(name in line.split(b" ") for line in valid(listed).splitlines())
