"""Accepts clients, knows the connected ones, and lets them finish."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import suppress
from typing import Protocol

from ttlproxy.addresses import Listen
from ttlproxy.config import Settings
from ttlproxy.core.counters import Counters
from ttlproxy.link import Link
from ttlproxy.net.time_limit import time_limit
from ttlproxy.net.tls import establish, for_redis
from ttlproxy.proxy.client import Client, TimedClient
from ttlproxy.proxy.client_limit import ClientProtocol, ProtocolFactory
from ttlproxy.proxy.redis_connection import Backend
from ttlproxy.proxy.slow_clients import SlowClients
from ttlproxy.proxy.write_batch import WriteBatch


class Clients(set[Client]):
    """The connected clients."""

    def leave(self) -> None:
        """Their server is not served any more: they must connect anew."""
        for client in list(self):
            client.leave()


class ClientSource(Protocol):
    """The source of clients: a listening socket, or a process that passes connections on."""

    async def start(self, protocol: ClientProtocol, /) -> Listen:
        """Each connection from now on gets its protocol; returns the address that clients use.

        Raises OSError.
        """

    def stop(self) -> None:
        """Accepts no more connections."""

    def ended(self) -> None:
        """A connection that it accepted has ended."""


class Server:
    """Accepts clients, and knows the connected ones."""

    def __init__(
        self,
        settings: Settings,
        link: Link,
        counters: Counters,
        clients: Clients,
        source: ClientSource,
    ) -> None:
        self.settings = settings
        self.link = link
        self.counters = counters
        self._tls = for_redis(link.upstream)
        self.write_batch = WriteBatch()
        self.clients: set[Client] = clients
        self.slow_clients = SlowClients(settings, self.clients)
        self.draining = False
        self._source = source
        self._gone = asyncio.Event()
        self._factory = ProtocolFactory(settings, counters, self._client, source.ended)

    async def start(self) -> Listen:
        """Starts to accept clients; returns the address. Raises OSError."""
        return await self._source.start(self._factory.protocol)

    async def drain(self, limit_s: float) -> None:
        """Accepts nobody, and lets what is in flight finish, for at most `limit_s`."""
        self._source.stop()
        self.draining = True  # also for clients that have no connection to Redis yet
        for client in list(self.clients):
            client.end_at_boundary()
        with suppress(TimeoutError):
            async with asyncio.timeout(limit_s):
                await self._all_gone()

    def unfinished(self) -> Counter[str]:
        """The reasons why the remaining clients have not ended, in words for the log."""
        return Counter(client.unfinished for client in self.clients)

    async def close(self) -> None:
        """Ends the remaining clients at once."""
        self._source.stop()
        for client in list(self.clients):
            client.abort("cut_off")
        await self._all_gone()

    async def _all_gone(self) -> None:
        while self.clients:
            self._gone.clear()
            await self._gone.wait()

    async def connect(self, client: Client) -> Backend:
        """A connection to Redis for a client. Raises OSError, also for TLS and time-outs."""
        loop, upstream = asyncio.get_running_loop(), self.link.upstream
        self.link.address.look()
        backend = Backend(
            client, self.write_batch, self.counters.to_redis, self.settings.tcp_keepalive
        )
        async with time_limit(self.settings.connect_timeout):
            if upstream.path:
                await loop.create_unix_connection(backend.protocol, upstream.path)
                return backend
            host, port = upstream.host, upstream.port
            if self._tls is None:
                await loop.create_connection(backend.protocol, host, port)
            else:
                context, name = self._tls.current(), upstream.server_name
                await establish(context, backend.protocol(), host, port, name)
        return backend

    def forget(self, client: Client) -> None:
        self.clients.discard(client)
        self.slow_clients.forget(client)
        self.counters.clients = len(self.clients)
        self._source.ended()
        self._gone.set()

    def _client(self, source: str) -> Client:
        activity = self.slow_clients.activity()
        return Client(self, source) if activity is None else TimedClient(self, source, activity)
