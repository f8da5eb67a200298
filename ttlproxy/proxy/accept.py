"""Makes a client of each accepted connection; its PROXY header, if one is asked for, comes first.

The header is read from the socket itself, and no byte beyond it: TLS may follow.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable
from functools import partial
from typing import Final

from ttlproxy.addresses import Listen
from ttlproxy.config import Settings
from ttlproxy.net.listener import Listeners
from ttlproxy.net.log_summaries import Summaries
from ttlproxy.net.tasks import report
from ttlproxy.proxy.client_limit import ClientLimit, ClientProtocol
from ttlproxy.proxy.client_log import peer_shown
from ttlproxy.wire.proxy_protocol import Malformed, parse

log = logging.getLogger(__name__)
_summaries = Summaries(log)

# The longest time for a header; HAProxy's own example has `timeout connect` at 5 s.
_HEADER_S: Final = 5.0
# Bytes; no header has more.
_LARGEST: Final = 1 << 17


class Admission:
    """Connects each accepted socket with its protocol, in a task of its own."""

    def __init__(
        self, protocol: ClientProtocol, settings: Settings, lost: Callable[[], None]
    ) -> None:
        """`lost()` is called when a connection ends before it has its protocol."""
        self._protocol = protocol
        self._asks_header = settings.proxy_protocol == "yes"
        self._limit = ClientLimit(settings.max_clients)  # for connections whose header is awaited
        self._lost = lost
        self._tasks: set[asyncio.Task[None]] = set()

    def admit(self, client: socket.socket) -> None:
        """Gives the socket, which does not block, its protocol as soon as possible."""
        if self._asks_header and self._limit.reached(len(self._tasks)):
            client.close()
            self._lost()
            return
        task = asyncio.create_task(self._admit(client), name="admission")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        task.add_done_callback(report)

    async def _admit(self, client: socket.socket) -> None:
        loop, source = asyncio.get_running_loop(), ""
        peer = _peer(client)
        try:
            if self._asks_header:
                source = await _source(client)
            await loop.connect_accepted_socket(lambda: self._protocol(source), client)
        except (OSError, EOFError, Malformed) as trouble:
            # A load balancer that only checks whether somebody listens is no event.
            left = isinstance(trouble, EOFError | ConnectionError)
            why = str(trouble) or "its PROXY header did not arrive in time"
            level = logging.DEBUG if left else logging.INFO
            _summaries.note(level, f"a connection is closed: {why}", source or peer)
            client.close()
            self._lost()
        except BaseException as trouble:  # also a cancellation: nobody else closes the socket
            client.close()
            if not isinstance(trouble, asyncio.CancelledError):
                self._lost()
            raise


class Gate:
    """Accepts clients at addresses of this process's own, with PROXY headers if they are set."""

    def __init__(self, settings: Settings) -> None:
        self._listeners = Listeners(
            settings.addresses, settings.unix_socket_perm, settings.tcp_keepalive
        )
        self._settings = settings
        self._admission: Admission | None = None

    async def start(self, protocol: ClientProtocol) -> Listen:
        """Starts to accept clients; returns the address. Raises ListenError."""
        if self._settings.proxy_protocol == "no":
            return await self._listeners.start(partial(protocol, ""))
        self._admission = Admission(protocol, self._settings, self.ended)
        return await self._listeners.hand_over(self._take)

    def stop(self) -> None:
        """Accepts no more clients."""
        self._listeners.stop()

    def ended(self) -> None:
        """A client that was accepted has gone."""

    async def _take(self, client: socket.socket) -> None:
        assert self._admission
        self._admission.admit(client)


def _peer(client: socket.socket) -> str:
    try:
        return peer_shown(client.getpeername())
    except OSError:  # it has gone already
        return ""


async def _source(client: socket.socket) -> str:
    """The address in the header. Raises Malformed, EOFError, OSError or TimeoutError."""
    data = b""
    async with asyncio.timeout(_HEADER_S):
        while True:
            await _readable(client)
            try:
                more = client.recv(_LARGEST, socket.MSG_PEEK)
            except BlockingIOError:
                continue
            if not more:
                raise EOFError("it ended before its PROXY header")
            header = parse(data + more)
            if header is not None:
                client.recv(header.length - len(data))
                return header.source
            data += client.recv(len(more))


async def _readable(client: socket.socket) -> None:
    loop = asyncio.get_running_loop()
    readable = asyncio.Event()
    loop.add_reader(client, readable.set)
    try:
        await readable.wait()
    finally:
        loop.remove_reader(client)
