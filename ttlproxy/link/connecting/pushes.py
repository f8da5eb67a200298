"""Connections on which Redis pushes.

They are plain non-blocking sockets, because what has come must be taken without waiting, which
asyncio's transports cannot do. Replies and pushes are taken in the order in which they come.
`Announcements` has the one for announcements, and `Acknowledging` beside it.

When a writer has its reply, the push can be read: `receive` takes what is there without waiting,
before each look at a client's chunk. Redis writes a push later where the connection has something
else to get, so once tracking is on, nothing is sent or published there: `Acknowledging` asks and
subscribes.

Each `receive` costs a system call. A proxy that is alone needs none while no request of its own
clients is under way that could be announced: nobody else can cause a push. So a new proxy says
hello before it serves, by a key that it sets and deletes, and Redis counts the clients that track
keys.
"""

from __future__ import annotations

import asyncio
import select
import socket
import ssl
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import hiredis

from ttlproxy.addresses import Upstream
from ttlproxy.errors import UpstreamError
from ttlproxy.link.connecting.connections import plain_socket
from ttlproxy.link.connecting.pipeline import Words
from ttlproxy.net.tasks import fail
from ttlproxy.wire import encode

Ask: TypeAlias = Callable[..., list[Any]]
"""Sends requests in one packet; returns the replies, Redis's errors as exceptions."""

_CONFIRMATIONS = ([b"subscribe"], [b"unsubscribe"])
_NOTHING_THERE = (BlockingIOError, ssl.SSLWantReadError)
_FULL = (BlockingIOError, ssl.SSLWantWriteError)


class _Answer:
    """The replies to requests that were sent together."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.replies: list[Any] = []
        self.done: asyncio.Future[list[Any]] = asyncio.get_running_loop().create_future()


class PushSocket:
    """One connection, on which requests are sent; subclasses say how it begins, and take what is
    pushed."""

    def __init__(self, name: bytes, on_loss: Callable[[], None]) -> None:
        """`name`: as CLIENT LIST shows it; `on_loss()` is called once when the connection ends."""
        self._name = name
        self._on_loss = on_loss
        self._turn = asyncio.Lock()
        self._owed: deque[_Answer] = deque()
        self._reader = hiredis.Reader()
        self._socket: socket.socket | None = None
        self._made: socket.socket | None = None  # the same, as soon as the thread has made it
        self._closed = False
        self._loop = asyncio.get_running_loop()

    async def open(self, upstream: Upstream, timeout_s: float, keepalive_s: int) -> None:
        """Connects and sends the first requests. Raises OSError or UpstreamError."""
        self._socket = await asyncio.to_thread(self._connect, upstream, timeout_s, keepalive_s)
        self._loop.add_reader(self._socket, self.receive)

    def close(self) -> None:
        self._closed = True
        if self._socket is not None:
            self._loop.remove_reader(self._socket)
            self._loop.remove_writer(self._socket)
            self._socket = None
        if self._made is not None:  # `open` may have been cancelled since
            self._made.close()
        for answer in self._owed:
            fail(answer.done, UpstreamError("the connection was lost"))
        self._owed.clear()

    def lose(self) -> None:
        """Closes it as if the connection were lost."""
        self.close()
        self._on_loss()

    def register(self, poll: select.poll) -> int:
        """Adds this connection to `poll`, which watches it until it is closed. Returns its number
        there; -1 if it is closed."""
        if self._socket is None:
            return -1
        poll.register(self._socket, select.POLLIN)
        return self._socket.fileno()

    async def ask(self, requests: Sequence[Words]) -> list[Any]:
        """Returns the replies, Redis's errors as exceptions.

        Pushes that Redis has sent before a reply are taken before it. Raises UpstreamError if the
        connection ends.
        """
        answer = _Answer(len(requests))
        async with self._turn:
            self._owed.append(answer)
            await self._send(b"".join(encode(tuple(words)) for words in requests))
        return await answer.done

    async def _send(self, data: bytes) -> None:
        """Sends all of `data`. Raises UpstreamError if the connection ends."""
        left = memoryview(data)
        while left:
            if self._socket is None:
                raise UpstreamError("the connection was lost")
            try:
                left = left[self._socket.send(left) :]
            except _FULL:
                await self._writable(self._socket)
            except OSError as trouble:
                raise UpstreamError(f"the connection was lost: {trouble}") from trouble

    async def _writable(self, sock: socket.socket) -> None:
        room: asyncio.Future[None] = self._loop.create_future()
        self._loop.add_writer(sock, _tell, room)
        try:
            await room
        finally:
            if self._socket is not None:
                self._loop.remove_writer(sock)

    def receive(self) -> None:
        """Takes what has come, without waiting."""
        while self._socket is not None:
            try:
                data = self._socket.recv(65536)
            except _NOTHING_THERE:
                return
            except OSError:
                data = b""
            if not data:
                self.lose()
                return
            self._reader.feed(data)
            while (message := self._reader.gets()) is not False:
                self._take(message)

    def _take(self, message: object) -> None:
        """Takes a push or a reply; confirmations that come as pushes are replies."""
        if isinstance(message, hiredis.PushNotification) and message[:1] not in _CONFIRMATIONS:
            self._pushed(message)
        elif self._owed:
            answer = self._owed[0]
            answer.replies.append(message)
            if len(answer.replies) == answer.count:
                self._owed.popleft()
                if not answer.done.done():
                    answer.done.set_result(answer.replies)

    def _pushed(self, message: Sequence[Any]) -> None:
        """Takes what Redis pushes."""

    def _opening(self) -> list[Words]:
        """Returns the requests that are sent together with HELLO, none of which may be refused."""
        return [(b"CLIENT", b"SETNAME", self._name)]

    def _begin(self, connection: socket.socket) -> None:
        """Sends further requests, by `_ask`; runs in the thread, after the first ones."""

    def _connect(self, upstream: Upstream, timeout_s: float, keepalive_s: int) -> socket.socket:
        """Connects and sends the first requests; runs in a thread."""
        connection = plain_socket(upstream, timeout_s, keepalive_s)
        try:
            hello: tuple[bytes, ...] = (b"HELLO", b"3")
            user, password = upstream.credentials()
            if password is not None:
                hello += (b"AUTH", (user or "default").encode(), password.encode())
            self._ask(connection, hello, *self._opening())
            self._begin(connection)
            connection.setblocking(False)
            self._made = connection
            if self._closed:
                raise UpstreamError("the push connection is no longer needed")
        except BaseException:  # whatever it is: nobody else has the socket yet
            connection.close()
            raise
        return connection

    def _ask(self, connection: socket.socket, *requests: Words) -> list[Any]:
        """Returns the replies. Raises UpstreamError if one is an error."""
        replies = self._replies(connection, *requests)
        for reply in replies:
            if isinstance(reply, hiredis.ReplyError):
                raise UpstreamError(f"Redis refuses the push connection: {reply}")
        return replies

    def _replies(self, connection: socket.socket, *requests: Words) -> list[Any]:
        """Returns Redis's replies to requests in one packet, errors as exceptions; confirmations
        that come as pushes are among them."""
        connection.sendall(b"".join(encode(tuple(words)) for words in requests))
        found: list[Any] = []
        while len(found) < len(requests):
            if (reply := self._reader.gets()) is not False:
                if not (isinstance(reply, list) and reply[:1] == [b"message"]):
                    found.append(reply)
            elif data := connection.recv(65536):
                self._reader.feed(data)
            else:
                raise UpstreamError("Redis closed the push connection")
        return found


def _tell(room: asyncio.Future[None]) -> None:
    if not room.done():
        room.set_result(None)


# The key stays for this time if its writer was killed, or may not delete it.
_LEFT_MS = 1000


def announcing(name: bytes) -> tuple[tuple[bytes | int, ...], ...]:
    """Returns requests that announce a name to all proxies: they set and delete a key of that
    name."""
    return (b"SET", name, b"", b"PX", _LEFT_MS), (b"DEL", name)
