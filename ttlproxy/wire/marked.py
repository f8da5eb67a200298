"""One reply among others, found by a mark that stands before it.

A script that is given the mark answers `[mark, reply]`. Here the array and the mark are taken out
again, and with them the reply, if it is a null and still waited for. All else passes unread.
"""

from __future__ import annotations

import re
from typing import Final

_NULLS: Final = (b"$-1\r\n", b"_\r\n")
# How an error ends what Redis has sent, where no script has run.
_REFUSED: Final = re.compile(rb"(?:^|\r\n)-[^\r\n]*\r\n$")
_DIGITS: Final = 10


class Marked:
    """Replies on their way to a client.

    found: whether the reply with the last mark has come; null: whether it is null; refused: whether
    an error has come that may stand in its place: if it comes yet, it is the client's
    """

    __slots__ = ("_head", "_held", "_number", "_word", "found", "null", "refused")

    def __init__(self, word: bytes) -> None:
        """`word`: what nobody can guess."""
        self._word = word
        self._head = b"*2\r\n$%d\r\n%b" % (len(word) + _DIGITS, word)
        self._held = b""
        self._number = 0
        self.found = self.null = self.refused = False

    def another(self) -> bytes:
        """The mark of the next reply to find."""
        self._number += 1
        self.found = self.null = self.refused = False
        return b"%b%0*d" % (self._word, _DIGITS, self._number)

    def take(self, data: bytes) -> bytes:
        """Takes what Redis has sent; gives what of it is for the client."""
        data, self._held = self._held + data, b""
        out = []
        while (at := data.find(self._head)) >= 0:
            out.append(data[:at])
            data = data[at:]
            mark, reply = data[len(self._head) :][:_DIGITS], data[len(self._head) + _DIGITS + 2 :]
            if any(null.startswith(reply) and null != reply for null in _NULLS):
                self._held = data
                return b"".join(out)
            data = self._unmarked(int(mark), reply)
        # Who has found it asks no more: nothing of what follows may stay here.
        out.append(data if self.found else self._most(data))
        return b"".join(out)

    def _unmarked(self, number: int, reply: bytes) -> bytes:
        """A reply whose mark has been taken off, and what follows."""
        if number != self._number:
            return reply
        null = next(filter(reply.startswith, _NULLS), b"")
        self.found, self.null = True, bool(null)
        return reply if self.refused else reply[len(null) :]

    def _most(self, data: bytes) -> bytes:
        """All but what may be the beginning of a mark."""
        for length in range(min(len(self._head) - 1, len(data)), 0, -1):
            if data.endswith(self._head[:length]):
                self._held = data[-length:]
                return data[:-length]
        self.refused = self.refused or _REFUSED.search(data[-1024:]) is not None
        return data
