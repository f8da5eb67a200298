"""One connection to Redis for several clients: counts replies, so it knows whose each of them is.

It knows only a client's `Sharer`.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from typing import Final, Protocol, cast

from ttlproxy.core.counters import Connections, Counters
from ttlproxy.net.sockets import keep_alive, undelivered
from ttlproxy.proxy.redis_connection import HIGH, LOW
from ttlproxy.wire import encode
from ttlproxy.wire.reply_ends import ERROR, ReplyEnds

log = logging.getLogger(__name__)

# A connection that must only be served begins with this.
PING: Final = encode((b"PING",))
# Errors in reply to it of a server that serves: the user has no right to PING, or a script runs for
# long, as clients are to hear.
_SERVED: Final = (b"-NOPERM", b"-BUSY")

# There is nothing to gather after _LEAN_TURNS turns of the event loop in a row with one chunk each
# at most: _AT_ONCE of the next chunks are sent at once, as in write_batch.py.
_LEAN_TURNS: Final = 16
_AT_ONCE: Final = 300
# A larger chunk ends the wait for the end of the turn, in which a loop may read many of them.
_LARGE: Final = 16 * 1024


class Sharer(Protocol):
    """A client that shares the connection."""

    def takes(self, data: bytes, ends: list[int], begin: int) -> None:
        """Gets bytes from Redis. `ends`: the positions behind each of its replies that ends there,
        counted from `begin` bytes before."""

    def full(self, is_full: bool) -> None:
        """Redis does not keep up, or keeps up again."""

    def lost(self, *, is_owed: bool) -> None:
        """The connection has ended; `is_owed`: replies to the client were to come."""


class _Preparing:
    """Sends before all clients. is_done: whether no reply to these requests is an error"""

    def __init__(self, loop: asyncio.AbstractEventLoop, requests: Sequence[bytes]) -> None:
        self.is_done: asyncio.Future[bool] = loop.create_future()
        self._requests = requests
        self._replies = b""

    def takes(self, data: bytes, ends: list[int], begin: int) -> None:
        self._replies += data
        begins = (0, *ReplyEnds().feed(self._replies))[:-1]
        found = [self._replies[begin:] for begin in begins]
        if any(map(_is_refused, self._requests, found)):
            self._tell(False)
        elif len(begins) == len(self._requests):
            self._tell(True)

    def full(self, is_full: bool) -> None:
        """It sends no more."""

    def lost(self, *, is_owed: bool) -> None:
        self._tell(False)

    def _tell(self, is_done: bool) -> None:
        if not self.is_done.done():
            self.is_done.set_result(is_done)


class SharedConnection(asyncio.Protocol):
    """
    clients: those that share it; term: that of the link when it was made
    is_open: it was opened; is_lost: it has ended, or never was
    opened: done when it is open, or could not be opened
    """

    def __init__(
        self,
        dial: Callable[[SharedConnection], Coroutine[None, None, None]],
        forget: Callable[[SharedConnection], None],
        term: Callable[[], int],
        counters: Counters,
        connections: Connections,
        keepalive_s: int,
        first: Sequence[bytes],
    ) -> None:
        """`dial(self)` connects, and raises OSError; `forget(self)` is called when it is lost;
        `term()`: the link's term; `counters`, `connections`: count the bytes that it sends, its
        clients, and that it is there; `first`: the requests that come first, none of which may
        fail."""
        self.clients: set[Sharer] = set()
        self.term = term()
        self.is_open = self.is_lost = False
        self._forget = forget
        self._term = term
        self._tally = counters.to_redis
        self._connections = connections
        self._sharing = counters.sharing
        self._keepalive_s = keepalive_s
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._ends = ReplyEnds()
        self._prepares = b"".join(first)
        self._preparing = _Preparing(self._loop, first)
        self._owed: deque[tuple[Sharer, int]] = deque()  # how many replies to whom, oldest first
        if first:
            self._owed.append((self._preparing, len(first)))
        self._first: Sharer | None = None  # who is owed the next one, and is no longer in `_owed`
        self._left = 0  # how many replies it is owed before others
        self._out: list[bytes] = []  # requests of this turn of the event loop
        self._waiting = 0  # bytes of these, before it is open
        self._at_once = self._lean_turns = 0
        self._is_full = False
        self.opened = self._loop.create_task(self._open(dial), name="shared connection")
        self.opened.add_done_callback(_retrieve)

    async def _open(self, dial: Callable[[SharedConnection], Coroutine[None, None, None]]) -> None:
        try:
            await dial(self)
            await self._prepare()
        except BaseException:
            if self._transport is not None:
                self._transport.abort()
            self._end()
            raise
        if self.is_lost:
            raise ConnectionError("Redis has closed the connection at once")
        self.is_open = True
        self._connections.now += 1
        self._sharing.connections += 1
        if self._is_full:
            self._tell_full(False)
        self._flush()

    async def _prepare(self) -> None:
        if self._prepares and self._transport is not None:
            self._transport.write(self._prepares)
            if not await self._preparing.is_done:
                raise ConnectionError("Redis refuses what a shared connection begins with")

    # The event loop calls these.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(HIGH, LOW)
        keep_alive(transport.get_extra_info("socket"), self._keepalive_s)

    def data_received(self, data: bytes) -> None:
        try:
            ends = self._ends.feed(data)
        except ValueError:
            self._miscounted()
            return
        begin = 0
        for end, client, own in self._shares(ends, len(data)):
            client.takes(data[begin:end], own, begin)
            begin = end
        if begin < len(data):
            self._miscounted()

    def _shares(self, ends: list[int], size: int) -> list[tuple[int, Sharer, list[int]]]:
        """Parts of `size` bytes in which replies end there: (the end of the part, its client, the
        ends of replies in it). The rest belongs to nobody."""
        owed, first, left = self._owed, self._first, self._left
        shares: list[tuple[int, Sharer, list[int]]] = []
        done = end = 0
        while end < size and (owed or left):
            if first is None or not left:
                first, left = owed.popleft()
            own = ends[done : done + left]
            done, left = done + left, left - len(own)
            end = size if left else own[-1]  # `left`: the last of its replies has not ended
            shares.append((end, first, own))
        self._first, self._left = first if left else None, left
        return shares

    def pause_writing(self) -> None:
        self._tell_full(True)

    def resume_writing(self) -> None:
        self._tell_full(False)

    def connection_lost(self, exc: Exception | None) -> None:
        is_failure = exc is not None and not self.is_lost
        if is_failure and self._transport is not None and (data := undelivered(self._transport)):
            self.data_received(data)
        self._end()

    @property
    def unsent(self) -> int:
        """Bytes that Redis has not taken."""
        return self._transport.get_write_buffer_size() if self._transport is not None else 0

    # Clients call these.

    def send(self, client: Sharer, count: int, data: bytes) -> None:
        """Sends whole requests of a client, which is owed so many replies to them.

        Before the connection is open they wait for that.
        """
        self._owed.append((client, count))
        self._tally.bytes += len(data)
        if self._at_once and self.is_open and self._transport is not None:
            self._at_once -= 1
            self._transport.write(data)
            return
        if not self._out:
            self._loop.call_soon(self._flush)
        self._out.append(data)
        if not self.is_open:
            self._waits(len(data))
        elif len(data) > _LARGE:
            self._flush()

    def join(self, client: Sharer) -> None:
        """One more client shares it."""
        self.clients.add(client)
        self._sharing.clients += 1
        if self._is_full:
            client.full(True)

    def leave(self, client: Sharer) -> None:
        """A client shares it no longer. If its server is not served any more, the last one ends
        it."""
        if client in self.clients:
            self.clients.remove(client)
            self._sharing.clients -= 1
        if not self.clients and self.term != self._term():
            self.close()

    def close(self) -> None:
        """Ends at once."""
        self.opened.cancel()
        if self._transport is not None:
            self._transport.abort()
        self._end()

    # Inside.

    def _waits(self, size: int) -> None:
        """Counts bytes that wait until it is open."""
        self._waiting += size
        if self._waiting > HIGH and not self._is_full:
            self._tell_full(True)

    def _flush(self) -> None:
        if not (self.is_open and self._out) or self.is_lost or self._transport is None:
            return
        out, self._out = self._out, []
        self._lean_turns = self._lean_turns + 1 if len(out) == 1 else 0
        if self._lean_turns == _LEAN_TURNS:
            self._at_once, self._lean_turns = _AT_ONCE, 0
        self._transport.write(out[0] if len(out) == 1 else b"".join(out))

    def _miscounted(self) -> None:
        """Closes it: it got no reply, or a reply to nothing, and whose it is cannot be guessed."""
        if not self.is_lost:
            log.warning("a shared connection to Redis is closed: it got what nobody had asked for")
            self.close()

    def _end(self) -> None:
        """Tells its clients that nothing more comes."""
        if self.is_lost:
            return
        self.is_lost = True
        self._connections.now -= self.is_open
        self._sharing.connections -= self.is_open
        self._forget(self)
        owed = dict.fromkeys(client for client, _ in self._owed)
        if self._left and self._first is not None:
            owed = {self._first: None, **owed}
        self._owed.clear()
        self._out = []
        self._first, self._left = None, 0
        for client in owed:
            client.lost(is_owed=True)
        for client in self.clients - owed.keys():
            client.lost(is_owed=False)
        if self._is_full:
            self._tell_full(False)

    def _tell_full(self, is_full: bool) -> None:
        self._is_full = is_full
        for client in list(self.clients):
            client.full(is_full)


def _is_refused(request: bytes, reply: bytes) -> bool:
    """`reply`: with what follows."""
    return reply[0] == ERROR and not (request == PING and reply.startswith(_SERVED))


def _retrieve(opened: asyncio.Task[None]) -> None:
    """Takes the exception, for which maybe nobody waits."""
    if not opened.cancelled():
        opened.exception()
