"""Nested lists of bytes and numbers, as Redis's replies are, packed into bytes. No I/O."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Any, Final, TypeAlias

import hiredis

Packable: TypeAlias = "bytes | int | Sequence[Packable] | None"

# A table of commands has 0.1 MB.
_MOST_BYTES: Final = 1 << 23


def pack(value: Packable) -> bytes:
    return zlib.compress(_resp(value))


def unpack(packed: bytes) -> Any:
    """Raises ValueError if these bytes were not packed by `pack`, or are too many."""
    inflater, reader = zlib.decompressobj(), hiredis.Reader()
    try:
        reader.feed(inflater.decompress(packed, _MOST_BYTES))
        value = reader.gets()
    except (zlib.error, hiredis.HiredisError) as broken:
        raise ValueError(str(broken)) from broken
    if not inflater.eof or inflater.unused_data or value is False:
        raise ValueError("it is not whole")
    return value


def _resp(value: Packable) -> bytes:
    if value is None:
        return b"$-1\r\n"
    if isinstance(value, bytes):
        return b"$%d\r\n%b\r\n" % (len(value), value)
    if isinstance(value, int):
        return b":%d\r\n" % value
    return b"*%d\r\n%b" % (len(value), b"".join(map(_resp, value)))
