"""The address that clients come to. Knows nothing of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Final

from ttlproxy.config import Listen

BACKLOG: Final = 1024

ClientProtocol = Callable[[], asyncio.Protocol]


class Listener:
    """Clients that come to an address of this process's own."""

    def __init__(self, listen: Listen) -> None:
        self._listen = listen
        self._server: asyncio.Server | None = None

    async def start(self, protocol: ClientProtocol, *, accepts: bool = True) -> Listen:
        """Listens; gives the address, with the port where any was asked for. Raises OSError.

        Where it does not accept, the sockets are bound, and nobody listens yet.
        """
        loop, listen = asyncio.get_running_loop(), self._listen
        if listen.path:
            self._server = await loop.create_unix_server(
                protocol, listen.path, backlog=BACKLOG, start_serving=accepts
            )
            return listen
        self._server = await loop.create_server(
            protocol, listen.host, listen.port, backlog=BACKLOG, start_serving=accepts
        )
        return Listen(host=listen.host, port=self._server.sockets[0].getsockname()[1])

    def descriptors(self) -> list[int]:
        """Of the bound sockets."""
        return [each.fileno() for each in self._server.sockets] if self._server else []

    def stop(self) -> None:
        """Nobody comes any more."""
        if self._server is not None:
            self._server.close()
            self._server = None
            if self._listen.path:
                Path(self._listen.path).unlink(missing_ok=True)

    def ended(self) -> None:
        """A client that came has gone."""
