"""The replies of one master to one client: which request each belongs to.

They are counted, so whatever does not fit the count ends the client.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from ttlproxy.proxy.redis_connection import HIGH
from ttlproxy.proxy.routed.bounces import is_bounce
from ttlproxy.proxy.routed.chunk import Part
from ttlproxy.proxy.routed.pending_request import PendingRequest
from ttlproxy.session.replies import Tell
from ttlproxy.wire import bulks
from ttlproxy.wire.reply_ends import ERROR, PUSH, ReplyEnds, may_be_special

if TYPE_CHECKING:
    from ttlproxy.proxy.routed.routed_client import RoutedClient

# Messages to subscribers begin with one of these, behind the header of their array.
MESSAGES: Final = (b"$7\r\nmessage\r\n", b"$8\r\npmessage\r\n", b"$8\r\nsmessage\r\n")
CONFIRMATIONS: Final = tuple(
    bulks(word)
    for kind in (b"", b"p", b"s")
    for word in (kind + b"subscribe", kind + b"unsubscribe")
)


class Miscounted(Exception):  # noqa: N818 - the name says it
    """Redis has sent no reply, or a reply to nothing."""


class LaneReplies:
    """
    in_flight: the requests that are owed a reply, the oldest first; parts: or these, of chunks
    relays: what comes is not read
    hears: whether the client gets a push, or a message in RESP2; None: it gets all
    shown: what the client gets in place of a push; empty if that is nothing
    attempt: is told the next reply to the last request in flight, and says whether it is one
    """

    def __init__(self, client: RoutedClient, hold_up: Callable[[], None]) -> None:
        """`hold_up()` is called when much of a reply waits for those of others."""
        self.in_flight: deque[PendingRequest] = deque()
        self.parts: deque[Part] = deque()
        self.relays = False
        self.hears: Callable[[bytes], bool] | None = None
        self.attempt: Tell | None = None
        self.shown: Callable[[bytes], bytes] = bytes
        self._client = client
        self._hold_up = hold_up
        self._ends = ReplyEnds()
        self._begun: list[bytes] = []  # of the reply that has not ended, what waits here
        self._kind = 0  # the first byte of that reply
        self._answers = 0
        self._fences: deque[tuple[int, asyncio.Event]] = deque()
        self._confirming = 0  # how many confirmations of a subscription are to come
        self._are_pushes = True  # confirmations and messages are

    @property
    def is_uneven(self) -> bool:
        """Whether something else may come than one reply to each request."""
        return self.relays or bool(self._confirming) or not self._are_pushes

    @property
    def has_begun(self) -> bool:
        """Whether a reply, or a push, has come in part."""
        return bool(self._kind)

    @property
    def kept(self) -> int:
        """Bytes of the reply that has not ended."""
        return sum(map(len, self._begun))

    async def passed(self) -> None:
        """Ends when all that is in flight now has been answered."""
        if self.in_flight:
            fence = asyncio.Event()
            self._fences.append((self._answers + len(self.in_flight), fence))
            await fence.wait()

    def confirms(self, count: int, *, by_push: bool) -> None:
        """The last request is answered with so many confirmations, which pass to the client.

        `by_push`: the client is in RESP3, where they and messages are pushes.
        """
        self._confirming, self._are_pushes = count, by_push

    def forget_subscriptions(self) -> None:
        """The client is subscribed to nothing any more."""
        self._confirming, self._are_pushes = 0, True

    def end(self, trouble: Exception) -> None:
        """Fails all that wait: nothing more will come."""
        for request in self.in_flight:
            request.fail(trouble)
        for _, fence in self._fences:
            fence.set()
        self.in_flight.clear()
        self.parts.clear()
        self._fences.clear()
        self._begun = []

    def take(self, data: bytes, ends: list[int] | None) -> None:
        """Takes what Redis sends. Raises Miscounted.

        `ends`: the positions behind each reply that ends there, if they are known.
        """
        self._client.order.open()
        if self.relays:
            self._client.pushed(data)
            self._client.flush()
            return
        if ends is None:
            ends = self._ends_in(data)
        begin = 0
        if self._kind and ends:
            begin = ends.pop(0)
            self._one(data[:begin])
        if may_be_special(data) or self._fences or self.attempt or not self._are_pushes:
            for end in ends:
                self._one(data[begin:end])
                begin = end
        elif ends:
            self._all([data[at:end] for at, end in zip([begin, *ends], ends, strict=False)])
            begin = ends[-1]
        if begin < len(data):
            self._begin(data[begin:])
        self._client.flush()

    def take_parts(self, data: bytes, ends: list[int] | None) -> None:
        """Does what `take` does, while parts of chunks are all that is owed here. Pieces of replies
        that are not to pass, errors and pushes are taken one by one."""
        if may_be_special(data):
            self.take(data, ends)
            return
        if ends is None:
            ends = self._ends_in(data)
        part = self.parts[0]
        if not part.passes:
            self._keep(data, ends)
            return
        count, end = len(ends), ends[-1] if ends else 0
        goes_on, left = end < len(data), part.missing - count
        if left < 0 or (not left and goes_on):
            self._take_beyond(part, data, ends)
            return
        if count or not self._kind:
            self._kind = data[end] if goes_on else 0
        part.missing = left
        if not left:
            self.parts.popleft()
        order = self._client.order
        order.passes(data, count, is_within=goes_on)
        if not left and (order.chunks or self._client.is_stopped):
            self._client.came()

    def _take_beyond(self, part: Part, data: bytes, ends: list[int]) -> None:
        """Takes bytes that hold more than the replies of one part."""
        if len(self.parts) == 1:
            raise Miscounted
        count = part.missing
        end = ends[count - 1]
        self.take_parts(data[:end], ends[:count])
        self.take_parts(data[end:], [each - end for each in ends[count:]])

    def _keep(self, data: bytes, ends: list[int]) -> None:
        """Replies wait in their parts, if they are whole."""
        if self._kind or not ends or ends[-1] < len(data):
            self.take(data, ends)
            return
        replies = [data[begin:end] for begin, end in pairwise((0, *ends))]
        parts = self.parts
        if len(replies) <= parts[0].missing:
            parts[0].add(replies, len(data))
        else:
            self._spread(replies)
        if not parts[0].missing:
            parts.popleft()
        self._client.came()

    def _spread(self, replies: list[bytes]) -> None:
        """Gives replies to the several parts that they belong to."""
        if len(replies) > sum([part.missing for part in self.parts]):
            raise Miscounted
        while (missing := self.parts[0].missing) < len(replies):
            some, replies = replies[:missing], replies[missing:]
            self.parts.popleft().add(some, sum(map(len, some)))
        self.parts[0].add(replies, sum(map(len, replies)))

    def _ends_in(self, data: bytes) -> list[int]:
        try:
            return self._ends.feed(data)
        except ValueError as unclear:
            raise Miscounted from unclear

    def _one(self, piece: bytes) -> None:
        """Takes a whole reply or push, or the rest of one."""
        kind = self._kind or piece[0]
        if self._begun:
            piece, self._begun = b"".join([*self._begun, piece]), []
        self._kind = 0
        if kind == PUSH or not self._are_pushes:
            kind = self._subscribed(kind, piece)
        if kind == PUSH:
            piece = self.shown(piece)
            if piece and (self.hears is None or self.hears(piece)):
                self._client.pushed(piece)
        elif not self.in_flight:
            raise Miscounted
        elif not self._is_attempted or self._has_succeeded(piece):
            self._answer(self.in_flight.popleft(), kind, piece)

    @property
    def _is_attempted(self) -> bool:
        """Whether the next reply is that to an attempt."""
        return self.attempt is not None and len(self.in_flight) == 1

    def _has_succeeded(self, reply: bytes) -> bool:
        attempt, self.attempt = self.attempt, None
        return attempt is None or bool(attempt(reply.partition(b"\n")[0] + b"\n"))

    def _all(self, replies: list[bytes]) -> None:
        """Takes whole replies without errors."""
        in_flight = self.in_flight
        if len(replies) > len(in_flight):
            raise Miscounted
        self._answers += len(replies)
        self._client.answered_all([in_flight.popleft() for _ in replies], replies)

    def _answer(self, request: PendingRequest, kind: int, reply: bytes) -> None:
        self._answers += 1
        while self._fences and self._fences[0][0] <= self._answers:
            self._fences.popleft()[1].set()
        if request.taker is not None:
            request.answer(reply)
        elif kind == ERROR and is_bounce(reply):
            request.error = reply
            self._client.bounced([request])
        else:
            self._client.answered(request, reply)

    def _subscribed(self, kind: int, piece: bytes) -> int:
        """The kind of what has come while the client may be subscribed; PUSH for a message."""
        what = piece[4:]
        if kind != ERROR and self._confirming and what.startswith(CONFIRMATIONS):
            self._confirming -= 1
            if not self._confirming:
                self._answer(self.in_flight.popleft(), kind, piece)
            return PUSH
        is_message = not self._are_pushes and what.startswith(MESSAGES)
        return PUSH if is_message else kind

    def _begin(self, piece: bytes) -> None:
        """A part of a reply that goes on."""
        self._kind = self._kind or piece[0]
        self._begun.append(piece)
        if self._kind in (ERROR, PUSH) or self._is_attempted or not self.in_flight:
            return
        request = self.in_flight[0]
        if request.taker is None:
            if self._client.part(request, b"".join(self._begun)):
                self._begun = []
            elif sum(map(len, self._begun)) > HIGH:
                self._hold_up()
