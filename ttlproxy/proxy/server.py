"""The server in front of one Redis."""

from __future__ import annotations

from collections.abc import Iterable

from ttlproxy.config import Settings
from ttlproxy.core.cluster_view import ClusterView
from ttlproxy.core.counters import Counters
from ttlproxy.link import Link
from ttlproxy.net.tls import for_redis
from ttlproxy.proxy.client import Client, TimedClient
from ttlproxy.proxy.client_server import ClientServer, ClientSource
from ttlproxy.proxy.redis_connection import ToRedis

__all__ = ["ClientSource", "Clients", "Server"]


class Clients(set[Client]):
    """The connected clients."""

    def leave(self) -> None:
        """Their server is not served any more: they must connect anew."""
        for client in list(self):
            client.leave()


class Server(ClientServer[Client]):
    """Accepts clients, and knows the connected ones."""

    def __init__(
        self,
        settings: Settings,
        link: Link,
        counters: Counters,
        clients: Clients,
        source: ClientSource,
    ) -> None:
        super().__init__(settings, counters, clients, source, ClusterView(settings.node_ports))
        self.link = link
        self._tls = for_redis(link.upstream)

    @property
    def _links(self) -> Iterable[Link]:
        return self.link.all

    async def connect(self, client: Client) -> ToRedis:
        """A connection to Redis for a client. Raises OSError, also for TLS and time-outs."""
        return await self._dialled(client, self.link, self._tls)

    def _client(self, source: str) -> Client:
        activity = self.slow_clients.activity()
        return Client(self, source) if activity is None else TimedClient(self, source, activity)
