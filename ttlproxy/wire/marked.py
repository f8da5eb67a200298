"""Finds one reply among others by a mark in front of it.

A script that gets the mark answers `[mark, reply]`. This module removes the array header and the
mark, and the reply too if it is a null. All other bytes pass unread.

Redis may refuse to run the script. An error that passes may be the script's reply, part of a value,
or the reply to an earlier request. So we send a command that no server knows (the fence) after the
script's call: the error that names it comes after the reply, and is removed too.
"""

from __future__ import annotations

from typing import Final
from uuid import uuid4

_NULLS: Final = (b"$-1\r\n", b"_\r\n")
# Redis repeats at most 128 bytes of the name of a command that it does not know.
_LONGEST_ERROR: Final = 1024


class Marked:
    """Replies on their way to a client.

    found: whether the reply with the last mark has come; null: whether it is a null; refused:
    whether the script did not run, so that its reply was an error
    doubtful: an error has passed that may be the reply; the caller must send `fence`
    """

    __slots__ = (
        "_at_line_start",
        "_fence",
        "_fences",
        "_head",
        "_held",
        "_waits",
        "doubtful",
        "found",
        "null",
        "refused",
    )

    def __init__(self) -> None:
        self._head = self._held = b""
        self._fence = b""
        self._fences: list[bytes] = []  # fences that were sent and whose errors have not come
        self._waits = False
        self._at_line_start = False
        self.found = self.null = self.refused = self.doubtful = False

    def another(self) -> bytes:
        """A new mark, for the next reply to find; it cannot be guessed."""
        mark = uuid4().hex.encode()
        self._head = b"*2\r\n$%d\r\n%b\r\n" % (len(mark), mark)
        self._fence = b""
        self._waits = True
        self._at_line_start = True  # it may be
        self.found = self.null = self.refused = self.doubtful = False
        return mark

    def fence(self) -> bytes:
        """The name of an unknown command that the caller must send now."""
        self._fence = uuid4().hex.encode()
        self._fences.append(self._fence)
        self.doubtful = False
        return self._fence

    @property
    def done(self) -> bool:
        """Whether all further bytes are for the client."""
        return not (self._waits or self._fences or self._held)

    def take(self, data: bytes) -> bytes:
        """Takes bytes from Redis; returns those that are for the client."""
        data, self._held = self._held + data, b""
        out: list[bytes] = []
        rest: bytes | None = data
        while rest is not None:
            rest = self._step(rest, out)
        return b"".join(out)

    def _step(self, data: bytes, out: list[bytes]) -> bytes | None:
        """Passes the bytes before the next mark or fence; returns those after it, or None."""
        mark_at = data.find(self._head) if self._waits else -1
        fence, fence_at = self._first_fence(data)
        if mark_at >= 0 and (fence_at < 0 or mark_at < fence_at):
            self._pass(data[:mark_at], out)
            return self._unmarked(data[mark_at:])
        if fence_at < 0:
            kept = min(self._may_be_mark(data), self._may_be_error(data))
            self._pass(data[:kept], out)
            self._held = data[kept:]
            return None
        begin, end = data.rfind(b"\n", 0, fence_at) + 1, data.find(b"\r\n", fence_at)
        self._pass(data[:begin], out)
        if end < 0:
            self._held = data[begin:]
            return None
        self._fences.remove(fence)
        if self._waits and fence == self._fence:
            self._waits, self.refused = False, True
        return data[end + 2 :]

    def _first_fence(self, data: bytes) -> tuple[bytes, int]:
        """The first fence in `data`, and where it is; -1 if there is none."""
        found = [(data.find(fence), fence) for fence in self._fences if fence in data]
        at, fence = min(found, default=(-1, b""))
        return fence, at

    def _unmarked(self, data: bytes) -> bytes | None:
        """The bytes after the mark at the start of `data`, without a null; None: more must come."""
        reply = data[len(self._head) :]
        if any(null.startswith(reply) and null != reply for null in _NULLS):
            self._held = data
            return None
        null = next(filter(reply.startswith, _NULLS), b"")
        self._waits, self.found, self.null = False, True, bool(null)
        return reply[len(null) :]

    def _may_be_mark(self, data: bytes) -> int:
        """The place where a mark may begin that `data` cuts off; else its end."""
        if self._waits:
            head = self._head
            for length in range(min(len(head) - 1, len(data)), 0, -1):
                if data.endswith(head[:length]):
                    return len(data) - length
        return len(data)

    def _may_be_error(self, data: bytes) -> int:
        """The place where an error of a fence may begin that `data` cuts off; else its end."""
        if self._fences:
            begin = data.rfind(b"\n") + 1
            is_line = begin > 0 or self._at_line_start
            if is_line and data[begin : begin + 1] == b"-" and len(data) - begin < _LONGEST_ERROR:
                return begin
        return len(data)

    def _pass(self, data: bytes, out: list[bytes]) -> None:
        """These bytes are for the client."""
        if not data:
            return
        if self._waits and not self._fence:
            begins = self._at_line_start and data.startswith(b"-")
            self.doubtful = self.doubtful or begins or b"\n-" in data
        self._at_line_start = data.endswith(b"\n")
        out.append(data)
