"""The rest of a request that is not kept in memory: counts its bytes as they come."""

from __future__ import annotations

import re

# The header of a bulk string, as Redis parses it: it does not check the byte after the CR.
_BULK = re.compile(rb"\$(0|[1-9][0-9]{0,9})\r.", re.DOTALL)
_LONGEST_HEADER = 16


class Passage:
    """Finds which of the coming bytes belong to the request.

    broken: the bytes are no valid request, so its end is unknown; refused: Redis refuses it
    header: the bytes so far of the next bulk string's header, or of the bad frame in its place
    """

    __slots__ = ("_body", "_elements", "broken", "header", "refused")

    def __init__(self, elements: int) -> None:
        """`elements`: bulk strings to come; the first of them begins with the next byte."""
        self._elements = elements
        self._body = 0  # bytes to come of the current bulk string, with its CRLF
        self.header = b""
        self.broken = self.refused = False

    @property
    def done(self) -> bool:
        """Whether the request is complete."""
        return not (self._body or self._elements)

    def take(self, data: bytes) -> int:
        """Returns how many of these bytes belong to the request."""
        at = 0
        while at < len(data) and not (self.done or self.broken):
            if self._body:
                taken = min(self._body, len(data) - at)
                self._body -= taken
            else:
                taken = self._read_header(data[at : at + _LONGEST_HEADER])
            at += taken
        return at

    def _read_header(self, data: bytes) -> int:
        """Returns how many of these bytes belong to the header."""
        before = len(self.header)
        line = (self.header + data)[:_LONGEST_HEADER]
        end = line.find(b"\r") + 2
        is_whole = 2 <= end <= len(line)
        self.header = line[:end] if is_whole else line
        taken = len(self.header) - before
        if header := _BULK.fullmatch(self.header):
            self._body = int(header[1]) + 2
            self._elements -= 1
            self.header = b""
        else:
            self.broken = is_whole or len(line) == _LONGEST_HEADER
            self.refused = is_whole and not line.startswith(b"$")
        return taken
