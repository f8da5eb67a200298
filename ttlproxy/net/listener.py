"""Listens at addresses and accepts connections. Knows nothing about clients."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import socket
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from ttlproxy.addresses import Listen
from ttlproxy.errors import ListenError
from ttlproxy.net.log_summaries import Summaries
from ttlproxy.net.sockets import keep_alive

log = logging.getLogger(__name__)
_summaries = Summaries(log)

BACKLOG: Final = 1024
# Reasons why a TCP address, and a unix socket, cannot be bound.
_TCP: Final[Mapping[int | None, str]] = {
    errno.EADDRINUSE: "another program has this port: end it, or choose another port",
    errno.EADDRNOTAVAIL: "this machine has no such address; 0.0.0.0 stands for all that it has",
    errno.EACCES: "a port below 1024 needs root or CAP_NET_BIND_SERVICE: choose a higher one",
}
_UNIX: Final[Mapping[int | None, str]] = {
    errno.EADDRINUSE: "there is a file or directory of this name, and it is no socket",
    errno.ENOENT: "its directory does not exist: create it first",
    errno.ENOTDIR: "a part of its path is no directory",
    errno.EACCES: "this user may not create a socket in that directory",
}
# The pause after a failed accept; asyncio's own servers wait for 1 s.
_ACCEPT_AGAIN_S: Final = 0.1

Take = Callable[[socket.socket], Awaitable[None]]


class Listeners:
    """The listening sockets of addresses, which start and stop together.

    accepts: whether connections are accepted and passed on as sockets (`hand_over`)
    """

    def __init__(
        self,
        addresses: Sequence[Listen],
        permissions: str | None = None,
        keepalive_s: int = 0,
        *,
        flag: str = "--listen",
    ) -> None:
        """`addresses`: at least one; `permissions`: of unix sockets, in octal; `keepalive_s`: for
        TCP, 0 for no probes; `flag`: the one that sets the address, for errors."""
        self._addresses = list(addresses)
        self._flag = flag
        self._permissions = permissions
        self._keepalive_s = keepalive_s
        self._servers: list[asyncio.Server] = []  # those of the first addresses
        self._accepting: list[asyncio.Task[None]] = []

    @property
    def accepts(self) -> bool:
        return bool(self._accepting)

    async def check(self) -> None:
        """Raises ListenError if a TCP address cannot be bound now; does not listen."""
        for listen in self._addresses:
            if not listen.path:  # the file of a unix socket is replaced
                server, _ = await self._bind(listen, asyncio.Protocol)
                server.close()

    async def start(self, protocol: Callable[[], asyncio.Protocol]) -> Listen:
        """Serves each connection with a new protocol; returns the first address. Raises
        ListenError."""
        await self._bind_all(protocol)
        for server in self._servers:
            await server.start_serving()
        return self._addresses[0]

    async def hand_over(self, take: Take) -> Listen:
        """Passes each connection to `take` as a socket, one at a time; returns the first address.
        Raises ListenError."""
        await self._bind_all(asyncio.Protocol)
        for bound in (bound for server in self._servers for bound in server.sockets):
            listener = socket.socket(fileno=os.dup(bound.fileno()))
            listener.setblocking(False)
            listener.listen(BACKLOG)
            self._accepting.append(asyncio.create_task(_accept(listener, take), name="accept"))
        return self._addresses[0]

    def stop(self) -> None:
        """Accepts no more connections."""
        for task in self._accepting:
            task.cancel()
        for server, listen in zip(self._servers, self._addresses, strict=False):
            server.close()
            if listen.path:
                Path(listen.path).unlink(missing_ok=True)
        self._servers = []

    async def _bind_all(self, protocol: Callable[[], asyncio.Protocol]) -> None:
        """If it starts again, clients find it at the same addresses."""
        try:
            for number, listen in enumerate(self._addresses):
                server, self._addresses[number] = await self._bind(listen, protocol)
                self._servers.append(server)
        except ListenError:
            self.stop()
            raise

    async def _bind(
        self, listen: Listen, protocol: Callable[[], asyncio.Protocol]
    ) -> tuple[asyncio.Server, Listen]:
        """Binds without listening; returns the address, with the real port if that was 0."""
        try:
            loop = asyncio.get_running_loop()
            if listen.path:
                server = await loop.create_unix_server(
                    protocol, listen.path, backlog=BACKLOG, start_serving=False
                )
                if self._permissions is not None:
                    os.chmod(listen.path, int(self._permissions, 8))
                return server, listen
            server = await loop.create_server(
                protocol, listen.host, listen.port, backlog=BACKLOG, start_serving=False
            )
            for bound in server.sockets:
                keep_alive(bound, self._keepalive_s)  # accepted sockets inherit this
            return server, Listen(listen.host, server.sockets[0].getsockname()[1])
        except OSError as trouble:
            raise ListenError(f"{self._flag} {listen}: {_why_not(listen, trouble)}") from trouble


def _why_not(listen: Listen, trouble: OSError) -> str:
    if isinstance(trouble, socket.gaierror):
        return "the name is not found: give an address, or one that this machine knows"
    known = _UNIX if listen.path else _TCP
    said = os.strerror(trouble.errno) if trouble.errno else str(trouble)
    return known.get(trouble.errno, said)


async def _accept(listener: socket.socket, take: Take) -> None:
    with listener:
        while True:
            try:
                client, _ = await asyncio.get_running_loop().sock_accept(listener)
            except OSError as trouble:  # no descriptors are left, or the client has gone
                _summaries.note(logging.WARNING, f"cannot accept a client: {trouble}")
                await asyncio.sleep(_ACCEPT_AGAIN_S)
                continue
            client.setblocking(False)
            try:
                await take(client)
            except Exception:  # whatever fails for one client, the next must be served
                log.exception("cannot accept a client: internal error")
                client.close()
