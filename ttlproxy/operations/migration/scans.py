"""Reads the elements of a key a page at a time, with HSCAN and its like."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from ttlproxy.link.connecting.pipeline import Words
from ttlproxy.operations.migration.connection import Server
from ttlproxy.operations.migration.elements import PAGE, milliseconds

Pairs = Sequence[tuple[bytes, bytes | None]]


class Scan(NamedTuple):
    """command: what reads a page; pairs: (element, value) for each, from what the reply lists"""

    command: bytes
    pairs: Callable[[Sequence[bytes]], Pairs]

    def words(self, key: bytes, cursor: bytes) -> Words:
        """The request. Its reply is the next cursor, and what `pairs` takes."""
        return (self.command, key, cursor, b"COUNT", PAGE)


def _with_values(listed: Sequence[bytes]) -> Pairs:
    return list(zip(listed[::2], listed[1::2], strict=True))


def _alone(listed: Sequence[bytes]) -> Pairs:
    return [(name, None) for name in listed]


SCANS: Final[Mapping[bytes, Scan]] = {
    b"hash": Scan(b"HSCAN", _with_values),
    b"set": Scan(b"SSCAN", _alone),
    b"zset": Scan(b"ZSCAN", _with_values),
}


class Scanned(NamedTuple):
    """A page of a key as it is at the source: see `Page`. now_ms: Unix time there"""

    cursor: bytes
    pairs: Pairs
    key_deadline_ms: int | None
    now_ms: int


async def scanned(server: Server, key: bytes, kind: bytes, cursor: bytes) -> Scanned:
    """The elements from `cursor` on. Raises MigrationError."""
    scan = SCANS[kind]
    (following, listed), left_ms, time = await server.ask(
        scan.words(key, cursor), (b"PTTL", key), (b"TIME",)
    )
    now_ms = milliseconds(time)
    whole_ms = now_ms + left_ms if left_ms >= 0 else None
    return Scanned(following, scan.pairs(listed), whole_ms, now_ms)
