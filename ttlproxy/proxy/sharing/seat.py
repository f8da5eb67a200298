"""A client's place on a shared connection to Redis, with the surface of a connection of its own."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from functools import partial
from typing import Final, NamedTuple, Protocol

from ttlproxy.proxy.departures import Departures
from ttlproxy.proxy.reply_queue import Over
from ttlproxy.proxy.sharing.any_seat import AnySeat
from ttlproxy.proxy.sharing.shared_connection import SharedConnection
from ttlproxy.proxy.write_batch import Write
from ttlproxy.session.told import Tell, Told

# How errors begin.
_ERRORS: Final = b"-!"


def _drop(data: bytes) -> None:
    """Takes requests that nobody is to get."""


class Passenger(Protocol):
    """The client, as it is seen from here."""

    @property
    def write(self) -> Write:
        """Sends bytes to it."""

    @property
    def unread(self) -> int:
        """Bytes that it has not taken."""

    @property
    def is_plain(self) -> bool:
        """Whether all that it may be owed now is one reply to each of its requests."""

    def send_by(self, write: Write) -> None:
        """From now on this sends its requests to Redis."""

    def full(self, is_full: bool) -> None:
        """No more of its requests are to be read, or they are again."""

    def end(self) -> None:
        """Nothing more will come from Redis."""

    def reads_slowly(self) -> None:
        """It gets more replies, and has not taken all of the last ones."""


class _Trip(NamedTuple):
    """A round trip that is measured. until: it ends with the reply of this number, from 1 on"""

    until: int
    began_s: float
    data: bytes
    over: Over


class Seat(AnySeat):
    """Of a client of one Redis."""

    def __init__(
        self,
        client: Passenger,
        connection: SharedConnection,
        next_connection: Callable[[], SharedConnection],
        departures: Departures,
    ) -> None:
        """`next_connection()` gives another when this one is lost; `departures`: spreads the ends
        of many clients that are then owed replies."""
        super().__init__(connection)
        self._count = 0  # how many requests the next bytes for Redis are
        self._sent = 0  # requests in all
        self._sent_before: int | None = None  # at the last look, if nothing was owed
        self._received = 0  # bytes that have come for the client
        self._client = client
        self._next_connection = next_connection
        self._departures = departures
        self._watches: Over | None = None  # the next requests are to be measured
        self._trip: _Trip | None = None
        self._is_full = False  # Redis does not keep up
        self._when_settled: Callable[[], None] | None = None
        connection.join(self)

    # From the shared connection.

    def takes(self, data: bytes, ends: list[int], begin: int) -> None:
        self.owed -= len(ends)
        self._received += len(data)
        if self._is_gone:
            return
        self._client.write(data)
        if self._trip is not None and ends:
            last = ends[-2] - begin if len(ends) > 1 else 0
            self._end_trip(self._trip, is_error=data[last] in _ERRORS)
        if self._is_slow:
            self._client.reads_slowly()
        if not self.owed and self._when_settled is not None:
            self._settle()

    def full(self, is_full: bool) -> None:
        self._is_full = is_full
        self._client.full(is_full)

    def lost(self) -> None:
        """What is owed stays owed, so the client cannot leave and go on without it."""
        if self._is_gone:
            return
        self._client.send_by(_drop)  # replies to more requests would be taken for those it is owed
        if not self._departures.put_off(self._end):
            self._end()

    def _end(self) -> None:
        if not self._is_gone:
            self._client.end()

    # From the client.

    def expect(self, count: int) -> None:
        """So many whole requests are written next."""
        self._count = count

    def write(self, data: bytes) -> None:
        """Sends so many whole requests as `expect` has said."""
        connection = self._connection
        if connection.is_lost:
            connection = self._change()
        count = self._count
        if self._watches is not None:
            self._trip = _Trip(self._sent + count, time.monotonic(), data, self._watches)
            self._watches = None
        self.owed += count
        self._sent += count
        connection.send(self, count, data)

    def _change(self) -> SharedConnection:
        """Nothing is owed on the lost one."""
        self._move_to(self._next_connection())
        return self._connection

    def has_settled(self) -> bool:
        """Whether nothing is owed, and nothing was sent since this was last asked."""
        before, self._sent_before = self._sent_before, None if self.owed else self._sent
        return before is not None and before == self._sent_before

    @property
    def progress(self) -> object:
        """Is another one when anything has come."""
        return self._received

    @property
    def has_sent(self) -> bool:
        """Whether it has sent anything."""
        return self._sent > 0

    async def settled(self) -> None:
        """Ends when no reply is owed."""
        if self.owed:
            settled = asyncio.get_running_loop().create_future()
            self._when_settled = partial(settled.set_result, None)
            await settled

    def _settle(self) -> None:
        then, self._when_settled = self._when_settled, None
        if then is not None and not self._is_gone:
            then()

    def finish(self, request: bytes) -> None:
        """The client ends once it has all replies; no QUIT is sent."""
        self._when_settled = self._client.end
        if not self.owed:
            asyncio.get_running_loop().call_soon(self._settle)

    @property
    def may_be_watched(self) -> bool:
        """Whether a round trip can be measured here."""
        return not (self._is_gone or self._watches or self._trip) and self._client.is_plain

    @property
    def is_measured(self) -> bool:
        """Whether the requests that are measured have been written."""
        return self._trip is not None

    def watch(self, data: bytes, over: Over) -> None:
        """Measures the round trip of the next requests: `data` are replies."""
        self._watches = over

    def _end_trip(self, trip: _Trip, *, is_error: bool) -> None:
        """Ends a round trip if its last reply has come."""
        if self._sent - self.owed >= trip.until:
            self._trip = None
            trip.over((time.monotonic() - trip.began_s) * 1000, trip.data, is_error)

    def close(self) -> None:
        """The client has gone, or has a connection of its own: what is owed is thrown away."""
        if self._is_closed:
            return
        self._is_closed = self._is_gone = True
        self._watches = self._trip = self._when_settled = None
        self._connection.leave(self)
        if self._is_full:
            self._client.full(False)
        # What is owed may come much later: the client's memory is free now.
        del self._client

    abort = close

    # Not here: its requests are those that may be shared, of which nobody is told.

    def tell(self, told: Told) -> None:
        raise NotImplementedError

    def uncount(self) -> None:
        raise NotImplementedError

    def ask(self, request: bytes, tell: Tell) -> None:
        raise NotImplementedError
