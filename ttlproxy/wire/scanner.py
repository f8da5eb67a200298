"""Reads requests exactly as Redis does, one after the other, wherever the bytes are cut.

As in src/networking.c (processInlineBuffer and processMultibulkBuffer): inline commands, which are
one line of words, empty lines, and frames that Redis refuses. The rest of a request that is not
kept in memory is counted as it comes (`Passage`).
"""

from __future__ import annotations

import re
from typing import Final

# The characters of C's isspace(). Fewer of them end a word in Redis: `a\vb` is one word.
_BLANKS = re.compile(rb"[ \t\n\v\f\r]*")
_PLAIN = re.compile(rb"[^ \t\n\r\"']*")
# After a closing quote there must be a blank or the end of the line.
_DOUBLE_QUOTED = re.compile(rb'"((?:\\.|[^"\\])*)"(?![^ \t\n\v\f\r])', re.DOTALL)
_SINGLE_QUOTED = re.compile(rb"'((?:\\'|[^'])*+)'(?![^ \t\n\v\f\r])", re.DOTALL)
_ESCAPE = re.compile(rb"\\(x[0-9a-fA-F]{2}|.)", re.DOTALL)
_ESCAPED = {b"n": b"\n", b"r": b"\r", b"t": b"\t", b"b": b"\b", b"a": b"\a"}

# A line that every server refuses because of unbalanced quotes.
UNBALANCED = b'"\r\n'


def split_inline(line: bytes) -> list[bytes] | None:
    """The words of a line, [] for an empty one; None if its quotes are unbalanced.

    The grammar is Redis's (src/sds.c, sdssplitargs). Valkey 9.1 allows more of a word after its
    closing quote; such a line is unbalanced here, as in Redis.
    """
    words: list[bytes] = []
    at = _end(_BLANKS, line, 0)
    while at < len(line):
        word, at = _word(line, at)
        if word is None:
            return None
        words.append(word)
        at = _end(_BLANKS, line, at)
    return words


def _end(pattern: re.Pattern[bytes], line: bytes, at: int) -> int:
    match = pattern.match(line, at)
    return match.end() if match else at


def _word(line: bytes, at: int) -> tuple[bytes | None, int]:
    """The word that begins at `at`, and where it ends. A quote may begin inside it."""
    end = _end(_PLAIN, line, at)
    plain, quote = line[at:end], line[end : end + 1]
    if quote == b'"':
        quoted = _DOUBLE_QUOTED.match(line, end)
        return (plain + _ESCAPE.sub(_unescape, quoted[1]), quoted.end()) if quoted else (None, end)
    if quote == b"'":
        quoted = _SINGLE_QUOTED.match(line, end)
        return (plain + quoted[1].replace(b"\\'", b"'"), quoted.end()) if quoted else (None, end)
    return plain, end


def _unescape(match: re.Match[bytes]) -> bytes:
    escape = match[1]
    if len(escape) == 3:
        return bytes.fromhex(escape[1:].decode())
    return _ESCAPED.get(escape, escape)


# Redis: PROTO_INLINE_MAX_SIZE, for a line whose end has not come.
MAX_LINE: Final = 64 * 1024
# Redis 6.2 refuses more elements than this.
MAX_ELEMENTS: Final = 1024 * 1024
# Redis: proto-max-bulk-len, its default.
MAX_BULK: Final = 512 * 1024 * 1024
# The number of words that are kept of a request that is incomplete: the command's name and its
# first key.
_FIRST_WORDS: Final = 2
# An integer as Redis's own parser takes it (src/util.c, string2ll).
_INTEGER: Final = re.compile(rb"0|-?[1-9][0-9]{0,18}")
_ASTERISK, _DOLLAR = b"*$"


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

    def feed(self, data: bytes) -> int:
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


class Scanner:
    """Reads one request at a time, exactly as Redis does; keeps an incomplete one.

    words: the words of the current request that are here; only the first ones while it is waited
    for; count: how many words it announces; missing: how many of them are still to come, 0 for an
    inline command; awaited: bytes of the incomplete bulk string
    start: where the bytes begin that have not been taken
    begin: where the last result of `next` begins
    has_lines: whether an inline command has come
    broken: no more requests can be read; refused: every server refuses the frame at `start`
    """

    __slots__ = (
        "_at",
        "_first",
        "awaited",
        "begin",
        "broken",
        "buffer",
        "count",
        "has_lines",
        "missing",
        "refused",
        "start",
        "words",
    )

    def __init__(self, data: bytes = b"", start: int = 0) -> None:
        self.buffer = bytearray(data)
        self.words: list[bytes] = []
        self._at = start  # how far the buffer has been read
        self._first = start  # where the first bulk string of the current request begins
        self.count = self.missing = 0
        self.awaited = 0
        self.start = start
        self.begin = start
        self.broken = self.refused = self.has_lines = False

    def push(self, data: bytes) -> None:
        self.buffer += data

    @property
    def size(self) -> int:
        """The least size of the current request in bytes."""
        end_of_bulk = self._at - self.start + self.awaited + len(b"$%d\r\n\r\n" % self.awaited)
        return max(len(self.buffer) - self.start, end_of_bulk if self.awaited else 0)

    def taken(self) -> bytes:
        """The bytes of the requests read since the last call."""
        taken = bytes(memoryview(self.buffer)[: self.start])
        del self.buffer[: self.start]
        self._at -= self.start
        self._first -= self.start
        self.start = 0
        return taken

    def passage(self) -> Passage:
        """A Passage for the incomplete request; it has counted the bytes so far."""
        passage = Passage(self.missing)
        passage.feed(bytes(self.buffer[self._at :]))
        return passage

    def rest(self) -> bytes:
        """Returns all bytes that are left, and forgets them."""
        rest = bytes(memoryview(self.buffer)[self.start :])
        self.buffer = bytearray()
        self._at = self._first = self.start = self.count = self.missing = self.awaited = 0
        self.words = []
        return rest

    def ending(self) -> bytes:
        """The bytes to forward of a broken stream; forgets all."""
        if not self.refused:
            return self.rest()
        is_line = self.buffer[self.start] != _ASTERISK
        ending = UNBALANCED if is_line else bytes(self.buffer[self.start : self._at])
        self.rest()
        return ending

    def next(self) -> list[bytes] | None:
        """The next request's words; None if it is incomplete or the stream is broken."""
        while not self.broken and (self.missing or self._header()):
            if self.missing and not self._elements():
                del self.words[_FIRST_WORDS:]
                return None
            if len(self.words) < self.count:  # it came in pieces
                self._read_again()
            if self.words:
                args, self.words = self.words, []
                return args
        return None

    def _header(self) -> bool:
        """Reads a multi-bulk header, or a whole inline command; False if incomplete or broken."""
        self.begin = self._at
        if self._at >= len(self.buffer):
            return False
        if self.buffer[self._at] != _ASTERISK:
            return self._inline()
        count = self._number(_ASTERISK)
        if count is None:
            return False
        if count > MAX_ELEMENTS:
            self.broken = True
            return False
        self.count = self.missing = max(count, 0)
        self._first = self._at
        if not self.missing:
            self.start = self._at
        return True

    def _elements(self) -> bool:
        """Reads the bulk strings that are still missing; False if incomplete or broken."""
        buffer = self.buffer
        while self.missing:
            at = self._at
            if at >= len(buffer):
                return False
            length = self._number(_DOLLAR)
            if length is None:
                return False
            if not 0 <= length <= MAX_BULK:
                self.broken, self.refused = True, length < 0
                return False
            end = self._at + length
            if end + 2 > len(buffer):
                self._at, self.awaited = at, length
                return False
            self.awaited = 0
            self.words.append(bytes(buffer[self._at : end]))
            self._at = end + 2
            self.missing -= 1
        self.start = self._at
        return True

    def _read_again(self) -> None:
        """Reads all words of the request again, when its last word has come."""
        self._at, self.missing, self.words = self._first, self.count, []
        self._elements()

    def _number(self, kind: int) -> int | None:
        """The number in a header line; None if the line is incomplete, or invalid (`broken`)."""
        buffer, at = self.buffer, self._at
        end = buffer.find(b"\r", at, at + MAX_LINE)
        if end < 0:
            self.broken = len(buffer) - at >= MAX_LINE
            return None
        if end + 2 > len(buffer):
            return None
        self._at = end + 2
        digits = buffer[at + 1 : end]
        if buffer[at] != kind or not _INTEGER.fullmatch(digits):
            self.broken = self.refused = True
            return None
        return int(digits)

    def _inline(self) -> bool:
        buffer, at = self.buffer, self._at
        end = buffer.find(b"\n", at)
        if end < 0:
            self.broken = len(buffer) - at > MAX_LINE or b"\0" in buffer[at:]
            return False
        line = bytes(buffer[at:end])
        if b"\0" in line:
            self.broken = True
            return False
        words = split_inline(line)
        if words is None:
            self.broken = self.refused = True
            return False
        self.words, self.count, self.has_lines = words, len(words), True
        self.start = self._at = end + 1
        return True
