"""Requests: cuts a byte stream into commands, and keeps the bytes as they were sent.

hiredis reads whole requests (`whole`). `_Scanner` reads the rest exactly as Redis does
(src/networking.c, processInlineBuffer and processMultibulkBuffer): inline commands, empty lines,
requests cut anywhere, and frames that Redis refuses. After a refused frame the stream has ended:
Redis sends the error and reads no further. After a frame that only some servers refuse, because it
exceeds a limit of Redis, the stream is relayed unread.
"""

from __future__ import annotations

import re
from typing import TypeAlias

import hiredis

from ttlproxy.wire.inline import UNBALANCED, split
from ttlproxy.wire.streaming import Passage
from ttlproxy.wire.whole import PARSER

# Redis: PROTO_INLINE_MAX_SIZE, for a line whose end has not come.
MAX_LINE = 64 * 1024
# Redis 6.2 refuses more elements than this.
MAX_ELEMENTS = 1024 * 1024
# Redis: proto-max-bulk-len, its default.
MAX_BULK = 512 * 1024 * 1024
# A request with a longer bulk string may be forwarded before it is complete.
LARGE_BULK = 64 * 1024
# A chunk with more bytes per word than this has large words: they are compared without copies.
_LARGE = 64 * 1024
# How many words are kept of a request that is incomplete: the command's name and its first key.
_FIRST_WORDS = 2

# An integer as Redis's own parser takes it (src/util.c, string2ll).
_INTEGER = re.compile(rb"0|-?[1-9][0-9]{0,18}")
_ASTERISK, _DOLLAR = b"*$"


Located: TypeAlias = tuple[list[bytes], int, int]
"""A command's words, and where it begins and ends in `Requests.raw`."""


def encode(words: tuple[bytes | int, ...]) -> bytes:
    """A request as bytes: an array of bulk strings."""
    packed: bytes = hiredis.pack_command(words)  # type: ignore[arg-type]
    return packed


def _end_as_sent(raw: bytes, at: int, words: list[bytes]) -> int:
    """The end of the request at `at`, if it is encoded as by `encode`; else 0. Copies no word."""
    head = b"*%d\r\n" % len(words)
    for word in words:
        head += b"$%d\r\n" % len(word)
        if not raw.startswith(head, at) or not raw.startswith(word, at := at + len(head)):
            return 0
        at, head = at + len(word), b"\r\n"
    return at + 2 if raw.startswith(head, at) else 0


class Requests:
    """The requests of one client.

    Attributes after `feed`:
      raw: the bytes that may be forwarded, as they were sent: what `stream` lets pass, then the
        complete requests
      relay: no more requests are recognised; `raw` is all that came
      refused: also, `raw` ends with a frame that Redis refuses; bytes after it are dropped
    """

    __slots__ = (
        "_limit",
        "_passage",
        "_scanner",
        "_skips",
        "_streamed",
        "_unread",
        "raw",
        "refused",
        "relay",
    )

    def __init__(self, limit: int = 1 << 30) -> None:
        """`limit`: the most bytes of a request that is kept until it is complete."""
        self._limit = limit
        self._scanner = _Scanner()
        self._passage: Passage | None = None
        self._skips = False  # the passing request is dropped
        self._streamed = 0  # bytes of `raw` that belong to a request that began earlier
        self._unread = False  # `raw` came after parsing ended: it holds no known requests
        self.raw = b""
        self.relay = False
        self.refused = False

    def feed(self, data: bytes) -> list[list[bytes]]:
        """Takes a chunk; returns the commands that are now complete."""
        self._streamed = 0
        if self.relay:
            self.raw = b"" if self.refused else data
            self._unread = True
            return []
        if self._passage is not None:
            return self._let_pass(self._passage, data)
        if self._scanner.buffer:
            return self._resume(data)
        commands = PARSER.whole(data)
        if commands is None:
            return self._start(data)
        self.take(data)
        return commands

    def take(self, data: bytes) -> None:
        """Takes a chunk of whole requests, if no request is incomplete."""
        self.raw, self._streamed = data, 0

    @property
    def begun(self) -> list[bytes] | None:
        """The first words of an incomplete request that is too large to wait for; else None."""
        if self._scanner.awaited > LARGE_BULK or self.excessive:
            return self._scanner.words
        return None

    @property
    def excessive(self) -> bool:
        """Whether the incomplete request is, or announces to be, larger than the limit.

        An inline command has Redis's own limit instead.
        """
        scanner = self._scanner
        return scanner.missing > 0 and scanner.size > self._limit

    def exceeds(self, words: int, bulk: int) -> bool:
        """Whether the incomplete request announces more words or a longer bulk string than this."""
        scanner = self._scanner
        return scanner.missing > 0 and (scanner.count > words or scanner.awaited > bulk)

    def stream(self) -> bytes:
        """Lets the incomplete request pass as it comes; returns the bytes of it that are here."""
        scanner = self._scanner
        self._passage, self._skips = scanner.passage(), False
        return scanner.rest()

    def skip(self) -> None:
        """Drops the incomplete request, and the rest of it as it comes."""
        self.stream()
        self._skips = True

    @property
    def streams(self) -> bool:
        """Whether an incomplete request is passing."""
        return self._passage is not None and not self._skips

    def exact(self, commands: list[list[bytes]]) -> list[Located]:
        """The commands of `raw` as Redis reads them; `commands` is the result of `feed`.

        Empty lines and `*0` may be between them. These are no commands, but must be forwarded:
        each uses up a CLIENT REPLY SKIP.

        hiredis accepts some frames that Redis refuses (`*1\\r\\n:5\\r\\n`, `+OK`). Here they are
        not commands, and the stream is only relayed from there on.
        """
        if self._unread:
            return []
        found = self._as_sent(commands)
        return self._scanned() if found is None else found

    def _as_sent(self, commands: list[list[bytes]]) -> list[Located] | None:
        """The fast way: each command was sent as `encode` does it; None if one was not."""
        raw, at = self.raw, self._streamed
        found = []
        try:
            for words in commands:
                if len(raw) > _LARGE * len(words):
                    end = _end_as_sent(raw, at, words)
                else:
                    encoded = encode(tuple(words))
                    end = at + len(encoded) if raw.startswith(encoded, at) else 0
                if not end:
                    return None
                found.append((words, at, end))
                at = end
        except TypeError:  # hiredis accepts words that are no bulk strings
            return None
        return found if at == len(raw) else None

    def _scanned(self) -> list[Located]:
        scanner = _Scanner(self.raw, self._streamed)
        found = []
        while (command := scanner.next()) is not None:
            found.append((command, scanner.begin, scanner.start))
        if scanner.broken:
            self.relay, self.refused = True, scanner.refused
            self.raw = self.raw[: scanner.start] + scanner.ending()
        return found

    def withhold(self, end: int) -> bytes:
        """Cuts `raw` at `end`; returns all bytes after it, as if they had not been read."""
        rest = self.raw[end:] + self._scanner.rest()
        self._scanner, self.relay, self.refused, self._unread = _Scanner(), False, False, False
        self.raw = self.raw[:end]
        return rest

    def let_go(self) -> None:
        """`raw` has been forwarded."""
        self.raw = b""

    def drop(self) -> None:
        """Forgets the incomplete request."""
        self._scanner = _Scanner()

    @property
    def has_lines(self) -> bool:
        """Whether an inline command may have come, whose bytes may not show its words."""
        return self._scanner.has_lines

    @property
    def pending(self) -> bool:
        """Whether a request is incomplete."""
        return bool(self._scanner.buffer) or self._passage is not None

    @property
    def kept(self) -> int:
        """Bytes kept for the incomplete request."""
        scanner = self._scanner
        return len(scanner.buffer) + sum(map(len, scanner.words))

    def _let_pass(self, passage: Passage, data: bytes) -> list[list[bytes]]:
        taken = passage.take(data)
        if passage.broken:
            rest = b"" if passage.refused else data[taken:]
            # If nothing of the request was forwarded, Redis gets the bad frame in a request of one.
            begun = b"*1\r\n" + passage.header if self._skips else data[:taken]
            self._passage, self.relay, self.raw, self._unread = None, True, begun + rest, True
            self.refused = passage.refused
            return []
        if passage.done:
            self._passage = None
        streamed = b"" if self._skips else data[:taken]
        commands, raw = [], b""
        if rest := data[taken:]:
            commands, raw = self.feed(rest), self.raw
        self.raw, self._streamed = streamed + raw, len(streamed)
        return commands

    def _start(self, data: bytes) -> list[list[bytes]]:
        """A chunk that begins at a request boundary, and may end within a request."""
        end = data.rfind(b"\r\n*") + 2
        commands = PARSER.whole(data[:end]) if end > 1 else None
        if commands is None:
            return self._scan(data)
        commands += self._scan(data[end:])
        self.raw = data[:end] + self.raw
        return commands

    def _resume(self, data: bytes) -> list[list[bytes]]:
        """A chunk that continues an incomplete request: finishes that, then goes on as usual."""
        scanner = self._scanner
        scanner.push(data)
        command = scanner.next()
        if command is None:
            return self._take([])
        head, rest = scanner.taken(), scanner.rest()
        commands = [command]
        if rest:
            commands += self.feed(rest)
            self.raw = head + self.raw
        else:
            self.raw = head
        return commands

    def _scan(self, data: bytes) -> list[list[bytes]]:
        """Reads a chunk that hiredis cannot read with the scanner."""
        self._scanner.push(data)
        commands = []
        while (command := self._scanner.next()) is not None:
            commands.append(command)
        return self._take(commands)

    def _take(self, commands: list[list[bytes]]) -> list[list[bytes]]:
        scanner = self._scanner
        self.raw = scanner.taken()
        if scanner.broken:
            self.relay, self.refused = True, scanner.refused
            self.raw += scanner.ending()
        return commands


class _Scanner:
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
        passage.take(bytes(self.buffer[self._at :]))
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
        words = split(line)
        if words is None:
            self.broken = self.refused = True
            return False
        self.words, self.count, self.has_lines = words, len(words), True
        self.start = self._at = end + 1
        return True
