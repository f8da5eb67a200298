"""The parts that a proxy is built of, in front of one Redis or of several masters of a Cluster."""

from __future__ import annotations

import asyncio

from ttlproxy.addresses import Upstream
from ttlproxy.config import Settings
from ttlproxy.core.counters import Counters
from ttlproxy.link import Context, Link, Masters
from ttlproxy.link.reaper.reaper import Reaper
from ttlproxy.net.tasks import Task
from ttlproxy.process.open_files import beside_clients
from ttlproxy.proxy.server import ClientSource, Server


class OneRedis:
    """A link, a reaper, and a server whose clients each have one connection to Redis."""

    def __init__(
        self, settings: Settings, upstream: Upstream, counters: Counters, source: ClientSource
    ) -> None:
        context = Context(settings, counters)
        self.link = Link(upstream, context, lambda: self.server.leave())
        self.server = Server(settings, self.link, counters, source)
        self._reaper = Reaper(self.link)

    def start(self) -> list[Task]:
        """Starts the tasks beside the link and the server."""
        return [asyncio.create_task(self._reaper.run(), name="reaper")]

    async def drop_leases(self) -> None:
        """Gives up leases when the tasks have ended, so that other proxies can reap at once."""
        await self._reaper.drop_lease()

    async def close(self) -> None:
        """Closes what is left when all clients have gone."""
        await self.link.list_waiters.close()


class SeveralRedis:
    """A link and a reaper for each master, and a server whose clients have a connection to each."""

    def __init__(
        self, settings: Settings, upstream: Upstream, counters: Counters, source: ClientSource
    ) -> None:
        from ttlproxy.proxy.routed_server import RoutedServer  # large, and rarely needed

        self.link = Masters(settings, upstream, counters, lambda link: self.server.retire(link))
        self.server = RoutedServer(
            settings,
            self.link,
            counters,
            source,
            beside_clients(settings.max_clients, settings.workers),
        )

    def start(self) -> list[Task]:
        return []

    async def drop_leases(self) -> None:
        await self.link.drop_leases()

    async def close(self) -> None:
        await self.link.close()
