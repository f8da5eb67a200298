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


def listed_clients(listed: bytes) -> list[dict[bytes, bytes]]:
    """The fields of each client in a reply to CLIENT LIST."""
    lines = (line.split(b" ") for line in listed.split(b"\n") if line)
    return [dict(word.split(b"=", 1) for word in words if b"=" in word) for words in lines]


async def other_prefixes(redis: Redis, prefix: bytes) -> set[bytes]:
    """The prefixes of proxies that have another one, as far as names show them. Raises
    ResponseError."""
    (listed,) = await run(redis, [(0, (b"CLIENT", b"LIST"))])
    named = {client.get(b"name", b"") for client in listed_clients(valid(listed))}
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
    name = push_name(prefix)
    return sum(client.get(b"name") == name for client in listed_clients(valid(listed)))
