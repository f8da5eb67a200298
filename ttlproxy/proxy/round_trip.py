"""Measures one round trip on a client's connection to Redis, by counting requests and replies.

Replies are not read otherwise, so nobody knows how many were owed when the counting began. If more
come than were asked for since, they were: then nothing is owed now, or the next ones will tell. So
after a few chunks the count is right, unless the client never waits for all its replies.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from ttlproxy.commands.router import BLOCKING, STATEFUL
from ttlproxy.wire import whole
from ttlproxy.wire.reply_ends import PUSH, ReplyEnds

# So many chunks are only counted, each time that more comes than was asked for; and so many chunks
# at most are looked at.
_FIRST: Final = 4
_MOST: Final = 32
# A piece of replies with more lines is not counted, as that would take the event loop 0.3 ms.
_MOST_LINES: Final = 1000
# How errors begin.
_ERRORS: Final = b"-!"
# These have no reply or several, or one that Redis makes wait.
_UNEVEN: Final = frozenset(
    name.encode()
    for name in (
        *BLOCKING,
        *(STATEFUL.keys() - {"MULTI", "EXEC", "DISCARD", "SELECT", "WATCH"}),
        "UNSUBSCRIBE",
        "PUNSUBSCRIBE",
        "SUNSUBSCRIBE",
    )
)

Pass = Callable[[bytes], None]


class RoundTrip:
    """
    is_over: nothing is counted any more, and what comes just passes
    took_ms: how long it took, once that is known; request: its words, if it is a single one, and
    has_failed: whether its reply was an error
    spent_s: the CPU time that the counting has taken
    """

    def __init__(self, send: Pass, take: Pass, over: Callable[[RoundTrip], None]) -> None:
        """`send`, `take`: where requests and replies go; `over(self)`: it has ended."""
        self.is_over = False
        self.took_ms: float | None = None
        self.request: list[bytes] | None = None
        self.has_failed = False
        self.spent_s = 0.0
        self._send = send
        self._take = take
        self._over = over
        self._ends = ReplyEnds()
        self._kind = 0  # the first byte of the reply that has begun
        self._last = 0  # that of the last one that has ended
        self._owed = 0  # replies that are to come, as far as is known
        self._chunks = 0  # in all
        self._counted = 0  # since more has come than was asked for
        self._has_waited = False  # for all its replies, since then
        self._began_s = 0.0
        self._left = 0  # replies that are to come until it has ended; 0 before it has begun
        self._has_followers = False  # more was sent since it has begun

    @property
    def is_begun(self) -> bool:
        """Whether the requests that are measured have gone to Redis."""
        return self._left > 0

    def sends(self, data: bytes) -> None:
        """Requests go to Redis."""
        if self._left:
            self._has_followers = True
        elif not self.is_over:
            before_s = time.thread_time()
            self._count(data)
            self.spent_s += time.thread_time() - before_s
        self._send(data)

    def takes(self, data: bytes) -> None:
        """Replies have come."""
        if self.is_over:
            self._take(data)
            return
        came_s = time.monotonic()
        self._take(data)
        before_s = time.thread_time()
        self._reply(data, came_s)
        self.spent_s += time.thread_time() - before_s

    def end(self) -> None:
        """It is not to be measured, or has been."""
        if not self.is_over:
            self.is_over = True
            self._over(self)

    def _count(self, data: bytes) -> None:
        requests = whole(data)
        self._chunks += 1
        if requests is None or self._chunks > _MOST or any(map(_is_uneven, requests)):
            self.end()
            return
        self._owed += len(requests)
        self._counted += 1
        if self._counted > _FIRST and self._has_waited:
            self._left = self._owed
            self.request = requests[0] if len(requests) == 1 else None
            self._began_s = time.monotonic()

    def _reply(self, data: bytes, now_s: float) -> None:
        try:
            count = self._replies(data)
        except ValueError:  # it began within a reply
            self.end()
            return
        if self._left:
            self._count_down(count, now_s)
            return
        self._owed -= count
        if self._owed < 0:
            self._owed = self._counted = 0
            self._has_waited = False
        elif not self._owed and self._ends.is_between:
            self._has_waited = True

    def _count_down(self, count: int, now_s: float) -> None:
        more = count - self._left
        self._left = max(-more, 0)
        if self._left:
            return
        # More than was asked for: then it was not the last reply to this.
        if self._has_followers or (not more and self._ends.is_between):
            self.took_ms = (now_s - self._began_s) * 1000
            self.has_failed = not more and self._last in _ERRORS
        self.end()

    def _replies(self, data: bytes) -> int:
        """How many replies end in these bytes, without pushes. Raises ValueError."""
        if data.count(b"\r\n") > _MOST_LINES:
            raise ValueError("too many lines")
        kind = data[0] if self._ends.is_between else self._kind
        count = 0
        for end in self._ends.take(data):
            if kind != PUSH:
                count += 1
                self._last = kind
            kind = data[end] if end < len(data) else 0
        self._kind = kind
        return count


def _is_uneven(words: list[bytes]) -> bool:
    return words[0].upper() in _UNEVEN
