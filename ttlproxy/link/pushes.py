"""Announcements: a RESP3 connection that does nothing but receive what Redis pushes.

A pending reply would delay a push, so nothing is sent here once tracking is on. When a writer has
its reply, the push can be read: `receive` takes what is there without waiting, before each look at
a client's chunk. asyncio's transports cannot do that, so this is a plain non-blocking socket.

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
from collections.abc import Callable

import hiredis

from ttlproxy.addresses import Upstream
from ttlproxy.core.keys import Keys
from ttlproxy.errors import UpstreamError
from ttlproxy.link.connections import plain_socket
from ttlproxy.link.proxy_count import push_name
from ttlproxy.wire import encode

_NOTHING_THERE = (BlockingIOError, ssl.SSLWantReadError)
# How long the key stays if its writer was killed, or may not delete it.
_LEFT_MS = 1000


def announcing(name: bytes) -> tuple[tuple[bytes | int, ...], ...]:
    """Requests that announce a name to all proxies: they set and delete a key of that name."""
    return (b"SET", name, b"", b"PX", _LEFT_MS), (b"DEL", name)


class Pushes:
    """The push connection.

    on_announcement(db, key, deadline_ms) is called for each announcement, on_swap(db, db) when two
    databases change places, on_rules(db, counts, pattern) when a rule changes, on_flush()
    when Redis says that any key may be gone, on_hello() when another proxy is about to serve,
    on_walks(who) when a proxy walks over the data for all, on_loss() once when the connection ends.
    """

    def __init__(
        self,
        keys: Keys,
        on_announcement: Callable[[int, bytes, int], None],
        on_swap: Callable[[int, int], None],
        on_rules: Callable[[int, bool, bytes], None],
        on_flush: Callable[[], None],
        on_hello: Callable[[], None],
        on_walks: Callable[[bytes], None],
        on_loss: Callable[[], None],
    ) -> None:
        self._keys = keys
        self._on_announcement = on_announcement
        self._on_swap = on_swap
        self._on_rules = on_rules
        self._on_flush = on_flush
        self._on_hello = on_hello
        self._on_walks = on_walks
        self._on_loss = on_loss
        self._reader = hiredis.Reader()
        self._poll = select.poll()
        self._socket: socket.socket | None = None
        self._made: socket.socket | None = None  # the same, as soon as the thread has made it
        self._closed = False
        self._loop = asyncio.get_running_loop()

    async def open(self, upstream: Upstream, timeout_s: float, keepalive_s: int) -> None:
        """Connects and switches tracking on; raises OSError or UpstreamError."""
        self._socket = await asyncio.to_thread(self._connect, upstream, timeout_s, keepalive_s)
        self._poll.register(self._socket, select.POLLIN)
        self._loop.add_reader(self._socket, self._read)

    def close(self) -> None:
        self._closed = True
        if self._socket is not None:
            self._loop.remove_reader(self._socket)
            self._socket = None
        if self._made is not None:  # `open` may have been cancelled since
            self._made.close()

    def receive(self) -> None:
        """Takes what Redis has pushed so far, without waiting."""
        if self._socket is not None and self._poll.poll(0):
            self._read()

    def _read(self) -> None:
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
        if not isinstance(message, list) or message[:1] != [b"invalidate"]:
            return
        if message[1] is None:
            self._on_flush()
            return
        for name in message[1]:
            announced = self._keys.announced(name)
            if announced:
                db, deadline_ms, key = announced
                self._on_announcement(db, key, deadline_ms)
            elif databases := self._keys.swapped(name):
                self._on_swap(*databases)
            elif ruled := self._keys.ruled(name):
                self._on_rules(*ruled)
            elif name == self._keys.hello:
                self._on_hello()
            elif who := self._keys.walking(name):
                self._on_walks(who)

    def _connect(self, upstream: Upstream, timeout_s: float, keepalive_s: int) -> socket.socket:
        """Runs in a thread: a few requests, each with its reply, then tracking."""
        connection = plain_socket(upstream, timeout_s, keepalive_s)
        try:
            hello: tuple[bytes, ...] = (b"HELLO", b"3")
            user, password = upstream.credentials()
            if password is not None:
                hello += (b"AUTH", (user or "default").encode(), password.encode())
            self._ask(connection, *hello)
            self._ask(connection, b"CLIENT", b"SETNAME", push_name(self._keys.prefix))
            prefix = self._keys.announcement_prefix
            self._ask(connection, b"CLIENT", b"TRACKING", b"ON", b"BCAST", b"PREFIX", prefix)
            connection.setblocking(False)
            self._made = connection
            if self._closed:
                raise UpstreamError("the push connection is no longer needed")
        except BaseException:  # whatever it is: nobody else has the socket yet
            connection.close()
            raise
        return connection

    def _ask(self, connection: socket.socket, *words: bytes) -> None:
        connection.sendall(encode(words))
        while (reply := self._reader.gets()) is False:
            data = connection.recv(65536)
            if not data:
                raise UpstreamError("Redis closed the push connection")
            self._reader.feed(data)
        if isinstance(reply, hiredis.ReplyError):
            raise UpstreamError(f"Redis refuses the push connection: {reply}")
