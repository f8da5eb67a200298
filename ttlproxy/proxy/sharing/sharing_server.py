"""The server in front of one Redis whose clients share connections to it."""

from __future__ import annotations

from functools import cached_property

from ttlproxy.proxy.client import Client
from ttlproxy.proxy.redis_connection import Backend, ToRedis
from ttlproxy.proxy.server import Server
from ttlproxy.proxy.sharing.pool import Pool, Pools
from ttlproxy.proxy.sharing.seat import Seat
from ttlproxy.proxy.sharing.shared_connection import SharedConnection
from ttlproxy.proxy.sharing.sharing_client import SharingClient, TimedSharingClient
from ttlproxy.session.sharing import ConnectionState


class SharingServer(Server):
    """Its clients begin on a shared connection; those that must log in share one afterwards."""

    @cached_property
    def _pools(self) -> Pools:
        return Pools(
            lambda state: Pool(self.settings.share_upstream, self._term, self._shared, state)
        )

    async def connect(self, client: Client) -> ToRedis:
        """A seat, or a connection. Raises OSError, also for TLS and time-outs."""
        if not isinstance(client, SharingClient):
            return await self.connect_alone(client)
        rights = self.link.context.rights
        is_known = rights.asks_login or await self.link.recent_users.known()
        if rights.asks_login:
            return await self.connect_alone(client)
        if not is_known:
            client.keeps_its_own()
            return await self.connect_alone(client)
        client.seat = await self.seat(client, ConnectionState())
        return client.seat

    async def seat(self, client: SharingClient, state: ConnectionState) -> Seat:
        """A place on a connection in this state. Raises OSError, also if Redis refuses now what
        brings it there, such as a login."""
        self.link.address.look()
        pool = await self._pools.of(state)
        if pool is None:
            raise ConnectionError("connections are shared in too many different states")
        seat = Seat(client, pool.least_used(), pool.least_used, self.departures)
        await seat.opened(pool.an_open_one, "a shared connection to Redis has ended")
        return seat

    async def connect_alone(self, client: Client) -> Backend:
        return await self._dialled(client, self.link, self._tls)

    def buffered_bytes(self) -> dict[str, float]:
        buffered = super().buffered_bytes()
        return {**buffered, "redis": buffered["redis"] + self._pools.unsent}

    async def close(self) -> None:
        await super().close()
        await self._pools.close()

    def _client(self, source: str) -> Client:
        activity = self.slow_clients.activity()
        if activity is None:
            return SharingClient(self, source)
        return TimedSharingClient(self, source, activity)

    def _term(self) -> int:
        return self.link.server.term

    def _shared(self, pool: Pool) -> SharedConnection:
        """Begins one more shared connection."""
        requests = pool.state.requests
        return self._begin_shared(self.link, self._tls, pool.forget, self._term, requests)
