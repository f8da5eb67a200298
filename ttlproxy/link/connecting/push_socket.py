"""A RESP3 connection on which Redis pushes: a plain non-blocking socket, because what has come must
be taken without waiting, which asyncio's transports cannot do.
"""

from __future__ import annotations

import asyncio
import select
import socket
import ssl
from collections.abc import Callable
from typing import Any, TypeAlias

import hiredis

from ttlproxy.addresses import Upstream
from ttlproxy.errors import UpstreamError
from ttlproxy.link.connecting.connections import plain_socket
from ttlproxy.link.connecting.pipeline import Words
from ttlproxy.wire import encode

Ask: TypeAlias = Callable[..., list[Any]]
"""Sends requests in one packet; returns the replies, Redis's errors as exceptions."""

_NOTHING_THERE = (BlockingIOError, ssl.SSLWantReadError)
_FULL = (BlockingIOError, ssl.SSLWantWriteError)


class PushSocket:
    """One connection; subclasses say how it begins, and what becomes of each message."""

    def __init__(self, on_loss: Callable[[], None]) -> None:
        """`on_loss()` is called once when the connection ends."""
        self._on_loss = on_loss
        self._reader = hiredis.Reader()
        self._socket: socket.socket | None = None
        self._made: socket.socket | None = None  # the same, as soon as the thread has made it
        self._closed = False
        self._early: list[Any] = []  # messages that came while it was opened
        self._loop = asyncio.get_running_loop()

    async def open(self, upstream: Upstream, timeout_s: float, keepalive_s: int) -> None:
        """Connects and switches tracking on; raises OSError or UpstreamError."""
        self._socket = await asyncio.to_thread(self._connect, upstream, timeout_s, keepalive_s)
        early, self._early = self._early, []
        for message in early:
            self._take(message)
        self._loop.add_reader(self._socket, self.receive)

    def close(self) -> None:
        self._closed = True
        if self._socket is not None:
            self._loop.remove_reader(self._socket)
            self._loop.remove_writer(self._socket)
            self._socket = None
        if self._made is not None:  # `open` may have been cancelled since
            self._made.close()

    def lose(self) -> None:
        """Closes it as if the connection were lost."""
        self.close()
        self._on_loss()

    def register(self, poll: select.poll) -> None:
        """`poll` looks at this connection too, until it is closed."""
        if self._socket is not None:
            poll.register(self._socket, select.POLLIN)

    async def send(self, data: bytes) -> None:
        """Raises UpstreamError if the connection ends."""
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
        """Takes a push or a reply."""
        raise NotImplementedError

    def _opening(self) -> list[Words]:
        """What is sent together with HELLO, none of which may be refused."""
        raise NotImplementedError

    def _begin(self, connection: socket.socket) -> None:
        """Runs in a thread, after that: further requests, by `_ask`."""

    def _connect(self, upstream: Upstream, timeout_s: float, keepalive_s: int) -> socket.socket:
        """Runs in a thread: a few requests, each packet with its replies, then tracking."""
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
        """The replies. Raises UpstreamError if one is an error."""
        replies = self._replies(connection, *requests)
        for reply in replies:
            if isinstance(reply, hiredis.ReplyError):
                raise UpstreamError(f"Redis refuses the push connection: {reply}")
        return replies

    def _replies(self, connection: socket.socket, *requests: Words) -> list[Any]:
        """Redis's replies to requests in one packet, also pushes that confirm; errors as
        exceptions."""
        connection.sendall(b"".join(encode(tuple(words)) for words in requests))
        found: list[Any] = []
        while len(found) < len(requests):
            if (reply := self._reader.gets()) is not False:
                is_message = isinstance(reply, list) and reply[:1] == [b"message"]
                (self._early if is_message else found).append(reply)
            elif data := connection.recv(65536):
                self._reader.feed(data)
            else:
                raise UpstreamError("Redis closed the push connection")
        return found


def _tell(room: asyncio.Future[None]) -> None:
    if not room.done():
        room.set_result(None)
