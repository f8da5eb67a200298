"""Reads of keys that a proxy knows nothing of go to Redis at once, behind a request that says
whether any of these keys has deadlines. So they cost no round trip more.

The request is an EXISTS of the keys' indexes, over the client's own connection, and its reply is
kept back. If none exists, nothing was due when the reads were carried out: the replies behind it go
to the client. Else these are dropped, and the reads are given again; then their keys are looked up.
A read changes nothing, so it may be carried out twice.

The reply to the EXISTS is found by counting: it is sent only where nothing else is owed, so all
requests and replies of the connection are counted, from the first ones on. A client that hardly
names new keys has no use for that, and it ends with its first request whose replies are not counted
for certain. As long as it goes on, the reply to a SELECT tells the database that the client is in.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from ttlproxy.core.counters import Handled
from ttlproxy.core.knowledge import Knowledge
from ttlproxy.proxy.redis_connection import TOO_MANY
from ttlproxy.session import AskingSession
from ttlproxy.session.connection_commands import selected
from ttlproxy.wire import encode
from ttlproxy.wire.reply_ends import ReplyEnds

_NONE_EXISTS: Final = b":0"
_OK: Final = b"+OK\r\n"
# How replies to EXISTS begin: a number, or an error.
_CHECKS: Final = (b":", b"-")
# How Redis refuses a connection, before any request.
_NOT_ACCEPTED: Final = (TOO_MANY, b"-DENIED")
# Counting goes on for so many chunks of keys that are known; each chunk with new ones adds more.
_FIRST_CHUNKS: Final = 16
_MORE_CHUNKS: Final = 64
_MOST_CHUNKS: Final = 1024
# After keys that have deadlines, so many chunks with new keys have them looked up as usual.
_LOOKED_UP: Final = 16

Take = Callable[[bytes], None]


class CheckedReads:
    """Of one client, as long as the requests and replies of its connection are counted."""

    def __init__(
        self,
        session: AskingSession,
        knowledge: Knowledge,
        counts: Handled,
        to_client: Take,
        go_on: Callable[[bytes], None],
        stop: Callable[[], None],
    ) -> None:
        """`to_client`: where replies go. `go_on(data)`: the reads are over; `data` is to be given
        again. `stop()`: nothing is counted any more, all passes as it comes."""
        self._session = session
        self._knowledge = knowledge
        self._counts = counts
        self._to_client = to_client
        self._go_on = go_on
        self._stop = stop
        self._ends = ReplyEnds()
        self._owed = 0  # replies
        # How many of these come before that to the last SELECT, and its database.
        self._selecting: tuple[int, int] | None = None
        self._chunks = _FIRST_CHUNKS  # that may still come before counting ends
        self._looked_up = 0  # chunks with new keys that are still to be looked up as usual
        # Of the chunk that `passes` has just refused: its requests, and their unknown keys if these
        # only read.
        self._requests: Sequence[list[bytes]] = ()
        self._keys: list[bytes] | None = None
        self._sent = b""  # the reads that are under way
        self._reads = 0  # how many these are
        self._awaits_check = False  # the reply to their EXISTS
        self._first = b""  # what has come of it
        self._drops = False  # the replies that come are not right

    def passes(self, data: bytes) -> bool:
        """As `Session.passes`."""
        session = self._session
        requests = session.counted(data)
        if requests is None or not self._chunks:
            self._stop()
            return session.passes(data)
        self._keys = keys = session.only_read(data, requests)
        if keys or not session.passes_read(data, requests):
            self._requests = requests
            return False
        self._chunks -= 1
        self._owed += len(requests)
        return True

    def handled(self, data: bytes) -> None:
        """This has gone to Redis, or is about to: as it came, or in another form."""
        requests = self._session.counted(data) if data else []
        if requests is None:
            self._stop()
            return
        for before, args in enumerate(requests, self._owed):
            if (db := selected(args)) is not None:
                self._selecting = before, db
        self._chunks = max(self._chunks - 1, 0)
        self._owed += len(requests)

    def checked(self, data: bytes) -> bytes | None:
        """The bytes for Redis of the chunk that `passes` has just refused, if it may be checked.
        Then nothing may follow until it is over."""
        keys, self._keys = self._keys, None
        if not keys:
            return None
        self._chunks = min(self._chunks + _MORE_CHUNKS, _MOST_CHUNKS)
        if self._owed or self._is_looked_up(keys):
            return None
        self._sent, self._reads, self._awaits_check = data, len(self._requests), True
        return encode((b"EXISTS", *self._session.script_calls.keys.indexes(keys))) + data

    def _is_looked_up(self, keys: list[bytes]) -> bool:
        """Whether keys are to be looked up as usual, which remembers them: one is named again, or
        others had deadlines."""
        if self._looked_up:
            self._looked_up -= 1
            return True
        return not self._knowledge.are_new(keys)

    def takes(self, data: bytes) -> None:
        """Redis has sent this. Raises RuntimeError where nobody knows whose the next reply is: then
        the connection is of no use."""
        if self._awaits_check:
            first, line_break, rest = (self._first + data).partition(b"\r\n")
            if not line_break:
                self._first = first
                return
            if first.startswith(_NOT_ACCEPTED):
                self._stop()
                self._to_client(first + line_break + rest)
                return
            self._check(first)
            data = rest
        self._count(data)
        if self._drops and self._owed:
            if self._owed < 0:
                raise RuntimeError("Redis sends more replies than it was asked for")
            return
        if data and not self._drops:
            self._to_client(data)
        if self._owed < 0:  # more has come than was asked for, and nobody knows why
            self._stop()
        if self._sent:
            self._over()

    def _check(self, reply: bytes) -> None:
        """Redis has answered the EXISTS."""
        if not reply.startswith(_CHECKS):
            raise RuntimeError(f"Redis answers EXISTS by {reply[:64]!r}")
        self._first, self._awaits_check = b"", False
        self._drops = reply != _NONE_EXISTS
        self._owed = self._reads

    def _count(self, data: bytes) -> None:
        """What is owed becomes negative if these are not the replies to what was sent."""
        is_between = self._ends.is_between
        try:
            ends = self._ends.take(data)
        except ValueError:
            self._owed = -1
            return
        self._owed -= len(ends)
        if self._selecting is not None:
            self._select(*self._selecting, data, [0 if is_between else -1, *ends])

    def _select(self, before: int, db: int, data: bytes, ends: Sequence[int]) -> None:
        """Looks whether the last SELECT is answered; `ends`: of the replies in `data`, after that
        of the one before them, -1 if it was not whole then."""
        came = len(ends) - 1
        if came <= before:
            self._selecting = before - came, db
            return
        self._selecting, begin = None, ends[before]
        if begin >= 0 and data[begin : ends[before + 1]] == _OK:
            self._session.is_in(db)

    def _over(self) -> None:
        """The client goes on, or the reads are given again."""
        sent, self._sent = self._sent, b""
        if self._drops:
            self._drops, self._looked_up = False, _LOOKED_UP
            self._go_on(sent)
        else:
            self._counts.forwarded += self._reads
            self._go_on(b"")
