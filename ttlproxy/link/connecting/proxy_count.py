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


async def other_prefixes(redis: Redis, prefix: bytes) -> set[bytes]:
    """The prefixes of proxies that have another one, as far as names show them. Raises
    ResponseError."""
    (listed,) = await run(redis, [(0, (b"CLIENT", b"LIST"))])
    named = {word[5:] for line in valid(listed).splitlines() for word in line.split(b" ")}
    pushes = {name for name in named if name.startswith(push_name(DEFAULT_PREFIX))}
    others = pushes - {push_name(prefix)}
    return {name[len(push_name(DEFAULT_PREFIX)) + 1 :] or DEFAULT_PREFIX for name in others}


async def attached(redis: Redis, prefix: bytes) -> int:
    """How many proxies with this prefix there are.

    If we may not call CLIENT LIST: all clients that track keys. Raises ResponseError.
    """
    listed, info = await run(redis, [(0, (b"CLIENT", b"LIST")), (0, INFO)])
    if isinstance(listed, ResponseError):
        return Identity.of(fields(valid(info))).trackers
    name = b"name=" + push_name(prefix)
    return sum(name in line.split(b" ") for line in valid(listed).splitlines())
