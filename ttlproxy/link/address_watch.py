"""Looks, when clients connect, whether new connections still reach the server of the link."""

from __future__ import annotations

import asyncio

from ttlproxy.addresses import Upstream
from ttlproxy.config import Settings
from ttlproxy.errors import ServerChanged
from ttlproxy.link.known_server import KnownServer
from ttlproxy.link.reachability import met

# Between two probes.
_EVERY_S = 1.0


class AddressWatch:
    def __init__(self, settings: Settings, upstream: Upstream, server: KnownServer) -> None:
        self._settings = settings
        self._upstream = upstream
        self._server = server
        self._wanted = asyncio.Event()

    def look(self) -> None:
        """There may be another server at the address now."""
        self._wanted.set()

    async def run(self) -> None:
        """Runs until cancelled. Raises ServerChanged when there is another server."""
        while True:
            await self._wanted.wait()
            self._wanted.clear()
            found = await met(self._upstream, self._settings.connect_timeout)
            known = self._server.identity
            if found is not None and known is not None and known.is_other(found):
                raise ServerChanged("another server is at its address now")
            await asyncio.sleep(_EVERY_S)
