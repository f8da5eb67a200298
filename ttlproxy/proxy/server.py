"""The server in front of one Redis."""

from __future__ import annotations

from collections.abc import Iterable

from ttlproxy.config import Settings
from ttlproxy.core.cluster_view import ClusterView
from ttlproxy.core.counters import Counters
from ttlproxy.link import Link
from ttlproxy.proxy.client import Client
from ttlproxy.proxy.client_server import ClientServer, ClientSource
from ttlproxy.proxy.redis_connection import Backend, ToRedis
from ttlproxy.proxy.sharing.shared_upstream import ClientUpstream
from ttlproxy.proxy.sharing.sharing_client import SharingClient
from ttlproxy.session.sharing import ConnectionState

__all__ = ["ClientSource", "Server"]


class Server(ClientServer[Client]):
    """Clients that share connections begin on a shared one, or share one after a login."""

    def __init__(
        self, settings: Settings, link: Link, counters: Counters, source: ClientSource
    ) -> None:
        view = ClusterView(settings.node_ports)
        super().__init__(settings, counters, source, link.upstream, view)
        self.link = link

    @property
    def _links(self) -> Iterable[Link]:
        return self.link.all

    def leave(self) -> None:
        """The server behind is not served any more: clients must connect anew."""
        for client in list(self.clients):
            client.leave()

    async def connect(self, client: Client) -> ToRedis:
        """A connection to Redis for a client. Raises OSError, also for TLS and time-outs."""
        if isinstance(client, SharingClient):
            rights = self.link.context.rights
            is_known = rights.asks_login or await self.link.recent_users.known()
            if is_known and not rights.asks_login:
                client.shared = await self.share(client, ConnectionState())
                return client.shared
            if not rights.asks_login:
                client.keeps_its_own()
        return await self.connect_alone(client)

    async def connect_alone(self, client: Client) -> Backend:
        """A connection of its own. Raises as `connect` does."""
        return await self._dialled(client, self.link)

    async def share(self, client: SharingClient, state: ConnectionState) -> ClientUpstream:
        """A place on a shared connection in this state. Raises OSError, also if Redis refuses now
        what brings it there, such as a login."""
        self.link.address.probe_soon()
        assert self.pools is not None
        pool = await self.pools.of(self.link, state)
        if pool is None:
            raise ConnectionError("connections are shared in too many different states")
        shared = ClientUpstream(client, pool, self.staggered, self.round_trips)
        await shared.opened()
        return shared

    def _client(self, source: str) -> Client:
        kind = Client if self.pools is None else SharingClient
        return kind(self, source, self.slow_clients.activity())
