"""What kind of server the link has met, by what it says of itself, and whether it can be served."""

from __future__ import annotations

import hashlib
import logging
import re
from collections.abc import Callable, Mapping, Sequence

from redis.asyncio import Redis
from redis.exceptions import ResponseError

from ttlproxy.commands.dialects import valkey
from ttlproxy.commands.model.spec import Plan
from ttlproxy.errors import UnfitUpstream
from ttlproxy.link.pipeline import error, run

log = logging.getLogger(__name__)

Said = Mapping[str, str]
"""What INFO says."""

# How the index and the schedule are laid out; a proxy that meets a newer one does not start.
LAYOUT = 2
OLDEST = (6, 2)
_SUBKEY_EVENTS = (8, 8)
_SCRIPT_READS = (7, 0)
# What the link asks, and scripts need for any index. A server without one of them has a
# `rename-command` in its configuration.
_NEEDED = (
    *("INFO", "TIME", "SELECT", "CLIENT", "HELLO", "SCRIPT", "EVAL", "HGET", "HGETALL"),
    *("GET", "SET", "DEL", "EXISTS", "TYPE", "PTTL", "PEXPIRE", "PERSIST"),
    *("ZADD", "ZRANGE", "ZRANGEBYSCORE", "ZREM", "ZREMRANGEBYRANK", "ZSCAN", "ZSCORE"),
)
TRIAL = b"return 1"
# The error of a server for a command that it does not have, and which that is.
_UNKNOWN = re.compile(r"unknown command[ '`]+(\w+)", re.IGNORECASE)
_TROUBLESOME: tuple[tuple[str, Callable[[str], bool], str], ...] = (
    (
        "io-threads",
        lambda value: value not in ("", "1"),
        "a deadline set through another proxy may be seen late",
    ),
    (
        "maxmemory-policy",
        lambda value: value.startswith(("allkeys", "volatile")),
        "it may evict deadlines and leave their elements",
    ),
)


def check_server(server: Said) -> None:
    """Raises UnfitUpstream for a server that scripts and announcements cannot work on."""
    if _version(server) < OLDEST:
        version = server.get("redis_version", "?")
        raise UnfitUpstream(f"Redis {version} is too old: 6.2 is the oldest that is served")
    if server.get("cluster_enabled") == "1":
        raise UnfitUpstream("Redis Cluster is not supported")


async def check_commands(redis: Redis) -> None:
    """Raises UnfitUpstream for a server that has not all commands that are needed."""
    names = [name.encode() for name in _NEEDED]
    (found,) = await run(redis, [(0, (b"COMMAND", b"INFO", *names))])
    if isinstance(found, list):  # else COMMAND is not for us, or not there
        missing = [name for name, row in zip(_NEEDED, found, strict=True) if not row]
        if missing:
            raise _lacking(missing)


async def wants_text(redis: Redis) -> bool:
    """Whether scripts are to be sent as text, since a server has EVAL and no EVALSHA.

    Raises UnfitUpstream where it has no EVAL.
    """
    sha = hashlib.sha1(TRIAL).hexdigest().encode()
    by_text, by_sha = await run(redis, [(0, (b"EVAL", TRIAL, 0)), (0, (b"EVALSHA", sha, 0))])
    if _is_unknown(by_text):
        raise _lacking(["EVAL"])
    return _is_unknown(by_sha)


def check_greeting(refusal: ResponseError) -> None:
    """Raises UnfitUpstream where a command is lacking that begins each connection: CLIENT, AUTH."""
    if named := _UNKNOWN.search(str(refusal)):
        raise _lacking([named[1]])


def _is_unknown(reply: object) -> bool:
    refusal = error(reply)
    return refusal is not None and _UNKNOWN.search(str(refusal)) is not None


def _lacking(names: Sequence[str]) -> UnfitUpstream:
    return UnfitUpstream(
        f"Redis lacks {', '.join(names)}, which ttlproxy needs: see rename-command in its"
        " configuration"
    )


def check_layout(prefix: bytes, layout: bytes | str | None) -> None:
    """Raises UnfitUpstream for keys that a later ttlproxy has left."""
    if layout is not None and layout.isdigit() and int(layout) > LAYOUT:
        raise UnfitUpstream(
            f"the keys under {prefix.decode()} have layout {int(layout)},"
            f" and this ttlproxy knows {LAYOUT}: upgrade it"
        )


async def warn(redis: Redis) -> None:
    """Logs the settings under which a promise does not hold."""
    for name, is_bad, why in _TROUBLESOME:
        try:
            value = (await redis.config_get(name)).get(name) or ""
        except ResponseError:
            return  # CONFIG is not for us, or not there
        if is_bad(value):
            log.warning("Redis has %s %s: %s", name, value, why)


def pauses_script(server: Said) -> bool:
    """Whether SCRIPT EXISTS waits until a pause of writes is over."""
    return _version(server) < _SCRIPT_READS


def has_subkey_events(server: Said) -> bool:
    return _version(server) >= _SUBKEY_EVENTS


def forms(server: Said) -> Mapping[str, Plan]:
    """How it takes the commands of ours that it has itself."""
    return valkey.FORMS if server.get("server_name") == "valkey" else {}


def _version(server: Said) -> tuple[int, ...]:
    return tuple(int(part) for part in server.get("redis_version", "0").split(".")[:2])
