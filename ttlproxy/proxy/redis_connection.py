"""A client's connection to Redis: copies bytes back to the client, unread, and ends it.

Of the client it knows only what `Frontend` says.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cached_property
from itertools import pairwise
from typing import Final, Protocol, cast

from ttlproxy.core.counters import Connections, Tally
from ttlproxy.net.keepalive import keep_alive
from ttlproxy.net.tcp_progress import Progress, progress, received
from ttlproxy.net.undelivered import undelivered
from ttlproxy.proxy.departures import Departures
from ttlproxy.proxy.round_trip import RoundTrip
from ttlproxy.proxy.write_batch import Write, WriteBatch
from ttlproxy.wire import Lines, Marked, encode
from ttlproxy.wire.reply_ends import ReplyEnds

# Bytes that wait for a side that does not read: above the first, the other side is not read; below
# the second, it is again. As large as a socket's own buffers grow on Linux by default.
HIGH: Final = 256 * 1024
LOW: Final = 64 * 1024
# Redis's reply to QUIT.
_OK: Final = b"+OK\r\n"
_PING: Final = encode((b"PING",))
# How Redis refuses a connection, before any request (src/networking.c, acceptCommonHandler); a node
# of a Cluster counts the connections of other nodes, too, and says so.
TOO_MANY: Final = b"-ERR max number of clients"


class ToRedis(Protocol):
    """A client's way to Redis: `Backend`, a connection of its own, or a seat on a shared one.

    most_at_once: so many bytes may be written before it is looked whether Redis keeps up
    """

    most_at_once: int
    is_cut: bool

    @property
    def write(self) -> Write:
        """Sends bytes."""

    @property
    def unsent(self) -> int:
        """Bytes that Redis has not taken."""

    @property
    def received(self) -> int:
        """Bytes that have come from Redis."""

    def has_settled(self) -> bool:
        """Whether nothing is on its way, and was not when this was last asked."""

    async def is_answered(self, request: Callable[[bytes], bytes]) -> bool:
        """Sends `request(mark)`; False if its reply is null, which is kept back."""

    def count_lines(self) -> None:
        """Counts replies from now on, before any request: the client has not logged in yet."""

    async def has_replied(self, count: int) -> None:
        """Ends when `count` replies have come since `count_lines`."""

    def lets_in(self, number: int) -> asyncio.Future[bool]:
        """Whether the reply that comes after `number` others lets the client in."""

    def finish(self, request: bytes) -> None:
        """The client ends with its last reply; `request` is our QUIT."""

    def cut(self) -> None:
        """The client is gone, and sends no more."""

    def pause(self, is_full: bool) -> None:
        """The client does not keep up, or keeps up again."""

    def ignore(self) -> None:
        """The client takes nothing more; `close` follows."""

    def close(self) -> None:
        """The client has gone. Redis still gets what was sent to it before."""

    def abort(self) -> None:
        """Ends at once."""


class Frontend(Protocol):
    """The client, as it is seen from here."""

    @property
    def write(self) -> Write:
        """Sends bytes to it."""

    @property
    def is_plain(self) -> bool:
        """Whether all that it may be owed now is one reply to each of its requests."""

    def send_by(self, write: Write) -> None:
        """From now on this sends its requests to Redis."""

    def full(self, is_full: bool) -> None:
        """Redis does not keep up, or keeps up again."""

    def end(self) -> None:
        """Redis has closed."""


def half_close(transport: asyncio.Transport) -> bool:
    """Ends writing, and reads on; False if the other end has gone."""
    if transport.is_closing():  # uvloop raises RuntimeError
        return False
    try:
        transport.write_eof()
    except OSError:  # the other end has reset the connection, which asyncio does not know yet
        transport.abort()
        return False
    return True


Take = Callable[[bytes], None]


def _drop(data: bytes) -> None:
    """Takes bytes that nobody wants."""


class Receiver(asyncio.Protocol):
    """Takes what Redis sends, as long as it is the transport's protocol.

    `data_received` is the given function itself, which saves a call: mostly the client's `write`.
    """

    __slots__ = ("data_received", "watchable")
    data_received: Take  # type: ignore[assignment]

    def __init__(self, backend: Backend, take: Take) -> None:
        self.watchable = backend
        self.data_received = take

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.watchable.connection_made(transport)

    def eof_received(self) -> bool:
        return self.watchable.eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        self.watchable.connection_lost(self.data_received, exc)

    def pause_writing(self) -> None:
        self.watchable.pause_writing()

    def resume_writing(self) -> None:
        self.watchable.resume_writing()


class Backend:
    """A client's own connection to Redis: copies what Redis sends."""

    most_at_once = HIGH

    def __init__(
        self,
        client: Frontend,
        write_batch: WriteBatch,
        departures: Departures,
        tally: Tally,
        connections: Connections,
        keepalive_s: int,
    ) -> None:
        """`tally`, `connections`: count the bytes that it sends, and that it is there."""
        self._client = client
        self._connections = connections
        self._is_counted = self._is_lost = False
        self._write_batch = write_batch
        self._departures = departures
        self._tally = tally
        self._keepalive_s = keepalive_s
        self._to_client = client.write
        self._looks = False  # at what Redis sends, before the client gets it
        self._held = b""  # while finishing: the last bytes, which may be the reply to our QUIT
        self.is_cut = False  # no more is written
        self._is_closed = False  # by the client, which takes no more
        self._is_left = False  # by the client, which has another connection
        self._answered: asyncio.Future[bool] | None = None
        self._pong: asyncio.Future[None] | None = None
        self._first = 0  # how many replies come before that to the PING
        self._replies: Sequence[bytes] = ()  # those of them that have come
        self._let_in: asyncio.Future[bool] | None = None
        self._owed = 0  # how many replies `has_replied` waits for
        self._paid: asyncio.Future[None] | None = None
        self._is_paused = False  # the client does not keep up
        self._progress: Progress | None = None  # at the last look
        self._watched: RoundTrip | None = None  # requests and replies go by it

    @cached_property
    def _marked(self) -> Marked:
        return Marked()

    @cached_property
    def _lines(self) -> Lines:
        return Lines()

    def protocol(self) -> Receiver:
        """The protocol of a new connection to Redis: the client gets all that comes."""
        return Receiver(self, self._to_client)

    # From the event loop.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(HIGH, LOW)
        keep_alive(transport.get_extra_info("socket"), self._keepalive_s)
        self._send = self._write_batch.writer(self._transport, self._tally)
        self.write = self._send

    def eof_received(self) -> bool:
        return self._departures.put_off(self._transport.close)

    def connection_lost(self, take: Take, exc: Exception | None) -> None:
        """`take`: the function that took what Redis sent last."""
        self._is_lost = True
        self._connections.now -= self._is_counted
        if not self._is_closed:
            if exc is not None and (data := undelivered(self._transport)):
                take(data)
            if self._held and self._held != _OK:
                self._to_client(self._held)
        self.watch_no_more()
        if self._is_left:
            return
        if exc is not None:  # at once, while the end of a stream waits for its turn
            self.write = _drop
            self._client.send_by(_drop)
            if self._departures.put_off(self._client.end):
                return
        self._client.end()

    def count(self) -> None:
        """It is there. Not counted before: if whoever connects is cancelled in the last moment,
        uvloop closes the connection without connection_lost."""
        self._is_counted = not self._is_lost
        self._connections.now += self._is_counted

    def pause_writing(self) -> None:
        self._client.full(True)

    def resume_writing(self) -> None:
        self._client.full(False)

    # From the client.

    async def is_answered(self, request: Callable[[bytes], bytes]) -> bool:
        """Sends `request(mark)`; False if its reply is null, which is kept back."""
        self._answered = asyncio.get_running_loop().create_future()
        if not self.is_cut:
            self.give_to(self._look)
            self.write(request(self._marked.another()))
        return await self._answered

    def _look(self, data: bytes) -> None:
        marked, answered = self._marked, self._answered
        if out := marked.take(data):
            self._to_client(out)
        if marked.doubtful and not self.is_cut:
            self.write(encode((marked.fence(),)))
        if marked.done:
            self.give_to(self._to_client)
        if (marked.found or marked.refused) and answered is not None and not answered.done():
            answered.set_result(not marked.null)

    async def pings(self, first: Sequence[bytes] = ()) -> Sequence[bytes]:
        """Sends a PING before any request, and ends with its reply, which is kept back. Before it
        go `first`, a request each, whose replies are returned; fewer if Redis refuses the
        connection.

        So a WAIT of the client also waits for what was written before over another connection:
        each command that Redis carries out moves the offset up to which WAIT waits.
        """
        self._pong = asyncio.get_running_loop().create_future()
        self._first, self._replies = len(first), ()
        self.give_to(self._keep_pong)
        self.write(b"".join((*first, _PING)))
        await self._pong
        return self._replies

    def _keep_pong(self, data: bytes) -> None:
        data = self._held + data
        ends = ReplyEnds().take(data)
        replies = [data[begin:end] for begin, end in pairwise((0, *ends))]
        is_refused = replies[:1] and replies[0].startswith(TOO_MANY)
        if len(replies) <= self._first and not is_refused:
            self._held = data
            return
        self._held = b""
        self._replies = () if is_refused else replies[: self._first]
        rest = data if is_refused else data[ends[self._first] :]
        self.give_to(self._to_client)
        if rest:
            self._to_client(rest)
        if self._pong is not None and not self._pong.done():
            self._pong.set_result(None)

    def count_lines(self) -> None:
        """Counts replies from now on, before any request: the client has not logged in yet."""
        self.give_to(self._count)

    async def has_replied(self, count: int) -> None:
        """Ends when `count` replies have come since `count_lines`."""
        if self._lines.ended < count:
            self._owed, self._paid = count, asyncio.get_running_loop().create_future()
            await self._paid

    def lets_in(self, number: int) -> asyncio.Future[bool]:
        """Whether the reply that comes after `number` others lets the client in."""
        self._let_in = asyncio.get_running_loop().create_future()
        self._lines.look_for(number)
        return self._let_in

    def _count(self, data: bytes) -> None:
        lines, let_in = self._lines, self._let_in
        lines.take(data)
        self._to_client(data)
        if self._paid is not None and lines.ended >= self._owed and not self._paid.done():
            self._paid.set_result(None)
        if lines.let_in:
            self.give_to(self._to_client)
        if lines.let_in is not None and let_in is not None and not let_in.done():
            let_in.set_result(lines.let_in)

    def give_to(self, take: Take) -> None:
        """From now on, `take` gets what Redis sends."""
        self.watch_no_more()
        self._looks = take != self._to_client
        if not self._is_lost:  # a closed transport would keep its protocol for good
            self._transport.set_protocol(Receiver(self, take))

    def client_takes(self, take: Take) -> None:
        """From now on the client gets by `take` what it gets."""
        self._to_client = take
        if not self._looks:
            self.give_to(take)

    @property
    def may_be_watched(self) -> bool:
        """Whether a round trip can be measured here."""
        is_busy = self._looks or self._watched or self.is_cut or self._transport.is_closing()
        return not is_busy and self._client.is_plain

    def watch(self, over: Callable[[RoundTrip], None]) -> RoundTrip:
        """Measures a round trip, from the next requests on; `over(it)` is called at its end."""
        self._watched = watched = RoundTrip(self._send, self._to_client, over)
        self.write = watched.sends
        self._client.send_by(self.write)
        self._transport.set_protocol(Receiver(self, watched.takes))
        return watched

    def watch_no_more(self) -> None:
        """What comes and goes passes at once again."""
        if self._watched is not None:
            watched, self._watched = self._watched, None
            self.write = self._send
            self._client.send_by(self.write)
            if not self._is_lost:  # a closed transport would keep its protocol for good
                self._transport.set_protocol(Receiver(self, self._to_client))
            watched.end()

    def finish(self, request: bytes) -> None:
        """Sends our QUIT, whose reply is not the client's."""
        self.give_to(self._hold_back)
        self.write(request)

    def _hold_back(self, data: bytes) -> None:
        data = self._held + data
        data, self._held = data[: -len(_OK)], data[-len(_OK) :]
        if data:
            self._to_client(data)

    def cut(self) -> None:
        """The client is gone: tells Redis at once."""
        self._write_batch.flush()
        self.is_cut = True
        half_close(self._transport)

    @property
    def unsent(self) -> int:
        """Bytes that Redis has not taken."""
        return self._transport.get_write_buffer_size()

    @property
    def received(self) -> int:
        """Bytes that have come from Redis, as far as the system tells: tcp_progress.received."""
        if not self._transport.is_closing():  # uvloop raises ValueError for a closed socket
            with suppress(OSError):
                return received(self._transport.get_extra_info("socket"))
        return 0

    def has_settled(self) -> bool:
        """Whether Redis has taken all, and sent nothing, since this was last asked."""
        if self._transport.is_closing():
            return True
        before, self._progress = self._progress, None
        if not (self.unsent or self._is_paused):
            with suppress(OSError):
                self._progress = progress(self._transport.get_extra_info("socket"))
        return before is not None and before == self._progress

    def pause(self, is_full: bool) -> None:
        """The client does not keep up, or keeps up again."""
        self._is_paused = is_full
        if self._transport.is_closing():
            return
        if is_full:
            self._transport.pause_reading()
        else:
            self._transport.resume_reading()

    def ignore(self) -> None:
        """The client takes nothing more; `close` follows."""
        self._is_closed = True
        if not self._transport.is_closing():
            self._transport.pause_reading()  # cheaper than to read and drop it

    def leave(self) -> None:
        """The client has another connection; it is owed nothing here."""
        self._is_left = True
        self.close()

    def close(self) -> None:
        """The client has gone. Redis still gets what was sent to it before."""
        self._is_closed = True
        self._transport.close()

    def abort(self) -> None:
        """Ends at once; what Redis has not taken is lost."""
        self._is_closed = True
        self._transport.abort()
