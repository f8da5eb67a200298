"""Reads what Redisson's RMapCache and RSetCache keep, for a copy that any client can read.

Redisson's source (RedissonMapCache, RedissonSetCache) defines the layout. An RMapCache is a hash.
Each value has a header (struct.pack('dLc0') of Redis's Lua): the longest time without use in ms, 0
if there is none, and the length. The deadlines are scores of two sorted sets, in ms. An RSetCache
is a sorted set with its deadlines, in ms, as scores. Keys and values are as the program's codec
wrote them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from struct import Struct
from typing import Final

from ttlproxy.errors import UnfitKey
from ttlproxy.operations.migration.connection import Server, scanned
from ttlproxy.operations.migration.elements import Element, Page, SourcePart, shown
from ttlproxy.operations.migration.pairs import Naming

_HEADER: Final = Struct("<dQ")
_TIMEOUTS: Final = b"redisson__timeout__set"
_IDLE: Final = b"redisson__idle__set"
# The year 2,922,877 or so is the deadline of a member of an RSetCache that has none.
_NEVER_MS: Final = 1 << 55


class RedissonSource:
    """`names`: of the copies, by the pattern for the names of maps (hash) or sets (zset)."""

    slack_ms = 0
    compares = True

    def __init__(self, server: Server, names: Mapping[SourcePart, Naming]) -> None:
        self.parts: Sequence[SourcePart] = list(names)
        self._names = names
        self.server = server

    async def page(self, name: bytes, part: SourcePart, cursor: bytes) -> Page:
        key = self._names[part].other(name)
        found = await scanned(self.server, name, part.kind, cursor)
        if part.kind == b"zset":
            members = [Element(member, _deadline(at)) for member, at in found.pairs]
            return Page(key, b"set", members, found.cursor, found.key_deadline_ms)
        names = [field for field, _ in found.pairs]
        if not names:
            return Page(key, b"hash", (), found.cursor)
        # One step reads both, so that value and deadlines are of the same write.
        *_, (values, timeouts, idle) = await self.server.ask(
            (b"MULTI",),
            (b"HMGET", name, *names),
            *((b"ZMSCORE", beside(prefix, name), *names) for prefix in (_TIMEOUTS, _IDLE)),
            (b"EXEC",),
        )
        fields = [
            _field(name, field, value, timeout, unused)
            for field, value, timeout, unused in zip(names, values, timeouts, idle, strict=True)
            if value is not None  # else it has just been removed
        ]
        return Page(key, b"hash", fields, found.cursor, found.key_deadline_ms)


def beside(prefix: bytes, name: bytes) -> bytes:
    """Returns the name of a sorted set that belongs to a map."""
    return b"%b:%b" % (prefix, name) if b"{" in name else b"%b:{%b}" % (prefix, name)


def _field(
    name: bytes, field: bytes, value: bytes, timeout: bytes | None, unused: bytes | None
) -> Element:
    """Reads a field; both scores may be None. Raises UnfitKey if the value has no header."""
    longest_idle_ms, length = (
        _HEADER.unpack_from(value) if len(value) >= _HEADER.size else (0.0, -1)
    )
    if length != len(value) - _HEADER.size:
        raise UnfitKey(
            f"field {shown(field)} of {shown(name)} is not written by an RMapCache: does --maps"
            " match other hashes, too?"
        )
    deadlines = [_deadline(timeout), _deadline(unused) if longest_idle_ms else None]
    earliest = min((at for at in deadlines if at is not None), default=None)
    return Element(field, earliest, value[_HEADER.size :])


def _deadline(score: bytes | None) -> int | None:
    at = float(score) if score is not None else _NEVER_MS
    return int(at) if at < _NEVER_MS else None
