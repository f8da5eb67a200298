"""Reads of keys that a proxy knows nothing of go to Redis at once, behind a request that says
whether any of these keys has deadlines. So they cost no round trip more.

The request is an EXISTS of the keys' indexes, over the client's own connection, and its reply is
not the client's. If none exists, nothing was due when the reads were carried out: the replies
behind it go to the client. Else these are dropped, and the reads are given again; then their keys
are looked up. A read changes nothing, so it may be carried out twice.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from ttlproxy.core.counters import Handled
from ttlproxy.core.knowledge import Knowledge
from ttlproxy.proxy.redis_connection import NOT_ACCEPTED
from ttlproxy.proxy.reply_queue import ReplyQueue
from ttlproxy.session import AskingSession
from ttlproxy.wire import encode

_NONE_EXISTS: Final = b":0\r\n"
# How replies to EXISTS begin: a number, or an error. Others end the connection: nobody knows then
# whose the next reply is.
_CHECKS: Final = (b":", b"-")
# After keys that have deadlines, so many chunks with new keys have them looked up as usual.
_LOOKED_UP: Final = 16


class CheckedReads:
    """Of one client."""

    def __init__(
        self,
        session: AskingSession,
        knowledge: Knowledge,
        replies: ReplyQueue,
        counts: Handled,
        go_on: Callable[[bytes], None],
    ) -> None:
        """`go_on(data)`: the reads are over; `data` is to be given again."""
        self._session = session
        self._knowledge = knowledge
        self._replies = replies
        self._counts = counts
        self._go_on = go_on
        self._looked_up = 0  # chunks with new keys that are still to be looked up as usual
        self._is_right = False  # what the reads under way reply

    def checked(self, data: bytes) -> bytes | None:
        """The bytes for Redis of the chunk that `passes` has just refused, if it may be checked.
        Then nothing may follow until it is over."""
        found = None if self._replies.relays else self._session.only_reads(data)
        if found is None:
            return None
        keys, count = found
        if self._is_looked_up(keys):
            return None

        def tell(line: bytes | None) -> bool:
            if line is not None and not line.startswith(_CHECKS):
                raise RuntimeError(f"Redis answers EXISTS by {line[:64]!r}")
            refused = line is not None and line.startswith(NOT_ACCEPTED)
            self._is_right = refused or line == _NONE_EXISTS
            if not self._is_right:
                self._replies.drop(count)
            return refused

        def over() -> None:
            if self._is_right:
                self._counts.forwarded += count
                self._go_on(b"")
            else:
                self._looked_up = _LOOKED_UP
                self._go_on(data)

        self._session.put_back()
        self._replies.ask(tell)
        self._replies.expect(count)
        self._replies.after(over)
        return encode((b"EXISTS", *self._session.script_calls.keys.indexes(keys))) + data

    def _is_looked_up(self, keys: list[bytes]) -> bool:
        """Whether keys are to be looked up as usual, which remembers them: one is named again, or
        others had deadlines."""
        if self._looked_up:
            self._looked_up -= 1
            return True
        return not self._knowledge.are_new(keys)
