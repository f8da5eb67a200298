"""A lane's place on a connection to its master that several clients share."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from typing import Protocol

from ttlproxy.proxy.sharing.shared_connection import SharedConnection


class Passenger(Protocol):
    """The lane, as it is seen from here."""

    def taken(self, data: bytes) -> None:
        """Gets what Redis has sent for it."""

    def full(self, is_full: bool) -> None:
        """Redis does not keep up, or keeps up again."""

    def end(self) -> None:
        """Nothing more will come from Redis."""


class LaneSeat:
    """
    owed: replies that are to come; is_taken: the lane has it, and is to hear of its end
    """

    most_at_once = sys.maxsize  # no other client's requests may come between ours
    is_cut = False
    unsent = 0  # what Redis has not taken is kept for all together

    def __init__(
        self, lane: Passenger, connection: SharedConnection, reads_slowly: Callable[[], None]
    ) -> None:
        """`reads_slowly()` is called when more comes, and the client has not taken the last."""
        self.owed = 0
        self.is_taken = False
        self._lane = lane
        self._connection = connection
        self._reads_slowly = reads_slowly
        self._sent = 0  # requests in all
        self._sent_before: int | None = None  # at the last look, if nothing was owed
        self._received = 0
        self._is_gone = False
        self._is_slow = False  # the client does not keep up
        self._is_full = self._has_told = False  # Redis does not keep up; the lane knows that
        connection.join(self)

    # From the shared connection.

    def takes(self, data: bytes, replies: int) -> None:
        self.owed -= replies
        self._received += len(data)
        if self._is_gone:
            return
        self._lane.taken(data)
        if self._is_slow:
            self._reads_slowly()

    def full(self, is_full: bool) -> None:
        """A client that waits for nothing here goes on: it may have requests for others."""
        self._is_full = is_full
        self._tell(is_full and self.owed > 0)

    def lost(self) -> None:
        """`ends` has said so."""

    def ends(self) -> None:
        """The connection has ended."""
        if self.is_taken and not self._is_gone:
            self._lane.end()

    # From the lane.

    def send(self, data: bytes, count: int) -> None:
        """Sends so many whole requests."""
        self.owed += count
        self._sent += count
        self._connection.send(self, count, data)
        if self._is_full:
            self._tell(True)

    def has_settled(self) -> bool:
        """Whether nothing is owed, and nothing was sent since this was last asked."""
        before, self._sent_before = self._sent_before, None if self.owed else self._sent
        return before is not None and before == self._sent_before

    @property
    def received(self) -> int:
        """Bytes that have come for the client."""
        return self._received

    def pause(self, is_full: bool) -> None:
        """The client does not keep up, or keeps up again: the others go on."""
        self._is_slow = is_full

    def cut(self) -> None:
        """No more is sent."""
        self.is_cut = True

    def ignore(self) -> None:
        self._is_gone = True

    def close(self) -> None:
        """The lane has ended: what is owed is thrown away."""
        self._is_gone = True
        self._connection.leave(self)

    abort = close

    def _tell(self, is_full: bool) -> None:
        if is_full is not self._has_told and not self._is_gone:
            self._has_told = is_full
            self._lane.full(is_full)

    # Not here: a client that logs in or waits has a connection of its own.

    def write(self, data: bytes) -> None:
        raise NotImplementedError

    def finish(self, request: bytes) -> None:
        raise NotImplementedError

    async def is_answered(self, request: Callable[[bytes], bytes]) -> bool:
        raise NotImplementedError

    def count_lines(self) -> None:
        raise NotImplementedError

    async def has_replied(self, count: int) -> None:
        raise NotImplementedError

    def lets_in(self, number: int) -> asyncio.Future[bool]:
        raise NotImplementedError
