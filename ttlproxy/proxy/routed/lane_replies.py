"""The replies of one master to one client: which request each belongs to.

They are counted, so whatever does not fit the count ends the client.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from ttlproxy.proxy.redis_connection import HIGH
from ttlproxy.proxy.reply_queue import PUSHED, Kind, ReplyQueue
from ttlproxy.proxy.routed.bounces import is_bounce
from ttlproxy.proxy.routed.chunk import Part
from ttlproxy.proxy.routed.pending_request import PendingRequest
from ttlproxy.wire import bulks
from ttlproxy.wire.reply_ends import ERROR, may_be_special

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


class LaneReplies(ReplyQueue):
    """
    requests: those that are owed a reply, the oldest first; parts: or these, of chunks
    hears: whether the client gets a push, or a message in RESP2; None: it gets all
    """

    __slots__ = ("_begun", "_client", "_hold_up", "hears", "parts", "requests")

    def __init__(self, client: RoutedClient, hold_up: Callable[[], None]) -> None:
        """`hold_up()` is called when much of a reply waits for those of others."""
        super().__init__(self._relayed)
        self.requests: deque[PendingRequest] = deque()
        self.parts: deque[Part] = deque()
        self.hears: Callable[[bytes], bool] | None = None
        self._client = client
        self._hold_up = hold_up
        self._begun: list[bytes] = []  # of the reply, or push, that has not ended

    @property
    def has_begun(self) -> bool:
        """Whether a reply, or a push, has come in part."""
        return bool(self._kind)

    @property
    def kept(self) -> int:
        """Bytes of the reply that has not ended."""
        return sum(map(len, self._begun)) + len(self._kept)

    def end(self) -> None:
        for entry in self._stop():
            if entry.then is not None:
                entry.then()

    def fail(self, trouble: Exception) -> None:
        """Nothing more will come: all that wait fail."""
        self.end()
        for request in self.requests:
            request.fail(trouble)
        self.requests.clear()
        self.parts.clear()
        self._begun = []

    def take(self, data: bytes, ends: list[int] | None) -> None:
        """Takes what Redis sends. Raises Miscounted.

        `ends`: the positions behind each reply that ends there, if they are known.
        """
        is_special = may_be_special(data)
        if self._reads and ends is None:
            try:
                ends = self._ends.feed(data)
            except ValueError as unclear:
                raise Miscounted from unclear
        if self.parts and ends is not None and not (is_special or self._entries):
            self._take_parts(data, ends)
        else:
            self._take_each(data, ends, is_special=is_special)

    def _take_each(self, data: bytes, ends: list[int] | None, *, is_special: bool) -> None:
        self._client.order.open()
        if ends is None or not self._reads:
            self._relayed(data)
        else:
            self._take_ends(data, ends, all_alike=not is_special)
            self._client.flush()

    # While parts of chunks are all that is owed here. Pieces of replies that are not to pass,
    # errors and pushes are taken one by one.

    def _take_parts(self, data: bytes, ends: list[int]) -> None:
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
            self._kind, self._is = data[end] if goes_on else 0, Kind.REPLY
        self.came += count
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
        self._take_parts(data[:end], ends[:count])
        self._take_parts(data[end:], [each - end for each in ends[count:]])

    def _keep(self, data: bytes, ends: list[int]) -> None:
        """Replies wait in their parts, if they are whole."""
        if self._kind or not ends or ends[-1] < len(data):
            self._take_each(data, ends, is_special=False)
            return
        replies = [data[begin:end] for begin, end in pairwise((0, *ends))]
        parts = self.parts
        if len(replies) <= parts[0].missing:
            parts[0].add(replies, len(data))
        else:
            self._spread(replies)
        self.came += len(replies)
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

    # The queue calls these.

    def _relayed(self, data: bytes) -> None:
        self._client.order.push(data)
        self._client.flush()

    def _are_messages(self, data: bytes, ends: list[int]) -> bool:
        return False

    def _miscounted(self) -> None:
        raise Miscounted

    def _give_all(self, data: bytes, begin: int, ends: list[int]) -> None:
        requests = self.requests
        if len(ends) > len(requests):
            raise Miscounted
        replies = [data[at:end] for at, end in zip([begin, *ends], ends, strict=False)]
        self._client.order.answered_all([requests.popleft() for _ in replies], replies)

    def _give(self, piece: bytes, *, has_ended: bool) -> None:
        if self._is is Kind.DROPPED:
            return
        self._begun.append(piece)
        if has_ended:
            whole, self._begun = b"".join(self._begun), []
            if self._is not in PUSHED:
                self._answer(whole)
            elif whole and (self.hears is None or self.hears(whole)):
                self._client.order.push(whole)
        elif self._is not in PUSHED and self._kind != ERROR:
            self._give_part()

    def _give_part(self) -> None:
        """The client gets what has come of a reply that goes on, if it is the next one."""
        request = self.requests[0] if self.requests else None
        if request is not None and request.taker is None:
            order = self._client.order
            if order.is_next(request):
                order.part(b"".join(self._begun))
                self._begun = []
            elif sum(map(len, self._begun)) > HIGH:
                self._hold_up()

    def _confirmed(self, kind: int, piece: bytes) -> None:
        came = self.came
        super()._confirmed(kind, piece)
        if self.came > came:
            self._answer(piece)

    def _answer(self, reply: bytes) -> None:
        if not self.requests:
            raise Miscounted
        request = self.requests.popleft()
        if request.taker is not None:
            request.answer(reply)
        elif self._kind == ERROR and is_bounce(reply):
            request.error = reply
            self._client.redirects.add([request])
        else:
            self._client.order.answered(request, reply)
