"""What a client in front of several masters needs of the server that has accepted it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Protocol

from ttlproxy.config import Settings
from ttlproxy.core.cluster_view import Reached
from ttlproxy.core.counters import Counters
from ttlproxy.link import Masters
from ttlproxy.proxy.departures import Departures
from ttlproxy.proxy.redis_connection import Backend
from ttlproxy.proxy.routed.connection_limit import ConnectionLimit
from ttlproxy.proxy.routed.lane import Lane
from ttlproxy.proxy.routed.master_pools import MasterPools
from ttlproxy.proxy.routed.ways import Ways
from ttlproxy.proxy.slow_clients import SlowClients
from ttlproxy.proxy.write_batch import WriteBatch

if TYPE_CHECKING:
    from ttlproxy.proxy.routed.routed_client import RoutedClient


class Host(Protocol):
    """The server that has accepted a client.

    draining: clients must end as soon as nothing is half done
    limit: how many connections clients may have; pools: those that they share, if they may
    """

    settings: Settings
    masters: Masters
    counters: Counters
    write_batch: WriteBatch
    departures: Departures
    clients: set[RoutedClient]
    slow_clients: SlowClients
    draining: bool
    limit: ConnectionLimit
    pools: MasterPools | None

    async def connect(self, lane: Lane) -> Backend:
        """A connection to the lane's master. Raises OSError, also for TLS and time-outs."""

    def ways(self) -> Ways:
        """The ways of the commands that the masters have."""

    def reached(self, transport: asyncio.BaseTransport) -> Reached | None:
        """Where a client has connected; None for a unix socket that is not announced."""

    def forget(self, client: RoutedClient) -> None:
        """The client has gone."""
