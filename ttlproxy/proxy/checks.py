"""Asks Redis in the packet of a chunk what is due in its keys, where a proxy does not know it. So
it costs no round trip more.

In front of reads goes a request that tells when each of their keys needs attention, over the
client's own connection; its reply is not the client's. If nothing was due when the reads were
carried out, the replies behind it go to the client. Else these are dropped, and the reads are given
again, and wait for a reap: a read changes nothing, so it may be carried out twice.

Writes that are one script call end before the first key in which something is due
(scripts/lib/several.lua). The other writes are given again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import hiredis

from ttlproxy.core.counters import Handled
from ttlproxy.proxy.redis_connection import NOT_ACCEPTED
from ttlproxy.proxy.reply_queue import ReplyQueue
from ttlproxy.session import Session
from ttlproxy.session.replies import Change, Stopping
from ttlproxy.wire import encode


class Checks:
    """The checks of one client."""

    def __init__(
        self,
        session: Session,
        replies: ReplyQueue,
        counts: Handled,
        now_ms: Callable[[], int],
        go_on: Callable[[bytes], None],
    ) -> None:
        """`go_on(data)`: the chunk is over; `data` is to be given again. `now_ms`: the clock of
        Redis, or a little later."""
        self._session = session
        self._replies = replies
        self._counts = counts
        self._now_ms = now_ms
        self._go_on = go_on
        self._is_again = False  # the next chunk has been given before: it waits for a reap

    def reads(self, data: bytes) -> bytes | None:
        """The bytes for Redis of the chunk that the session has just refused, if it only reads.
        Then nothing may follow until it is over."""
        is_again, self._is_again = self._is_again, False
        session = self._session
        session.may_stop = not is_again
        found = None if is_again or self._replies.relays else session.reads(data)
        if found is None:
            return None
        keys, count = found
        check = _Check(self._replies, count, self._now_ms)

        def over() -> None:
            if check.passes:
                self._counts.forwarded += count
                self._go_on(b"")
            else:
                self._is_again = True
                self._go_on(data)

        session.put_back()
        self._replies.ask(check)
        self._replies.expect(count)
        self._replies.after(over)
        return encode((b"ZMSCORE", session.script_calls.keys.schedule, *keys)) + data

    def stops(self, stopping: Stopping) -> None:
        """The chunk is a call that may end before its end. Nothing may follow until it is over."""

        def over() -> None:
            left = self._session.stopped(stopping)
            self._is_again = bool(left)
            self._go_on(left)

        self._replies.after(over)


class _Check:
    """Takes the reply to ZMSCORE: for each key, the time at which it needs attention.

    passes: whether this number of replies behind it are the client's
    """

    def __init__(self, replies: ReplyQueue, count: int, now_ms: Callable[[], int]) -> None:
        self.passes = False
        self._replies = replies
        self._count = count
        self._now_ms = now_ms
        self._reader: Any = hiredis.Reader()

    def __call__(self, line: bytes | None) -> bool | Change:
        if line is not None and line.startswith(NOT_ACCEPTED):
            self.passes = True
            return True
        if line is not None and not line.startswith((b"*", b"-")):
            raise RuntimeError(f"Redis answers ZMSCORE by {line[:64]!r}")
        return self._take

    def _take(self, piece: bytes) -> bytes:
        self._reader.feed(piece)
        scores = self._reader.gets()
        if scores is not False:
            now_ms = self._now_ms()
            self.passes = isinstance(scores, list) and not any(
                score is not None and float(score) < now_ms for score in scores
            )
            if not self.passes:
                self._replies.drop(self._count)
        return b""
