"""The server in front of several masters of a Cluster."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterable
from typing import Final

from ttlproxy.commands import Router
from ttlproxy.config import Settings
from ttlproxy.core.counters import Counters
from ttlproxy.link import Link, Masters
from ttlproxy.net.tasks import run_together
from ttlproxy.proxy.client_server import ClientServer, ClientSource
from ttlproxy.proxy.redis_connection import Backend
from ttlproxy.proxy.routed.connection_limit import ConnectionLimit
from ttlproxy.proxy.routed.lane import Lane
from ttlproxy.proxy.routed.routed_client import RoutedClient
from ttlproxy.proxy.routed.routing_table import RoutingTable
from ttlproxy.proxy.sharing.shared_connection import PING

# A client's connection to a master is closed when it was not used for so long.
_IDLE_S: Final = 60.0
_LOOK_S: Final = 10.0
# The link's own connections to a master, and some that are there for a moment.
_OWN: Final = 12


class RoutedServer(ClientServer[RoutedClient]):
    """
    limit: how many connections clients may have to masters
    """

    _begins_shared = (PING,)

    def __init__(
        self,
        settings: Settings,
        masters: Masters,
        counters: Counters,
        source: ClientSource,
        files: int,
    ) -> None:
        """`files`: how many connections to masters the limit of open files allows."""
        super().__init__(settings, counters, source, masters.upstream, masters.view)
        self.masters = masters
        self.limit = ConnectionLimit(self._most_to_each, lambda: self._most_in_all(files))
        self._table = self._table_of(Router())
        self._home: Link | None = None  # whose commands these are

    @property
    def _links(self) -> Iterable[Link]:
        return self.masters.all

    def _most_to_each(self) -> int:
        most = self.settings.max_redis_connections
        return max(most // self.settings.workers, 1) if most else sys.maxsize

    def _most_in_all(self, files: int) -> int:
        return max(files - _OWN * len(self.masters.links), 1)

    def routing_table(self) -> RoutingTable:
        """The table of the commands that the masters have."""
        home = self._home
        if home is None or not home.serving.now or home.context.router is not self._table.router:
            self._home = home = self.masters.home
            if home is not None and home.context.router is not self._table.router:
                self._table = self._table_of(home.context.router)
        return self._table

    def _table_of(self, router: Router) -> RoutingTable:
        return RoutingTable(router, splits=self.settings.cluster_split == "yes")

    async def connect(self, lane: Lane) -> Backend:
        """A connection to the lane's master. Raises OSError, also for TLS and time-outs."""
        return await self._dialled(lane, lane.link)

    def retire(self, link: Link) -> None:
        """Stops serving this master."""
        for client in list(self.clients):
            client.lanes.retire(link)
        if self.pools is not None:
            self.pools.retire(link)

    async def watch(self) -> None:
        """Ends clients that do nothing or take nothing, and connections that nobody uses; tells
        clients of masters."""
        await run_together(
            slow=super().watch(), idle=self._close_idle_lanes(), masters=self._meet_masters()
        )

    async def _meet_masters(self) -> None:
        known: set[Link] = set()
        while True:
            served = {link for link in self._links if link.serving.now}
            if served - known:
                for client in list(self.clients):
                    client.meet()
            known = served
            await self.masters.change()

    async def _close_idle_lanes(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(_LOOK_S)
            for client in list(self.clients):
                client.lanes.close_idle(loop.time() - _IDLE_S)

    def _client(self, source: str) -> RoutedClient:
        return RoutedClient(self, source, self.slow_clients.activity())
