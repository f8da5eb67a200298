"""The kinds of import and export: which options each takes, and its source and target."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from redis.exceptions import NoPermissionError, ResponseError

from ttlproxy.addresses import Upstream
from ttlproxy.errors import OperationError
from ttlproxy.link.connecting.pipeline import Words
from ttlproxy.operations.migration.connection import Server
from ttlproxy.operations.migration.elements import (
    NATIVE_WORDS,
    PROXY_WORDS,
    Changes,
    Source,
    SourcePart,
    Target,
)
from ttlproxy.operations.migration.pairs import UNITS, Naming, PairsSource, PairsTarget
from ttlproxy.operations.migration.redisson import RedissonSource
from ttlproxy.operations.migration.timed import READINGS, TimedSource, TimedTarget


@dataclass(frozen=True)
class Options:
    """The options of a call. One that the job does not take is not set.

    proxy: a running ttlproxy; other: the server on the other side, None if it is the proxy
    db: the logical database, on both sides; rate: elements a second; state: the file
    is_applied: if not, nothing is written
    """

    proxy: Upstream
    other: Upstream | None
    db: int
    rate: float
    state: Path
    is_applied: bool
    match: bytes = b"*"
    deadlines: bytes = b""
    data: bytes = b""
    beside: bytes = b""
    unit: str = ""
    maps: Sequence[bytes] = ()
    sets: Sequence[bytes] = ()
    into: bytes = b""
    copies: bool = False
    deletes: bool = False


class Ends(NamedTuple):
    """proxy: a connection to it; other: one to the other side, which may be the same"""

    proxy: Server
    other: Server


class Moved(NamedTuple):
    """hint: what may be wrong if no element of the source is at the target"""

    source: Source
    target: Target
    how: Changes
    hint: str


class Job(NamedTuple):
    """A kind of import or export.

    summary: for --help; needs, takes: the names of options, besides those that all jobs take
    prepare: makes its source and target; raises OperationError, or ValueError if an option is wrong
    """

    summary: str
    needs: Collection[str]
    takes: Collection[str]
    prepare: Callable[[Options, Ends], Awaitable[Moved]]


async def _pairs(options: Options, ends: Ends) -> Moved:
    naming = Naming(options.deadlines, options.data)
    proxy, unit = ends.proxy, UNITS[options.unit]
    source = PairsSource(proxy, naming, unit, is_clustered=await proxy.is_clustered())
    how = Changes(deletes=options.deletes)
    hint = "does --data name the right keys?"
    return Moved(source, TimedTarget(proxy, PROXY_WORDS), how, hint)


async def _redisson(options: Options, ends: Ends) -> Moved:
    parts = [
        *(SourcePart(pattern, b"hash") for pattern in options.maps),
        *(SourcePart(pattern, b"zset") for pattern in options.sets),
    ]
    if not parts:
        raise ValueError("import redisson needs --maps, --sets or both")
    is_elsewhere = options.other is not None
    names = {part: Naming(part.match, options.into, is_elsewhere=is_elsewhere) for part in parts}
    source = RedissonSource(ends.other, names)
    return Moved(source, TimedTarget(ends.proxy, PROXY_WORDS), Changes(copies=True), "")


def _from(kind: str, probe: Words, what: str) -> Callable[[Options, Ends], Awaitable[Moved]]:
    """Returns `prepare` of a Job; `probe`: a request that only such a server answers; `what`: its
    kind, for people."""

    async def prepare(options: Options, ends: Ends) -> Moved:
        await _probe(ends.other, probe, what)
        source = TimedSource(
            *(ends.other, options.match, READINGS[kind]), has_data=False, copies=options.copies
        )
        how = Changes(options.copies, options.deletes)
        target = TimedTarget(ends.proxy, PROXY_WORDS)
        return Moved(source, target, how, _COPY)

    return prepare


async def _to_native(options: Options, ends: Ends) -> Moved:
    await _probe(ends.other, _NATIVE, _OF_NATIVE)
    reading = READINGS["ttlproxy"]._replace(kinds=(b"hash",))
    source = TimedSource(
        *(ends.proxy, options.match, reading), has_data=False, copies=options.copies
    )
    target, how = TimedTarget(ends.other, NATIVE_WORDS), Changes(options.copies)
    return Moved(source, target, how, _COPY)


async def _to_pairs(options: Options, ends: Ends) -> Moved:
    source = TimedSource(
        *(ends.proxy, options.match, READINGS["ttlproxy"]), has_data=True, copies=False
    )
    naming = Naming(b"*", options.beside, is_elsewhere=options.other is not None)
    target = PairsTarget(ends.other, naming, UNITS[options.unit])
    return Moved(source, target, Changes(), "")


async def _probe(server: Server, words: Words, what: str) -> None:
    (reply,) = await server.replies([words])
    is_refused = isinstance(reply, NoPermissionError)  # of the probe's key, perhaps of no other
    if isinstance(reply, ResponseError) and not is_refused:
        raise OperationError(f"{server.shown} is not {what}: {reply}")


async def check_proxy(server: Server) -> None:
    """Raises OperationError if this is no ttlproxy."""
    await _probe(server, (b"TTLPROXY", b"INFO"), "a running ttlproxy")


_COPY: Final = "copy the data first, or use --copy"
_NATIVE: Final[Words] = (b"HPEXPIRETIME", b"", b"FIELDS", 1, b"")
_OF_NATIVE: Final = "a server with deadlines of hash fields (Redis 7.4, Valkey 9)"
_OF_SERVER: Final = ("match", "copy", "delete_expired")

IMPORTS: Final[Mapping[str, Job]] = {
    "pairs": Job(
        "sorted sets of deadlines beside hashes, sets, sorted sets and lists, in the same Redis",
        ("deadlines", "data", "unit"),
        ("delete_expired",),
        _pairs,
    ),
    "redisson": Job(
        "RMapCache and RSetCache of Redisson, copied to hashes and sets",
        ("into",),
        ("maps", "sets", "source"),
        _redisson,
    ),
    "native": Job(
        "deadlines of hash fields of Redis 7.4 and later, and of Valkey 9",
        ("source",),
        _OF_SERVER,
        _from("native", _NATIVE, _OF_NATIVE),
    ),
    "keydb": Job(
        "deadlines of members and hash fields of KeyDB",
        ("source",),
        _OF_SERVER,
        _from("keydb", (b"PTTL", b"", b""), "a KeyDB"),
    ),
    "dragonfly": Job(
        "deadlines of members and hash fields of Dragonfly",
        ("source",),
        _OF_SERVER,
        _from("dragonfly", (b"FIELDTTL", b"", b""), "a Dragonfly"),
    ),
}
EXPORTS: Final[Mapping[str, Job]] = {
    "native": Job(
        "hashes: to deadlines of fields of Redis 7.4 and later, or of Valkey 9",
        ("to",),
        ("match", "copy"),
        _to_native,
    ),
    "pairs": Job(
        "all types: to sorted sets of deadlines beside the keys",
        ("beside", "unit"),
        ("match", "to"),
        _to_pairs,
    ),
}
