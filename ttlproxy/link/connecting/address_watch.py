"""Watches the address of connections to Redis, and whether the link's server is still there."""

from __future__ import annotations

import asyncio

from redis.exceptions import NoPermissionError, RedisError

from ttlproxy.addresses import Upstream
from ttlproxy.config import Settings
from ttlproxy.errors import ServerChanged, UpstreamError
from ttlproxy.link.connecting.discovery import discovery
from ttlproxy.link.connecting.known_server import KnownServer
from ttlproxy.link.connecting.reachability import identity

# Between two probes.
_EVERY_S = 1.0


class AddressWatch:
    """
    now: where all connections go, those of clients too: the server of the present life of the link,
      or of the last one; before the first, the URL as configured
    """

    def __init__(self, settings: Settings, upstream: Upstream, server: KnownServer) -> None:
        self.now = upstream
        self._settings = settings
        self._wants_master = upstream.wants_master
        self._server = server
        self._discovery = discovery(upstream, lambda: settings.connect_timeout)
        self._wanted = asyncio.Event()

    async def run(self) -> None:
        """Listens to the Sentinels, if there are any, until cancelled."""
        await self._discovery.run()

    async def find(self) -> bool:
        """Finds the server for a new life; returns whether it has another address.

        Raises UpstreamError or OSError.
        """
        before, self.now = self.now, await self._discovery.find()
        has_moved = self.now.address != before.address
        if has_moved and self._wants_master and self._server.identity is not None:
            self._server.change()  # the old one may serve its connections for long
        return has_moved

    @property
    def shown(self) -> str:
        """The server's address, for people; empty if none has been found yet."""
        return self.now.address if self.now.host or self.now.path else ""

    def check(self) -> None:
        """Raises UpstreamError if the server that was met there is not the master as which it was
        found."""
        met = self._server.identity
        if self._wants_master and met is not None and not met.is_master:
            raise UpstreamError(f"{self.now.address} is a replica, and no master")

    def look(self) -> None:
        """There may be another server at the address now."""
        self._wanted.set()

    async def watch(self) -> None:
        """Runs for one life of the link, from its beginning. Raises ServerChanged when the
        Sentinels name another server."""
        await self._discovery.watch(self.now, self.look)

    async def probe(self) -> None:
        """Runs once the server has been met. Raises ServerChanged when new connections reach
        another one."""
        while True:
            await self._wanted.wait()
            self._wanted.clear()
            await self._probe()
            await asyncio.sleep(_EVERY_S)

    async def pause(self, limit_s: float) -> None:
        """Waits so long, or until the server is known to be elsewhere."""
        await self._discovery.pause(limit_s)

    async def _probe(self) -> None:
        timeout_s, known = self._settings.connect_timeout, self._server.identity
        try:
            found = await identity(await self._discovery.again(self.now), timeout_s)
        except NoPermissionError:
            return  # it will not tell later either
        except (RedisError, OSError):
            self.look()  # nobody has answered, which says nothing
            return
        if known is not None and known.is_other(found):
            raise ServerChanged("another server is at its address now")
