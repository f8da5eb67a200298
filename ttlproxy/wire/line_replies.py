"""Counts one-line replies to a client that has not logged in, until its login succeeds.

Redis answers each request of such a client with one line: an error, or the +RESET of RESET. The
first other reply is that to the AUTH or HELLO that logged it in.
"""

from __future__ import annotations

_ERROR = ord("-")


class Lines:
    """Counts lines that come in pieces of any size. ended: how many complete lines have come"""

    __slots__ = ("_is_begun", "_number", "ended", "let_in")

    def __init__(self) -> None:
        self.ended = 0
        self._is_begun = False  # part of the next line has come
        self._number: int | None = None
        self.let_in: bool | None = None

    def look_for(self, number: int) -> None:
        """From now on `let_in` is about the reply that has `number` replies before it."""
        self._number, self.let_in = number, None

    def take(self, data: bytes) -> None:
        """Takes bytes from Redis."""
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
