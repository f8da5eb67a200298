"""Replies of one line, counted: those to a client that has not logged in, until it is let in.

To that client Redis answers each request with a line: an error, or the +RESET of RESET. The first
reply that is something else is to an AUTH or HELLO by which it is let in.
"""

from __future__ import annotations

_ERROR = ord("-")


class Lines:
    """Counts the lines as they come, in pieces of any size. ended: those whose end has come"""

    __slots__ = ("_is_begun", "_number", "ended", "let_in")

    def __init__(self) -> None:
        self.ended = 0
        self._is_begun = False  # the next has come in part
        self._number: int | None = None
        self.let_in: bool | None = None

    def look_for(self, number: int) -> None:
        """`let_in` is to tell of the reply before which so many others come."""
        self._number, self.let_in = number, None

    def take(self, data: bytes) -> None:
        """Takes what Redis has sent."""
        at = 0
        while at < len(data):
            if not self._is_begun and self.ended == self._number:
                self.let_in = data[at] != _ERROR
                if self.let_in:
                    return  # it may have more lines than one
            end = data.find(b"\n", at)
            self._is_begun = end < 0
            if self._is_begun:
                return
            self.ended += 1
            at = end + 1
