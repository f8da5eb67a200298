"""A client's connection to Redis: has its replies counted, and ends it.

It knows only a client's `Frontend`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias, cast

from ttlproxy.core.counters import Connections, Tally
from ttlproxy.net.sockets import keep_alive, undelivered
from ttlproxy.proxy.reply_queue import ReplyQueue, drop
from ttlproxy.proxy.round_trips import RoundTrips
from ttlproxy.proxy.staggered_closes import StaggeredCloses
from ttlproxy.proxy.write_batch import Write, WriteBatch
from ttlproxy.session.replies import Tell
from ttlproxy.wire import encode
from ttlproxy.wire.reply_ends import ERROR

if TYPE_CHECKING:
    from ttlproxy.proxy.sharing.shared_upstream import ClientUpstream

# Bytes that wait for a side that does not read: above the first, the other side is not read; below
# the second, it is again. A socket's own buffers grow as large on Linux by default.
HIGH: Final = 256 * 1024
LOW: Final = 64 * 1024
_PING: Final = encode((b"PING",))
# Redis's reply to QUIT.
_OK: Final = b"+OK\r\n"
# Redis refuses a connection with these, before any request (src/networking.c, acceptCommonHandler);
# a node of a Cluster counts the connections of other nodes, too, and says so.
TOO_MANY: Final = b"-ERR max number of clients"
NOT_ACCEPTED: Final = (TOO_MANY, b"-DENIED")


ToRedis: TypeAlias = "Backend | ClientUpstream"
"""A client's way to Redis: a connection of its own, or a place on a shared one."""


class Frontend(Protocol):
    """The client, as it is seen from here."""

    @property
    def takes(self) -> Take | None:
        """Takes what Redis sends, if it counts replies itself."""

    def queue(self) -> ReplyQueue:
        """The queue of what it is owed."""

    @property
    def write(self) -> Write:
        """Sends bytes to it."""

    @property
    def is_plain(self) -> bool:
        """Whether all that it may be owed now is one reply to each of its requests."""

    def send_by(self, send: Send) -> None:
        """Sends its requests to Redis by `send` from now on."""

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
Send = Callable[[bytes, int], None]  # gets bytes, and how many replies they ask for


class Backend(asyncio.Protocol):
    """A client's own connection to Redis: copies what Redis sends.

    most_at_once: so many bytes may be written before it is looked whether Redis keeps up
    replies: those that are to come
    data_received: takes what Redis sends; it is the function itself, which saves a call
    """

    most_at_once = HIGH
    data_received: Take  # type: ignore[assignment]

    def __init__(
        self,
        client: Frontend,
        write_batch: WriteBatch,
        staggered: StaggeredCloses,
        round_trips: RoundTrips,
        tally: Tally,
        connections: Connections,
        keepalive_s: int,
    ) -> None:
        """`tally`, `connections`: count the bytes that it sends, and that it is there."""
        self._client = client
        self._connections = connections
        self._is_counted = self._is_lost = False
        self._write_batch = write_batch
        self._staggered = staggered
        self._round_trips = round_trips
        self._tally = tally
        self._keepalive_s = keepalive_s
        self.replies = client.queue()
        self.data_received = client.takes or self.replies.takes
        self._held = b""  # the last bytes, which may be the reply to our QUIT
        self.is_cut = False  # no more is written
        self._is_closed = False  # by the client, which takes no more
        self._is_left = False  # by the client, which has another connection

    # The event loop calls these.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(HIGH, LOW)
        keep_alive(transport.get_extra_info("socket"), self._keepalive_s)
        self._write = self._write_batch.writer(self._transport, self._tally)

    def eof_received(self) -> bool:
        return self._staggered.put_off(self._transport.close)

    def connection_lost(self, exc: Exception | None) -> None:
        self._is_lost = True
        self._write = drop  # uvloop raises RuntimeError from now on
        self._connections.now -= self._is_counted
        if not self._is_closed and exc is not None and (data := undelivered(self._transport)):
            self.data_received(data)
        if self._held not in (b"", _OK) and not self._is_closed:
            self._client.write(self._held)
        self.replies.end()
        if self._is_left:
            return
        if exc is not None:  # at once, while the end of a stream waits for its turn
            self._client.send_by(drop)
            if self._staggered.put_off(self._client.end):
                return
        self._client.end()

    def count(self) -> None:
        """Counts the connection once it is established. If it were counted before, it might stay
        counted: if the task that connects is cancelled at the last moment, uvloop closes the
        connection without connection_lost."""
        self._is_counted = not self._is_lost
        self._connections.now += self._is_counted

    def pause_writing(self) -> None:
        self._client.full(True)

    def resume_writing(self) -> None:
        self._client.full(False)

    # The client calls these.

    def send(self, data: bytes, count: int) -> None:
        """Sends bytes that ask for `count` replies."""
        self.replies.sent += count
        if self._round_trips.is_due and self._client.is_plain and not self.replies.relays:
            self.replies.watch(self._round_trips.begin(data))
        self._write(data)

    def ask(self, request: bytes, tell: Tell) -> None:
        """Sends a request of ours; `tell` is told its reply."""
        if self.is_cut:
            tell(None)
            return
        self.replies.ask(tell)
        self._write(request)

    async def accepts(self, requests: Sequence[bytes]) -> Sequence[bool]:
        """Sends requests before any of the client's, and a PING; ends with its reply. Returns of
        each request whether it succeeded; nothing if Redis refuses the connection.

        So a WAIT of the client also waits for what was written before over another connection:
        each command that Redis carries out moves the offset up to which WAIT waits.
        """
        has_succeeded = list[bool]()
        is_refused = False

        def tell(line: bytes | None) -> bool:
            nonlocal is_refused
            if line is None or line.startswith(NOT_ACCEPTED):
                is_refused = True
                return line is not None
            has_succeeded.append(line[0] != ERROR)
            return False

        for request in (*requests, _PING):
            self.ask(request, tell)
        await self.replies.answered()
        return () if is_refused else has_succeeded[: len(requests)]

    def give_to(self, take: Take) -> None:
        """Gives what Redis sends from now on to `take`."""
        self.data_received = take
        if not self._is_lost:  # a closed transport would keep its protocol for good
            self._transport.set_protocol(self)  # uvloop has looked up the function before

    def finish(self, request: bytes) -> None:
        """Sends our QUIT, whose reply is not the client's."""
        if self.replies.relays:  # what is not counted ends with it
            self.give_to(self._hold_back)
        self.ask(request, lambda line: False)

    def _hold_back(self, data: bytes) -> None:
        data = self._held + data
        data, self._held = data[: -len(_OK)], data[-len(_OK) :]
        if data:
            self._client.write(data)

    def cut(self) -> None:
        """The client is gone: tells Redis at once."""
        self._write_batch.flush()
        self.is_cut = True
        half_close(self._transport)

    @property
    def unsent(self) -> int:
        """Bytes that Redis has not taken."""
        return self._transport.get_write_buffer_size()

    def pause(self, is_full: bool) -> None:
        """The client does not keep up, or keeps up again."""
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
