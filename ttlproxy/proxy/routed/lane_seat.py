"""A lane's place on a connection to its master that several clients share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from ttlproxy.proxy.sharing.any_seat import AnySeat
from ttlproxy.proxy.sharing.shared_connection import SharedConnection


class Passenger(Protocol):
    """The lane, as it is seen from here."""

    def taken(self, data: bytes, ends: list[int]) -> None:
        """Gets what Redis has sent for it; `ends`: where replies end in that."""

    def full(self, is_full: bool) -> None:
        """Redis does not keep up, or keeps up again."""

    def end(self) -> None:
        """Nothing more will come from Redis."""


class LaneSeat(AnySeat):
    """
    owed: replies that are to come
    is_taken: the lane has it, and is to hear of its end
    """

    def __init__(
        self, lane: Passenger, connection: SharedConnection, reads_slowly: Callable[[], None]
    ) -> None:
        """`reads_slowly()` is called when more comes, and the client has not taken the last."""
        super().__init__(connection)
        self.owed = 0
        self.is_taken = False
        self._lane = lane
        self._reads_slowly = reads_slowly
        self._is_full = self._has_told = False  # Redis does not keep up; the lane knows that
        connection.join(self)

    # From the shared connection.

    def takes(self, data: bytes, ends: list[int], begin: int) -> None:
        self.owed -= len(ends)
        if self._is_gone:
            return
        self._lane.taken(data, [end - begin for end in ends] if begin else ends)
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
        self._connection.send(self, count, data)
        if self._is_full:
            self._tell(True)

    async def answered(self) -> None:
        """A client that has to wait for a reply has a connection of its own."""
        raise NotImplementedError

    def close(self) -> None:
        """The lane has ended: what is owed is thrown away."""
        if self._is_closed:
            return
        self._is_closed = self._is_gone = True
        self._connection.leave(self)
        # What is owed may come much later: the client's memory is free now.
        del self._lane, self._reads_slowly

    abort = close

    def _tell(self, is_full: bool) -> None:
        if is_full is not self._has_told and not self._is_gone:
            self._has_told = is_full
            self._lane.full(is_full)
