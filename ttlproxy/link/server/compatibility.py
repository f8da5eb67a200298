"""Decides whether ttlproxy can work with a server, and with the other proxies there.

A server's replies tell what it can do. Proxies that cannot work together find each other, whatever
their prefixes: each subscribes to a channel whose name has its layout, the key with which it signs,
and its prefix; only new families are published there (link/knowledge/activation.py). Then it asks
which such channels there are. So of two that begin together one knows of the other. Keys of another
prefix are ordinary data to a proxy: if it replaced an element whose deadline is under that prefix,
the deadline would stay, and the new element would be deleted.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from redis.asyncio import Redis
from redis.exceptions import ClusterDownError, ResponseError

from ttlproxy import __version__
from ttlproxy.commands import dialects
from ttlproxy.commands.spec import Plan
from ttlproxy.core.keys import MEETING, SLOTS
from ttlproxy.core.topology import Node, asked_node, cluster_nodes
from ttlproxy.errors import ServesSoon, SeveralMasters, UnfitUpstream, UpstreamError
from ttlproxy.link.connecting.pipeline import Words, error, run, valid
from ttlproxy.link.connecting.pushes import Ask
from ttlproxy.link.shared.context import Context

log = logging.getLogger(__name__)

Said = Mapping[str, str]
"""What INFO says."""

# The version of the keys' layout in Redis: a proxy that meets another one does not serve.
LAYOUT = 3  # an index has no expiry, and says when its key has one
OLDEST = (6, 2)
_SUBKEY_EVENTS = (8, 8)
_SCRIPT_READS = (7, 0)
# Commands that the link sends, and that scripts need for any index. If a server lacks one of them,
# its configuration has a `rename-command`.
_NEEDED = (
    *("INFO", "TIME", "SELECT", "CLIENT", "HELLO", "SCRIPT", "EVAL", "HGET", "HGETALL"),
    *("GET", "SET", "DEL", "EXISTS", "TYPE", "PTTL", "PEXPIRE", "PERSIST"),
    *("ZADD", "ZRANGE", "ZRANGEBYSCORE", "ZREM", "ZREMRANGEBYRANK", "ZSCAN", "ZSCORE"),
)
# They tell how scripts can be called: both are refused before Redis looks at a script.
TRIALS: Sequence[Words] = ((b"EVAL", b"", -1), (b"EVALSHA", b"", -1))
# A server's error for a command that it does not have, and that command.
_UNKNOWN = re.compile(r"unknown command[ '`]+(\w+)", re.IGNORECASE)
_TROUBLESOME: tuple[tuple[str, Callable[[str], bool], str], ...] = (
    (
        "maxmemory-policy",
        lambda value: value.startswith(("allkeys", "volatile")),
        "it may evict the deadlines of elements, which then never expire",
    ),
)
SETTINGS: Sequence[Words] = [(b"CONFIG", b"GET", name.encode()) for name, *_ in _TROUBLESOME]


def check_server(server: Said) -> None:
    """Raises UnfitUpstream if the server is too old, or a Sentinel."""
    if "sentinel" in (server.get("redis_mode"), server.get("server_mode")):  # Valkey's field
        raise UnfitUpstream("it is a Sentinel: name it with redis-sentinel://HOST:PORT#NAME")
    if _version(server) < OLDEST:
        version = server.get("redis_version", "?")
        raise UnfitUpstream(f"Redis {version} is too old: ttlproxy needs 6.2 or later")


async def check_commands(redis: Redis) -> None:
    """Raises UnfitUpstream if the server lacks a command that is needed."""
    names = [name.encode() for name in _NEEDED]
    (found,) = await run(redis, [(0, (b"COMMAND", b"INFO", *names))])
    if isinstance(found, list):  # else we may not call COMMAND, or it is missing
        missing = [name for name, row in zip(_NEEDED, found, strict=True) if not row]
        if missing:
            raise _lacking(missing)


def wants_text(replies: Sequence[object]) -> bool:
    """Whether scripts must be sent as text, because the server has EVAL but no EVALSHA.

    `replies`: to TRIALS. Raises UnfitUpstream if it has no EVAL.
    """
    by_text, by_sha = replies
    if _is_unknown(by_text):
        raise _lacking(["EVAL"])
    return _is_unknown(by_sha)


def check_greeting(refusal: ResponseError) -> None:
    """Raises UnfitUpstream if a command is missing that opens connections: CLIENT, AUTH."""
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


def check_layout(prefix: bytes, layout: bytes | None, program: bytes | None) -> None:
    """Raises UnfitUpstream if the layout of the keys is not ours; `program`: the version of the
    ttlproxy that wrote it."""
    if layout and layout != b"%d" % LAYOUT:
        raise UnfitUpstream(
            f"the keys under {prefix.decode()} have layout {said_by(layout)}, of ttlproxy"
            f" {said_by(program)}, but this is ttlproxy {__version__}, which only knows layout"
            f" {LAYOUT}: proxies of both cannot work together"
        )


def check_old_layout(prefix: bytes, layout: object) -> None:
    """Raises UnfitUpstream if the reply is the layout of a version from before the first
    release."""
    if layout == b"1":
        raise UnfitUpstream(
            f"the keys under {prefix.decode()} have layout 1, which no released version knows:"
            " remove them with ttlproxy purge"
        )


def said_by(said: bytes | None) -> str:
    """Returns a version that others have stored, for people."""
    return (
        said[:40].decode("latin-1").encode("unicode_escape").decode()
        if said
        else "of an unknown version"
    )


def warn(replies: Sequence[object]) -> None:
    """Logs settings of Redis that break a promise of ttlproxy; `replies`: to SETTINGS."""
    for (name, is_bad, why), reply in zip(_TROUBLESOME, replies, strict=True):
        if is_bad(value := setting(reply)):
            log.warning("Redis has %s %s: %s", name, value, why)


def setting(reply: object) -> str:
    """Returns the value in a reply to CONFIG GET; empty if we may not call CONFIG or it is
    missing."""
    return reply[1].decode() if isinstance(reply, list) and len(reply) > 1 else ""


def pauses_script(server: Said) -> bool:
    """Whether SCRIPT EXISTS waits until a pause of writes is over."""
    return _version(server) < _SCRIPT_READS


def has_subkey_events(server: Said) -> bool:
    return _version(server) >= _SUBKEY_EVENTS


def is_clustered(server: Said) -> bool:
    """Whether it is a node of a Cluster."""
    return server.get("cluster_enabled") == "1"


async def is_node(redis: Redis) -> bool:
    """Whether it is a node of a Cluster. Raises UpstreamError if it is one without slots."""
    info: Mapping[str, object] = await redis.info("cluster")
    if not info.get("cluster_enabled"):
        return False
    if not (await check_slots(redis, all_of_them=False)).slots:
        raise UpstreamError("it owns no slots of its Redis Cluster")
    return True


async def check_slots(redis: Redis, *, all_of_them: bool = True) -> Node:
    """Returns which node of a Cluster it is.

    Raises SeveralMasters if it must own `all_of_them` and does not; UpstreamError if it is a
    replica, which may be promoted, serves no keys yet, or tells nothing; and redis-py's
    ResponseError.
    """
    told, trial = await run(redis, [(0, (b"CLUSTER", b"NODES")), (0, (b"EXISTS", b""))])
    text = valid(told).decode("utf-8", "replace")
    try:
        node = asked_node(text)
        masters = sum(each.is_master for each in cluster_nodes(text)) if node.master else 0
    except ValueError as unclear:
        raise UpstreamError(str(unclear)) from unclear
    if all_of_them and masters > 1:
        raise SeveralMasters(f"it is a replica in a Redis Cluster of {masters} masters")
    if node.master:
        raise UpstreamError(
            "it is a replica in a Redis Cluster, and no master was found: name all nodes in the URL"
        )
    if all_of_them and node.slots < SLOTS:
        raise SeveralMasters(f"it owns {node.slots} of the {SLOTS} slots of a Redis Cluster")
    if isinstance(error(trial), ClusterDownError):  # as for two seconds after a restart
        raise ServesSoon("it serves no keys yet: its Cluster is down")
    return node


def forms(server: Said) -> Mapping[str, Plan]:
    """Returns how to take commands that Valkey has as well as we; empty for Redis."""
    return dialects.VALKEY_FORMS if server.get("server_name") == "valkey" else {}


def _version(server: Said) -> tuple[int, ...]:
    return tuple(int(part) for part in server.get("redis_version", "0").split(".")[:2])


# The version of what proxies tell each other: since 2, families and rules are acknowledged; since
# 3, only deadlines that come soon are announced; since 4, families are noted in the state; since 5,
# families and rules are told by announcements.
_TOLD: Final = 5

PROXY_CHANNELS: Final = (b"PUBSUB", b"CHANNELS", MEETING + b"*")
_DIFFERENCES: Final = (
    "the layout {other}, and this one has {ours}: stop one of them first",
    "another signing key: give all proxies the same --signing-key-file",
    "the prefix {other}, and this one has {ours}: each would leave the deadlines of the other with"
    " elements that it replaces. Stop one of them first",
)


def proxy_channel(context: Context) -> bytes:
    """Returns the channel of this proxy, and of all with which it can work."""
    signer = context.script_calls.signer
    key = signer.sign(MEETING, ())[:8] if context.has_own_secret else b"stored"
    return MEETING + b":".join((b"%d.%d" % (LAYOUT, _TOLD), key, context.keys.prefix))


def join_channel(ask: Ask, own: bytes) -> None:
    """Subscribes to the channel `own`, and looks for others. Raises UnfitUpstream as
    `check_other_proxies` does."""
    check_other_proxies(own, ask((b"SUBSCRIBE", own), PROXY_CHANNELS)[-1])


def check_other_proxies(own: bytes, channels: object) -> None:
    """Takes the reply to PROXY_CHANNELS. If Redis has refused it, others go unnoticed.

    Raises UnfitUpstream if there is another proxy that this one cannot work with.
    """
    if not isinstance(channels, list):
        log.debug("this proxy cannot look for those with other prefixes: %s", channels)
        return
    ours = _parts(own)
    for theirs in map(_parts, channels):
        for mine, its, what in zip(ours, theirs, _DIFFERENCES, strict=False):
            if mine != its:
                said = what.format(other=said_by(its), ours=said_by(mine))
                raise UnfitUpstream(f"another ttlproxy in front of it has {said}")


def _parts(own: bytes) -> list[bytes]:
    return own[len(MEETING) :].split(b":", 2)
