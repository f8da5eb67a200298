"""A client's place on a shared connection to Redis, with the surface of a connection of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

from ttlproxy.proxy.departures import Departures
from ttlproxy.proxy.reply_queue import Over, ReplyQueue, drop
from ttlproxy.proxy.sharing.any_seat import AnySeat
from ttlproxy.proxy.sharing.shared_connection import SharedConnection
from ttlproxy.proxy.write_batch import Write
from ttlproxy.session.replies import Tell


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
        self.replies = ReplyQueue(client.write)
        self._count = 0  # how many requests the next bytes for Redis are
        self._client = client
        self._next_connection = next_connection
        self._departures = departures
        self._watches: Over | None = None  # the next requests are to be measured
        self._is_full = False  # Redis does not keep up
        connection.join(self)

    # From the shared connection.

    def takes(self, data: bytes, ends: list[int], begin: int) -> None:
        if self._is_gone:
            return
        is_whole = bool(ends) and ends[-1] - begin == len(data)
        self.replies.takes(data, len(ends) if is_whole else 0)
        if self._is_slow:
            self._client.reads_slowly()

    def full(self, is_full: bool) -> None:
        self._is_full = is_full
        self._client.full(is_full)

    def lost(self) -> None:
        """What is owed stays owed, so the client cannot leave and go on without it."""
        if self._is_gone:
            return
        self._client.send_by(drop)  # replies to more requests would be taken for those it is owed
        if not self._departures.put_off(self._end):
            self._end()

    def _end(self) -> None:
        if not self._is_gone:
            self._client.end()

    # From the client.

    def expect(self, count: int) -> None:
        """So many whole requests are written next."""
        self._count = count
        self.replies.expect(count)

    def write(self, data: bytes) -> None:
        """Sends so many whole requests as `expect` has said."""
        connection = self._connection
        if connection.is_lost:
            connection = self._change()
        if self._watches is not None:
            over, self._watches = self._watches, None
            self.replies.watch(data, over)
        connection.send(self, self._count, data)

    def _change(self) -> SharedConnection:
        """Nothing is owed on the lost one."""
        self._move_to(self._next_connection())
        return self._connection

    async def answered(self) -> None:
        """Ends when no reply is owed."""
        await self.replies.answered()

    def finish(self, request: bytes) -> None:
        """The client ends once it has all replies; no QUIT is sent."""
        self.replies.after(self._end_soon)

    def _end_soon(self) -> None:
        asyncio.get_running_loop().call_soon(self._end)

    @property
    def may_be_watched(self) -> bool:
        """Whether a round trip can be measured here."""
        is_free = not (self._is_gone or self._watches or self.is_measured)
        return is_free and self._client.is_plain

    @property
    def is_measured(self) -> bool:
        """Whether the requests that are measured have been written."""
        return self.replies.is_watched

    def watch(self, data: bytes, over: Over) -> None:
        """Measures the round trip of the next requests: `data` are replies."""
        self._watches = over

    def close(self) -> None:
        """The client has gone, or has a connection of its own: what is owed is thrown away."""
        if self._is_closed:
            return
        self._is_closed = self._is_gone = True
        self._watches = None
        self.replies.end()
        self._connection.leave(self)
        if self._is_full:
            self._client.full(False)
        # What is owed may come much later: the client's memory is free now.
        del self._client

    abort = close

    # Not here: no request of ours comes between those that may be shared.

    def ask(self, request: bytes, tell: Tell) -> None:
        raise NotImplementedError
