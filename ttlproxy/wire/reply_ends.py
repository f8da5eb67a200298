"""Finds where replies end in what a server sends, wherever the bytes are cut. Keeps no reply.

RESP2 and RESP3 as Redis sends them, so no streamed types. A push counts as a reply, unless it is
between the elements of one, where Redis before 7.2 may put it.
"""

from __future__ import annotations

from typing import Final

PUSH: Final = ord(">")
ERROR: Final = ord("-")
_BULK: Final = ord("$")
_MINUS: Final = ord("-")  # of the length of a null
_LINES: Final = frozenset(b"+-:_,#(")
_BULKS: Final = frozenset(b"$=!")
# How many values each element of an aggregate has; an attribute is followed by its value.
_VALUES: Final = {ord("*"): 1, ord("~"): 1, ord(">"): 1, ord("%"): 2}
# The headers of short bulk strings, and the bytes of both; there are longer ones.
_BULK_SIZES: Final = {
    header: len(header) + size + 2 for size in range(1024) for header in (b"$%d\r\n" % size,)
}
_NULL: Final = b"$-1\r\n"
_ATTRIBUTE: Final = ord("|")
_NONE: Final = 0


class ReplyEnds:
    """Where one connection's replies end."""

    __slots__ = ("_bulk", "_bulk_size", "_head", "_left", "_skip")

    def __init__(self) -> None:
        # The last header of a bulk string, and the bytes of both: the next one is often as long.
        self._bulk, self._bulk_size = _NULL, len(_NULL)
        self._left = 0  # values to come of a reply that has begun
        self._skip = 0  # bytes to come of the last value, with its CRLF
        self._head = b""  # of the next value, as far as it has come

    @property
    def is_between(self) -> bool:
        """Whether the last reply is whole, and no other has begun."""
        return not (self._left or self._skip or self._head)

    def take(self, data: bytes) -> list[int]:
        """The positions behind each reply that ends in these bytes. Raises ValueError for what is
        no reply."""
        ends: list[int] = []
        size, find, starts = len(data), data.find, data.startswith
        left, at = self._left, self._skip
        if self._head:
            end = find(b"\n")
            if end < 0:
                self._head += data
                return ends
            head, self._head = self._head + data[: end + 1], b""
            more, skip = _after(head[:-2])
            is_extra = head[0] == PUSH and left > 0
            left, at = (left or 1) + more + is_extra, end + 1 + skip
        if not left and 0 < at <= size:
            ends.append(at)
        bulk, bulk_size = self._bulk, self._bulk_size
        while at < size:
            kind = data[at]
            if kind == _BULK and starts(bulk, at):
                left = (left or 1) - 1
                at += bulk_size
            elif (end := find(b"\r\n", at)) < 0:
                self._head = data[at:]
                at = size
                break
            elif kind in _LINES:
                left = (left or 1) - 1
                at = end + 2
            elif kind == _BULK and data[at + 1] != _MINUS:
                bulk = data[at : end + 2]
                bulk_size = _BULK_SIZES.get(bulk) or len(bulk) + int(bulk[1:-2]) + 2
                left = (left or 1) - 1
                at += bulk_size
            else:
                more, skip = _after(data[at:end])
                is_extra = kind == PUSH and left > 0
                left = (left or 1) + more + is_extra
                at = end + 2 + skip
            if not left and at <= size:
                ends.append(at)
        self._left, self._skip = left, at - size
        self._bulk, self._bulk_size = bulk, bulk_size
        return ends


def _after(head: bytes) -> tuple[int, int]:
    """What a header without its CRLF says: how many more values are to come, itself no longer
    counted, and how many bytes of its own."""
    kind = head[0] if head else _NONE
    if kind in _LINES:
        return -1, 0
    number = int(head[1:])
    if kind in _BULKS:
        return -1, (number + 2 if number >= 0 else 0)
    if kind in _VALUES:
        return max(number, 0) * _VALUES[kind] - 1, 0
    if kind == _ATTRIBUTE:
        return 2 * number, 0
    raise ValueError(repr(head[:64]))
