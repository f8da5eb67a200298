"""A RESP3 connection on which Redis pushes: a plain non-blocking socket, because what has come must
be taken without waiting, which asyncio's transports cannot do.
"""

from __future__ import annotations

import asyncio
import select
import socket
import ssl
from collections.abc import Callable
from typing import Any

import hiredis

from ttlproxy.addresses import Upstream
from ttlproxy.errors import UpstreamError
from ttlproxy.link.connections import plain_socket
from ttlproxy.wire import encode

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
        self._loop = asyncio.get_running_loop()

    async def open(self, upstream: Upstream, timeout_s: float, keepalive_s: int) -> None:
        """Connects and switches tracking on; raises OSError or UpstreamError."""
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
                self.close()
                self._on_loss()
                return
            self._reader.feed(data)
            while (message := self._reader.gets()) is not False:
                self._take(message)

    def _take(self, message: object) -> None:
        """Takes a push or a reply."""
        raise NotImplementedError

    def _begin(self, connection: socket.socket) -> None:
        """Runs in a thread, after HELLO: requests that are asked by `_ask`."""
        raise NotImplementedError

    def _connect(self, upstream: Upstream, timeout_s: float, keepalive_s: int) -> socket.socket:
        """Runs in a thread: a few requests, each with its reply, then tracking."""
        connection = plain_socket(upstream, timeout_s, keepalive_s)
        try:
            hello: tuple[bytes, ...] = (b"HELLO", b"3")
            user, password = upstream.credentials()
            if password is not None:
                hello += (b"AUTH", (user or "default").encode(), password.encode())
            self._ask(connection, *hello)
            self._begin(connection)
            connection.setblocking(False)
            self._made = connection
            if self._closed:
                raise UpstreamError("the push connection is no longer needed")
        except BaseException:  # whatever it is: nobody else has the socket yet
            connection.close()
            raise
        return connection

    def _ask(self, connection: socket.socket, *words: bytes) -> Any:
        reply = self._reply(connection, *words)
        if isinstance(reply, hiredis.ReplyError):
            raise UpstreamError(f"Redis refuses the push connection: {reply}")
        return reply

    def _reply(self, connection: socket.socket, *words: bytes) -> Any:
        """Redis's reply, also a push that confirms; an error as an exception."""
        connection.sendall(encode(words))
        while (reply := self._reader.gets()) is False:
            data = connection.recv(65536)
            if not data:
                raise UpstreamError("Redis closed the push connection")
            self._reader.feed(data)
        return reply


def _tell(room: asyncio.Future[None]) -> None:
    if not room.done():
        room.set_result(None)
