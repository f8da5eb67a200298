"""Accepts clients, knows the connected ones, and lets them finish: in front of any Redis."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Generic, Protocol, TypeVar

from ttlproxy.addresses import Address, Listen, Upstream
from ttlproxy.config import Settings
from ttlproxy.core.cluster_view import ClusterView, Reached
from ttlproxy.core.counters import Counters
from ttlproxy.link import Link
from ttlproxy.net.sockets import counted_dial
from ttlproxy.net.tasks import time_limit
from ttlproxy.net.tls import establish, for_redis
from ttlproxy.proxy.client_limit import ClientProtocol, ProtocolFactory
from ttlproxy.proxy.redis_connection import Backend, Frontend
from ttlproxy.proxy.round_trips import RoundTrips
from ttlproxy.proxy.sharing.pool import Pool, Pools
from ttlproxy.proxy.sharing.shared_connection import SharedConnection
from ttlproxy.proxy.slow_clients import SlowClients, Watched
from ttlproxy.proxy.staggered_closes import StaggeredCloses
from ttlproxy.proxy.write_batch import WriteBatch


class ClientSource(Protocol):
    """The source of clients: a listening socket, or a process that passes connections on."""

    async def start(self, protocol: ClientProtocol, /) -> Listen:
        """Gives each connection from now on its protocol; returns the address that clients use.

        Raises OSError.
        """

    def stop(self) -> None:
        """Accepts no more connections."""

    def ended(self) -> None:
        """A connection that it accepted has ended."""


class Connected(Watched, Protocol):
    """A connected client."""

    def end_at_boundary(self) -> None:
        """Ends as soon as nothing is half done, after the replies that are owed."""

    @property
    def unfinished(self) -> str:
        """The reason why it cannot end yet, in words for the log."""


AnyClient = TypeVar("AnyClient", bound=Connected)


class ClientServer(ABC, Generic[AnyClient]):
    """
    clients: the connected ones
    draining: they must end as soon as nothing is half done
    pools: the connections to Redis that they share, if they may
    """

    _begins_shared: Sequence[bytes] = ()  # what a shared connection without a state begins with

    def __init__(
        self,
        settings: Settings,
        counters: Counters,
        source: ClientSource,
        upstream: Upstream,
        view: ClusterView,
    ) -> None:
        """`view`: the nodes that clients find, in front of a Cluster."""
        self.settings = settings
        self.counters = counters
        self.write_batch = WriteBatch()
        self.staggered = StaggeredCloses()
        self.clients = set[AnyClient]()
        self.slow_clients = SlowClients(settings, self.clients)
        self.round_trips = RoundTrips(counters, self._script_names)
        self.draining = False
        most = settings.share_upstream
        self.pools = Pools(most, self._begin_shared) if most else None
        self._tls = for_redis(upstream)
        self._source = source
        self._view = view
        self._gone = asyncio.Event()
        self._factory = ProtocolFactory(settings, counters, self._client, source.ended)

    @abstractmethod
    def _client(self, source: str) -> asyncio.Protocol:
        """A new client; `source`: the address in its PROXY header."""

    @property
    @abstractmethod
    def _links(self) -> Iterable[Link]:
        """The links to all servers."""

    def _script_names(self) -> dict[bytes, str]:
        """SHA -> name of the scripts of all servers."""
        scripts = (script for link in self._links for script in link.context.scripts.all())
        return {script.sha: script.name for script in scripts}

    async def start(self) -> Listen:
        """Starts to accept clients; returns the address. Raises ListenError."""
        return await self._source.start(self._factory.protocol)

    async def watch(self) -> None:
        """Ends clients that do nothing or take nothing, until cancelled."""
        await self.slow_clients.run()

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
        if self.pools is not None:
            await self.pools.close()

    def buffered_bytes(self) -> dict[str, float]:
        """Bytes kept for clients that do not keep up, or whose Redis does not: see SlowClients."""
        buffered = self.slow_clients.buffered
        unsent = self.pools.unsent if self.pools is not None else 0
        return {**buffered, "redis": buffered["redis"] + unsent}

    def certificates_expire_s(self) -> dict[str, float]:
        """The Unix time at which each certificate in use ends, by its name in CERTIFICATES."""
        found = dict[str, float]()
        for side, tls in (("listener", self._factory.tls), ("upstream", self._tls)):
            for name, end_s in (tls.expires_s if tls is not None else {}).items():
                found[f"{side}_{name}"] = end_s
        return found

    async def _all_gone(self) -> None:
        while self.clients:
            self._gone.clear()
            await self._gone.wait()

    def forget(self, client: AnyClient) -> None:
        """The client has gone."""
        self.clients.discard(client)
        self.slow_clients.forget(client)
        self.counters.clients = len(self.clients)
        self._source.ended()
        self._gone.set()

    def reached(self, transport: asyncio.BaseTransport) -> Reached | None:
        """The address of a Cluster's client here; None for a unix socket that is not announced."""
        at, announced = transport.get_extra_info("sockname"), self.settings.cluster_announce
        has_port = isinstance(at, tuple)
        number = at[1] - self.settings.listen.port if has_port and self._view.ports else 0
        if not 0 <= number <= self._view.ports:
            number = 0
        if announced is not None:
            return Reached(self._view, Address(announced.host, announced.port), number)
        return Reached(self._view, Address(at[0], at[1] - number), number) if has_port else None

    async def _dialled(self, frontend: Frontend, link: Link) -> Backend:
        """A connection to the link's server. Raises OSError, also for TLS and time-outs."""
        backend = Backend(
            frontend,
            self.write_batch,
            self.staggered,
            self.round_trips,
            self.counters.to_redis,
            link.context.connections,
            self.settings.tcp_keepalive,
        )
        await self._dial(lambda: backend, link)
        backend.count()
        return backend

    def _begin_shared(self, link: Link, pool: Pool) -> SharedConnection:
        """Begins a connection to the link's server that several clients share."""

        async def dial(connection: SharedConnection) -> None:
            await self._dial(lambda: connection, link)

        return SharedConnection(
            dial,
            pool.forget,
            pool.term,
            self.counters,
            link.context.connections,
            self.settings.tcp_keepalive,
            pool.state.requests or self._begins_shared,
        )

    async def _dial(self, protocol: Callable[[], asyncio.Protocol], link: Link) -> None:
        """Connects to the link's server. Raises OSError, also for TLS and time-outs."""
        loop, upstream = asyncio.get_running_loop(), link.upstream
        link.address.probe_soon()
        with counted_dial(self.counters.dials):
            async with time_limit(self.settings.connect_timeout):
                if upstream.path:
                    await loop.create_unix_connection(protocol, upstream.path)
                elif self._tls is None:
                    await loop.create_connection(protocol, upstream.host, upstream.port)
                else:
                    host, port, name = upstream.host, upstream.port, upstream.server_name
                    await establish(self._tls.current(), protocol(), host, port, name)
