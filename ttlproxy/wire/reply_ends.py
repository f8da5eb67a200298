"""Finds where replies end in what a server sends, wherever the bytes are cut. Keeps no reply.

RESP2 and RESP3 as Redis sends them, so no streamed types. A push counts as a reply, unless it is
between the elements of one, where Redis before 7.2 may put it.
"""

from __future__ import annotations

from typing import Final

from ttlproxy.wire.core import reply_ends

PUSH: Final = ord(">")
ERROR: Final = ord("-")
# The end of a line may have come with the bytes before.
_BEGINNINGS: Final = frozenset(b"->|\n")


class ReplyEnds:
    """Finds where one connection's replies end.

    pushes: how many of the last ends are those of pushes
    """

    __slots__ = ("_head", "_kind", "_left", "_size", "pushes")

    def __init__(self) -> None:
        self._left = 0  # values to come of a reply that has begun
        self._size = 0  # bytes to come of the last value, with its CRLF
        self._head = b""  # of the next value, as far as it has come
        self._kind = 0  # the first byte of the reply, or push, that has begun
        self.pushes = 0

    @property
    def begun(self) -> int:
        """The first byte of the reply, or push, that has begun; 0 without one."""
        return self._kind or (self._head[0] if self._head else 0)

    def feed(self, data: bytes) -> list[int]:
        """The positions behind each reply that ends in these bytes. Raises ValueError for what is
        no reply."""
        before = len(self._head)
        if before:
            data = self._head + data
        ends, self.pushes, self._left, self._size, self._kind, end = reply_ends(
            data, self._left, self._size, self._kind
        )
        self._head = data[end:]
        return [at - before for at in ends] if before else ends


def may_be_special(data: bytes) -> bool:
    """Whether an error, a push or an attribute may begin in these bytes."""
    # A search for a single byte takes a tenth of the time, and mostly finds nothing.
    return (
        data[0] in _BEGINNINGS
        or (b"-" in data and b"\r\n-" in data)
        or (b">" in data and b"\r\n>" in data)
        or (b"|" in data and b"\r\n|" in data)
    )
