"""Requests: cuts a byte stream into commands, and keeps the bytes as they were sent.

`core` reads whole requests as clients send them, and `scanner` reads the rest. After a frame that
Redis refuses the stream has ended: Redis sends the error and reads no further. After a frame that
only some servers refuse, because it exceeds a limit of Redis, the stream is relayed unread.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Final, TypeAlias

import hiredis

from ttlproxy.wire.core import cut, request_ends
from ttlproxy.wire.scanner import Passage, Scanner

# A request with a longer bulk string may be forwarded before it is complete.
LARGE_BULK = 64 * 1024
# Of all whose requests have come whole so far: a scanner of their own takes 240 bytes.
_IDLE: Final = Scanner()

Located: TypeAlias = tuple[list[bytes], int, int]
"""A command's words, and where it begins and ends in `Requests.raw`."""


def encode(words: tuple[bytes | int, ...]) -> bytes:
    """A request as bytes: an array of bulk strings."""
    packed: bytes = hiredis.pack_command(words)  # type: ignore[arg-type]
    return packed


def whole(data: bytes) -> list[list[bytes]] | None:
    """The requests of `data`; None unless it is whole requests, as clients send them, and nothing
    else."""
    requests, end = cut(data)
    return requests if requests and end == len(data) else None


def pieces(data: bytes) -> list[bytes]:
    """The bytes of each request of `data`, which is such requests."""
    return [data[begin:end] for begin, end in pairwise((0, *request_ends(data, 0)))]


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
        self._scanner = _IDLE
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
        commands, end = cut(data)
        if end == len(data):
            self.take(data)
            return commands
        commands += self._scan(data[end:])
        self.raw = data[:end] + self.raw
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
        """
        if self._unread:
            return []
        ends = request_ends(self.raw, self._streamed)
        if len(ends) == len(commands) and [self._streamed, *ends][-1] == len(self.raw):
            return list(zip(commands, (self._streamed, *ends), ends, strict=False))
        return self._scanned()

    def _scanned(self) -> list[Located]:
        scanner = Scanner(self.raw, self._streamed)
        found = []
        while (command := scanner.next()) is not None:
            found.append((command, scanner.begin, scanner.start))
        return found

    def withhold(self, end: int) -> bytes:
        """Cuts `raw` at `end`; returns all bytes after it, as if they had not been read."""
        rest = self.raw[end:] + self._scanner.rest()
        self._scanner, self.relay, self.refused, self._unread = _IDLE, False, False, False
        self.raw = self.raw[:end]
        return rest

    def let_go(self) -> None:
        """`raw` has been forwarded."""
        self.raw = b""

    def drop(self) -> None:
        """Forgets the incomplete request."""
        self._scanner = _IDLE

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
        taken = passage.feed(data)
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
        """Reads a chunk that may be anything with the scanner."""
        if self._scanner is _IDLE:
            self._scanner = Scanner()
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
