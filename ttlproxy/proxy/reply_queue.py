"""Counts the replies that Redis owes one client. So requests of ours may come between the client's,
and the replies that change a state are found.

Redis answers in order, each request once. It confirms a subscription for each of its channels, and
sends messages between replies; RESP3 marks both as pushes, RESP2 does not. Replies that cannot be
counted (CLIENT REPLY OFF, MONITOR, replication) and those to frames that Redis refuses to read are
relayed unread.
"""

from __future__ import annotations

import asyncio
import re
from collections import deque
from collections.abc import Callable, Iterable
from enum import Enum
from typing import Final, NamedTuple

from ttlproxy.errors import ON_ITS_WAY
from ttlproxy.proxy.round_trips import Over
from ttlproxy.session.replies import ERRORS, INVALIDATION, Change, Tell, Told, may_be_invalidation
from ttlproxy.wire.core import whole_replies
from ttlproxy.wire.reply_ends import ERROR, PUSH, ReplyEnds

_FAR: Final = 1 << 62
# Messages to subscribers begin with one of these; a confirmation ends with how many are left.
_PUBLISHED: Final = re.compile(rb"\*[34]\r\n\$\d+\r\n[ps]?message\r\n")
_CONFIRMATION: Final = re.compile(rb"[*>]3\r\n\$\d+\r\n([ps]?)(?:un)?subscribe\r\n")
_LEFT: Final = re.compile(rb":(\d+)\r\n\Z")
# This many bytes tell these from other replies, and so do their first ones.
_ENOUGH: Final = 40
_SUBSCRIBED: Final = b"*>"
_RESET: Final = b"+RESET"
# A node's answer to a request for a slot that has left it, or is leaving.
_LEADS_AWAY: Final = re.compile(rb"-(?:MOVED|ASK) ")

Take = Callable[[bytes], None]


class _Entry(NamedTuple):
    """number: that of the reply, counted from 0; `tell`, `confirmations`: as in Told; then: called
    before that reply begins"""

    number: int
    tell: Tell | None = None
    confirmations: int = 0
    then: Callable[[], None] | None = None


_NOTHING: Final = _Entry(-1)


class Kind(Enum):
    """The kind of what has begun to come: a reply, also one that the client does not get, that it
    gets changed, or that leads it to another server, a confirmation, an invalidation, a message or
    another push; or it is not known yet."""

    REPLY = 0
    DROPPED = 1
    CONFIRMS = 2
    MESSAGE = 3
    INVALIDATION = 4
    CHANGED = 5
    REDIRECTION = 6
    UNKNOWN = 7


_REPLY, _DROPPED, _CONFIRMS, _MESSAGE, _INVALIDATION, _CHANGED, _REDIRECTION, _UNKNOWN = Kind
PUSHED: Final = (_CONFIRMS, _MESSAGE, _INVALIDATION)


def drop(data: bytes, count: int = 0) -> None:
    """Takes bytes that nobody wants."""


class ReplyQueue:
    """
    sent: how many replies were asked for; came: how many have come
    pieces: how many pieces have come that were not just counted
    relays: nothing that is sent from now on is counted
    stays_here: errors that lead to another server are replaced, as one may in front of a Cluster
    shown: what the client gets in place of an invalidation; empty if that is nothing
    """

    __slots__ = (
        "_change",
        "_drops_until",
        "_ends",
        "_entries",
        "_is",
        "_is_plain",
        "_kept",
        "_kind",
        "_next",
        "_out",
        "_reads",
        "_subscriptions",
        "_to_client",
        "came",
        "pieces",
        "relays",
        "sent",
        "shown",
        "stays_here",
    )

    def __init__(self, to_client: Take) -> None:
        self.stays_here = False
        self.shown: Callable[[bytes], bytes] = bytes
        self.sent = self.came = self.pieces = 0
        self.relays = False
        self._reads = True  # until what was counted has come
        self._to_client = to_client
        self._ends = ReplyEnds()
        self._entries: deque[_Entry] = deque()
        self._next = _FAR  # the number of the first entry
        self._is_plain = True  # a reply begins, and nobody looks at it
        self._drops_until = 0  # replies before this number are not the client's
        # The reply, or push, that has begun, if they are taken one by one: its first byte, its
        # kind, and what is kept until that is known.
        self._kind = 0
        self._is = _REPLY
        self._change: Change = bytes
        self._kept = b""
        self._out: list[bytes] = []
        # Channels and patterns, and shard channels, that are subscribed to in RESP2.
        self._subscriptions = [0, 0]

    # The client calls these.

    @property
    def owed(self) -> int:
        """The number of replies that are to come."""
        return self.sent - self.came

    def in_flight(self) -> tuple[int, int]:
        """(replies that were asked for, those that are to come); none are to come if they are no
        longer counted."""
        return self.sent, self.sent - self.came if self._reads else 0

    @property
    def progress(self) -> object:
        """Returns an object that differs from the last one if anything has come since."""
        return self.came, self.pieces

    def expect(self, count: int) -> None:
        """Notes that this many requests are about to go, with a reply each."""
        self.sent += count

    def tell(self, told: Told) -> None:
        """Tells about the requests that go next; their replies are expected after this."""
        self._add(_Entry(self.sent + told.before, told.tell, told.confirmations))

    def ask(self, tell: Tell) -> None:
        """A request of ours is about to go; `tell` is told its reply."""
        self._add(_Entry(self.sent, tell))
        self.sent += 1

    def after(self, then: Callable[[], None]) -> None:
        """`then()` is called once all that was sent before has been answered; perhaps at once."""
        if self.relays or not self.owed:
            then()
        else:
            self._add(_Entry(self.sent, then=then))

    async def answered(self) -> None:
        """Ends when all that was sent before has been answered."""
        if self.owed and not self.relays:
            has_answered = asyncio.Event()
            self.after(has_answered.set)
            await has_answered.wait()

    def watch(self, over: Over) -> None:
        """Calls `over` when all that was sent has been answered, if that will be known."""
        last, is_error = self.sent - 1, False

        def tell(line: bytes | None) -> bool:
            nonlocal is_error
            is_error = line is not None and line[0] in ERRORS
            return True

        def ended() -> None:
            if self._reads:
                over(is_error)

        if last >= self.came and (not self._entries or self._entries[-1].number < last):
            self._add(_Entry(last, tell))
        self.after(ended)

    def forget_subscriptions(self) -> None:
        """The client is subscribed to nothing any more."""
        self._subscriptions = [0, 0]

    def drop(self, count: int) -> None:
        """Drops this many replies behind the one that `tell` is told; `tell` calls it."""
        self._drops_until = self.came + 1 + count

    def uncount(self) -> None:
        """Notes that what is sent from now on may have no reply, or several."""
        if self._entries and not self.relays:
            self.after(self.relay)
            self.relays = True
        elif not self.relays:
            self.relay()

    def relay(self) -> None:
        """Notes that it is no longer known which request a reply belongs to."""
        if not self._reads:
            return
        for entry in self._stop():
            if entry.tell is not None:
                entry.tell(None)
            if entry.then is not None:
                entry.then()
        self._out.append(self._kept)
        self._kept = b""
        self._flush()

    def end(self) -> None:
        """Tells nobody anything more: nothing more comes."""
        self._stop()
        self._to_client = drop

    # Redis has sent something.

    def takes(self, data: bytes, count: int = 0) -> None:
        """Redis has sent this. `count`: how many whole replies it is, if somebody has counted."""
        leads_away = self.stays_here and _LEADS_AWAY.search(data) is not None
        if self._is_plain and not leads_away and (count := count or whole_replies(data)):
            self.came += count
            if self.came > self.sent:
                self.relay()
            self._to_client(data)
            return
        self.pieces += 1
        if not self._reads:
            self._to_client(data)
            return
        try:
            ends = self._ends.feed(data)
        except ValueError:
            self.relay()
            self._to_client(data)
            return
        self._take_ends(data, ends, all_alike=not leads_away)
        is_special = self._entries or self._kind or self._ends.begun or any(self._subscriptions)
        self._is_plain = self._reads and not is_special

    # Inside.

    def _add(self, entry: _Entry) -> None:
        if not self.relays:
            self._entries.append(entry)
            self._is_plain = False
            self._next = self._entries[0].number
        elif entry.tell is not None:
            entry.tell(None)

    def _stop(self) -> Iterable[_Entry]:
        """Counts no more; returns the entries that were left."""
        self.relays, self._reads, self._is_plain = True, False, False
        entries, self._entries, self._next = self._entries, deque(), _FAR
        return entries

    def _take_ends(self, data: bytes, ends: list[int], *, all_alike: bool) -> None:
        """Takes replies one by one; if they are all alike, those that nobody looks at together."""
        if self._are_messages(data, ends):
            self._to_client(data)
            return
        begin = at = 0
        while at < len(ends) and self._reads:
            unseen = min(self._next - self.came, len(ends) - at)
            if unseen > 0 and all_alike and self._are_plain:
                at += unseen
                self._give_all(data, begin, ends[at - unseen : at])
                self._answered(unseen)
            else:
                at += 1
                self._piece(data[begin : ends[at - 1]], has_ended=True)
            begin = ends[at - 1]
        if not self._reads:
            self._out.append(data[begin:])
        elif begin < len(data):
            self._piece(data[begin:], has_ended=False)
        self._flush()

    def _are_messages(self, data: bytes, ends: list[int]) -> bool:
        """Whether these are whole messages, or other pushes, and no invalidation."""
        if self._kind or not ends or ends[-1] < len(data) or INVALIDATION in data:
            return False
        is_listening = any(self._subscriptions) and not self.owed
        return is_listening or (self._ends.pushes == len(ends) and not self._entries)

    @property
    def _are_plain(self) -> bool:
        """Whether a reply begins, and what comes until the next entry is the client's replies."""
        is_special = self._kind or self._ends.pushes or any(self._subscriptions)
        return not is_special and self.came >= self._drops_until

    def _piece(self, piece: bytes, *, has_ended: bool) -> None:
        """A reply, or push, or a part of one."""
        if not self._kind:
            self._kind, self._is = piece[0], _UNKNOWN
        if self._is is _UNKNOWN:
            piece, self._kept = self._kept + piece, b""
            self._is = self._what(piece, has_ended)
        if self._is is _UNKNOWN:
            self._kept = piece
        elif self._is is _INVALIDATION:
            self._give(self.shown(piece), has_ended=has_ended)
        elif self._is is _CHANGED:
            self._give(self._change(piece), has_ended=has_ended)
        elif self._is is _REDIRECTION:
            self._give(ON_ITS_WAY, has_ended=has_ended)
        else:
            self._give(piece, has_ended=has_ended)
        if not has_ended:
            return
        kind, self._kind = self._kind, 0
        if self._is is _CONFIRMS:
            self._confirmed(kind, piece)
        elif self._is not in PUSHED:
            self._answered(1)

    def _what(self, piece: bytes, has_ended: bool) -> Kind:
        """The kind of what begins with this."""
        entry = self._entries[0] if self._next == self.came else _NOTHING
        listens = self._kind != PUSH and any(self._subscriptions)
        if (listens or self._kind == PUSH) and may_be_invalidation(piece):
            return _INVALIDATION if has_ended else _UNKNOWN
        if self._kind in _SUBSCRIBED and (entry.confirmations or listens):
            if not (has_ended or len(piece) >= _ENOUGH):
                return _UNKNOWN
            if _CONFIRMATION.match(piece):
                return _CONFIRMS if has_ended else _UNKNOWN
            if listens and _PUBLISHED.match(piece):
                return _MESSAGE
        if self._kind == PUSH:
            return _MESSAGE
        if self.came < self._drops_until:
            return _DROPPED
        if entry.tell is None:
            if not (self.stays_here and self._kind == ERROR):
                return _REPLY
            if not has_ended:
                return _UNKNOWN
            return _REDIRECTION if _LEADS_AWAY.match(piece) else _REPLY
        line, line_break, _ = piece.partition(b"\r\n")
        if not line_break:
            return _UNKNOWN
        if line == _RESET:  # it confirms none of the ends of subscriptions
            self.forget_subscriptions()
        goes = entry.tell(line + line_break)
        if not isinstance(goes, bool):
            self._change = goes
            return _CHANGED
        return _REPLY if goes else _DROPPED

    def _confirmed(self, kind: int, piece: bytes) -> None:
        """A channel of the first request is confirmed, or one is unsubscribed from unasked."""
        if kind != PUSH:
            shard, left = _CONFIRMATION.match(piece), _LEFT.search(piece)
            assert shard is not None
            assert left is not None
            self._subscriptions[shard[1] == b"s"] = int(left[1])
        entry = self._entries[0] if self._next == self.came else _NOTHING
        if entry.confirmations:
            self._entries[0] = entry._replace(confirmations=entry.confirmations - 1)
        if entry.confirmations == 1:
            self._answered(1)

    def _answered(self, count: int) -> None:
        """Notes that this many replies have ended."""
        self.came += count
        if self.came > self.sent:
            self._miscounted()
        while self._next <= self.came:
            entry = self._entries[0]
            if entry.then is None and entry.number == self.came:
                return
            self._entries.popleft()
            self._next = self._entries[0].number if self._entries else _FAR
            if entry.then is not None:
                self._flush()
                entry.then()

    def _miscounted(self) -> None:
        """A reply to nothing has come."""
        self.relay()

    def _give_all(self, data: bytes, begin: int, ends: list[int]) -> None:
        """Whole replies are the client's: the bytes from `begin` on, to the last of `ends`."""
        self._out.append(data[begin : ends[-1]])

    def _give(self, piece: bytes, *, has_ended: bool) -> None:
        """A piece of something is the client's, unless it is dropped."""
        if self._is is not _DROPPED:
            self._out.append(piece)

    def _flush(self) -> None:
        """The client gets what has come for it."""
        if self._out:
            out, self._out = self._out, []
            self._to_client(b"".join(out))
