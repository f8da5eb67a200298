"""A client's place on a shared connection to Redis, with the surface of a connection of its own;
but a client that logs in or waits has such a one."""

from __future__ import annotations

import asyncio
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from ttlproxy.proxy.reply_queue import drop
from ttlproxy.proxy.round_trips import RoundTrips
from ttlproxy.proxy.sharing.pool import Pool
from ttlproxy.proxy.sharing.shared_connection import SharedConnection, Sharer
from ttlproxy.proxy.staggered_closes import StaggeredCloses
from ttlproxy.session.replies import Tell

if TYPE_CHECKING:
    from ttlproxy.proxy.routed.lane import Lane
    from ttlproxy.proxy.sharing.sharing_client import SharingClient

# A server that hangs lets nobody open a connection; those that are there may serve all the same.
_PATIENCE_S: Final = 0.1


class SharedUpstream(Sharer, ABC):
    """
    is_cut: no more is sent; replies: those that are to come
    """

    most_at_once = sys.maxsize  # no other client's requests may come between ours
    unsent = 0  # what Redis has not taken is kept for all together

    _client: SharingClient | Lane

    def __init__(self, client: SharingClient | Lane, pool: Pool, round_trips: RoundTrips) -> None:
        self.is_cut = False
        self.replies = client.queue()
        self._client = client
        self._round_trips = round_trips
        self._pool = pool
        self._connection = pool.least_used()
        self._is_gone = self._is_closed = False
        self._is_slow = False  # the client does not keep up
        self._is_full = False  # Redis does not keep up
        self._connection.join(self)

    async def opened(self) -> None:
        """Ends when the connection is there, or takes long and another one is. Else closes this,
        and raises OSError."""
        try:
            if not self._connection.opened.done():
                await asyncio.wait({self._connection.opened}, timeout=_PATIENCE_S)
                other = None if self._connection.opened.done() else self._pool.an_open_one()
                if other is not None:
                    self._move_to(other)
            await asyncio.shield(self._connection.opened)
            if self._connection.is_lost:
                raise ConnectionError("a shared connection to Redis has ended")
        except BaseException:
            self.close()
            raise

    def _move_to(self, connection: SharedConnection) -> None:
        """Moves to another connection; nothing is owed."""
        self._connection.leave(self)
        self._connection = connection
        connection.join(self)

    def send(self, data: bytes, count: int) -> None:
        """Sends `count` whole requests."""
        self.replies.sent += count
        if self._connection.is_lost:  # nothing is owed there
            self._move_to(self._pool.least_used())
        if self._round_trips.is_due and self._client.is_plain:
            self.replies.watch(self._round_trips.begin(data))
        self._connection.send(self, count, data)
        if self._is_full:
            self.full(True)

    def ask(self, request: bytes, tell: Tell) -> None:
        """No request of ours comes between those that may be shared."""
        raise NotImplementedError

    def close(self) -> None:
        """The client has gone, or has a connection of its own: what is owed is thrown away."""
        if not self._is_closed:
            self._is_closed = self._is_gone = True
            self._connection.leave(self)
            self._let_go()

    def abort(self) -> None:
        self.close()

    @abstractmethod
    def _let_go(self) -> None:
        """Drops the client: what is owed may come much later, and its memory is free now."""

    def pause(self, is_full: bool) -> None:
        """The client does not keep up, or keeps up again: the others go on. It is read from, as it
        may read no reply before its last request is taken."""
        self._is_slow = is_full

    def cut(self) -> None:
        self.is_cut = True

    def ignore(self) -> None:
        """Throws away what comes."""
        self._is_gone = True


class ClientUpstream(SharedUpstream):
    """The place of a client of one Redis."""

    _client: SharingClient

    def __init__(
        self,
        client: SharingClient,
        pool: Pool,
        staggered: StaggeredCloses,
        round_trips: RoundTrips,
    ) -> None:
        """`staggered`: spreads the ends of many clients that are owed replies at the same time."""
        super().__init__(client, pool, round_trips)
        self._staggered = staggered

    # The shared connection calls these.

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

    def lost(self, *, is_owed: bool) -> None:
        """Ends a client that is owed replies: they stay owed, so it cannot leave and go on."""
        if self._is_gone or not is_owed:
            return
        self._client.send_by(drop)  # replies to more requests would be taken for those it is owed
        if not self._staggered.put_off(self._end):
            self._end()

    def _end(self) -> None:
        if not self._is_gone:
            self._client.end()

    # The client calls these.

    def finish(self, request: bytes) -> None:
        """The client ends once it has all replies; no QUIT is sent."""
        self.replies.after(self._end_soon)

    def _end_soon(self) -> None:
        asyncio.get_running_loop().call_soon(self._end)

    def _let_go(self) -> None:
        self.replies.end()
        if self._is_full:
            self._client.full(False)
        del self._client


class LaneUpstream(SharedUpstream):
    """The place of a lane.

    is_taken: the lane has it, and is to hear of its end
    """

    _client: Lane

    def __init__(
        self, lane: Lane, pool: Pool, round_trips: RoundTrips, reads_slowly: Callable[[], None]
    ) -> None:
        """`reads_slowly()` is called when more comes, and the client has not taken the last."""
        self.is_taken = False
        self._reads_slowly = reads_slowly
        self._has_told = False  # that Redis does not keep up
        super().__init__(lane, pool, round_trips)

    # The shared connection calls these.

    def takes(self, data: bytes, ends: list[int], begin: int) -> None:
        if self._is_gone:
            return
        self._client.write(data, [end - begin for end in ends] if begin else ends)
        if self._is_slow:
            self._reads_slowly()

    def full(self, is_full: bool) -> None:
        """A client that waits for nothing here goes on: it may have requests for others."""
        self._is_full = is_full
        is_full = is_full and self.replies.owed > 0
        if is_full is not self._has_told and not self._is_gone:
            self._has_told = is_full
            self._client.full(is_full)

    def lost(self, *, is_owed: bool) -> None:
        if self.is_taken and not self._is_gone:
            self._client.end()

    def _let_go(self) -> None:
        del self._client, self._reads_slowly
