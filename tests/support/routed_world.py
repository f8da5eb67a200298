"""A client in front of several masters, without sockets: what reaches each, and what comes back."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from random import Random
from types import SimpleNamespace
from typing import Any

from tests.support.session_world import NATIVES, NOW_MS, SCRIPTS, read_registry
from ttlproxy.commands import Router
from ttlproxy.config import Settings
from ttlproxy.core.counters import Counters
from ttlproxy.core.keys import SLOTS, Keys
from ttlproxy.core.permissions import Rights
from ttlproxy.link.connecting.known_server import Serving
from ttlproxy.proxy.reply_queue import ReplyQueue
from ttlproxy.proxy.round_trips import RoundTrips
from ttlproxy.proxy.routed.connection_limit import ConnectionLimit
from ttlproxy.proxy.routed.lane import Lane
from ttlproxy.proxy.routed.routed_client import RoutedClient
from ttlproxy.proxy.routed.routing_table import RoutingTable
from ttlproxy.proxy.staggered_closes import StaggeredCloses
from ttlproxy.proxy.write_batch import WriteBatch
from ttlproxy.scripts.script_calls import ScriptCalls
from ttlproxy.wire import Requests
from ttlproxy.wire.reply_ends import ReplyEnds

ROUTER = Router(NATIVES)
_SETTINGS = Settings()


class FarEnd:
    """A transport and a connection to Redis: keeps what is written."""

    most_at_once = 1 << 18

    def __init__(self) -> None:
        self.written = b""
        self.is_closed = self.is_paused = False
        self.unsent = 0
        self.replies = ReplyQueue(self.write)

    def write(self, data: bytes) -> None:
        self.written += data

    def send(self, data: bytes, count: int) -> None:
        self.replies.sent += count
        self.written += data

    def taken(self) -> bytes:
        """What was written since the last call."""
        data, self.written = self.written, b""
        return data

    async def gets(self) -> bytes:
        """Its next bytes, when they are there."""
        while not self.written:  # noqa: ASYNC110 - it has no event for that
            await asyncio.sleep(0.001)
        return self.taken()

    def pause(self, is_paused: bool) -> None:
        self.is_paused = is_paused

    def close(self) -> None:
        self.is_closed = True

    abort = cut = write_eof = close

    def is_closing(self) -> bool:
        return self.is_closed

    def get_write_buffer_size(self) -> int:
        return 0

    def get_extra_info(self, name: str) -> None:
        return None

    def set_write_buffer_limits(self, high: int, low: int) -> None:
        pass

    def pause_reading(self) -> None:
        self.is_paused = True

    def resume_reading(self) -> None:
        self.is_paused = False


def _link() -> Any:
    keys = Keys()
    keys.clustered = True
    registry = read_registry()
    context = SimpleNamespace(
        router=ROUTER,
        script_calls=ScriptCalls(SCRIPTS, keys, bytes),
        registry=registry,
        actions=SimpleNamespace(rules=registry.rules),
        rights=Rights(),
        clock=SimpleNamespace(now_ms=lambda: NOW_MS),
        keys=keys,
        sweep_later=list,
        connections=SimpleNamespace(open=0, waiting=0),
        node_counts=SimpleNamespace(connection_waits=0),
    )
    context.registry.expecting = False
    return _Link(
        context=context,
        serving=_serving(),
        server=SimpleNamespace(term=1),
        announcements=SimpleNamespace(receive=lambda: None),
    )


def _serving() -> Serving:
    serving = Serving()
    serving.start()
    return serving


class _Link(SimpleNamespace):
    __hash__ = object.__hash__  # type: ignore[assignment]


class RoutedWorld:
    """
    links: those of the masters, which have a part of the slots each
    to_client: what the client gets; backends: the connections to the masters, once they are there
    staggered: the ends of clients that are left for later turns of the event loop
    """

    def __init__(self, masters: int, *, are_counted: bool) -> None:
        """Within a running event loop. `are_counted`: it is told where replies end, as by a
        connection that clients share."""
        counters = Counters()
        self._ends = [ReplyEnds() for _ in range(masters)] if are_counted else []
        self.links = [_link() for _ in range(masters)]
        owners = [self.links[number * masters // SLOTS] for number in range(SLOTS)]
        self.masters: Any = SimpleNamespace(
            owners=owners,
            changes=0,
            serving=_serving(),
            home=self.links[0],
            home_at=lambda port: self.links[0],
            is_at=lambda link, port: link is self.links[0],
            links=dict(enumerate(self.links)),
            trouble="",
            look=lambda: None,
        )
        self.backends: dict[Any, FarEnd] = {}
        self._table = RoutingTable(ROUTER)
        host: Any = SimpleNamespace(
            settings=_SETTINGS,
            masters=self.masters,
            counters=counters,
            write_batch=WriteBatch(),
            staggered=StaggeredCloses(),
            clients=set(),
            slow_clients=SimpleNamespace(keeps=lambda client: None),
            draining=False,
            limit=ConnectionLimit(lambda: 9, lambda: 99),
            pools=None,
            round_trips=RoundTrips(counters, dict),
            reached=lambda transport: None,
            connect=self._connect,
            routing_table=lambda: self._table,
            forget=lambda client: None,
        )
        self.batch = host.write_batch
        self.staggered = host.staggered
        transport: Any = FarEnd()
        self.to_client: FarEnd = transport
        self.client = RoutedClient(host, "", None)
        self.client.connection_made(transport)

    async def _connect(self, lane: Lane) -> Any:
        self.backends[lane.link] = backend = FarEnd()
        backend.replies = lane.replies
        return backend

    @classmethod
    async def opened(cls, masters: int = 3, *, are_counted: bool = False) -> RoutedWorld:
        """Returns when the client is connected to each master."""
        world = cls(masters, are_counted=are_counted)
        while world.client.unfinished:
            assert not world.to_client.is_closed, "it has ended"
            await asyncio.sleep(0)
        for link in world.links:
            await world.client.lanes.to(link).opened()
        await asyncio.sleep(0)
        return world

    async def client_closed(self) -> None:
        """Ends when nothing more comes to the client."""
        while not self.to_client.is_closed:  # noqa: ASYNC110 - it has no event for that
            await asyncio.sleep(0)

    def say(self, data: bytes) -> list[bytes]:
        """What each master gets of these bytes of the client."""
        self.client.data_received(data)
        return [self.backends[link].taken() for link in self.links]

    def answer(self, master: int, data: bytes) -> None:
        """A master sends this."""
        lane = self.client.lanes.to(self.links[master])
        if self._ends:
            lane.write(data, self._ends[master].feed(data))
        else:
            lane.write(data)

    def heard(self) -> bytes:
        """What the client has got since the last call."""
        self.batch.flush()
        return self.to_client.taken()

    def close(self) -> None:
        self.client.connection_lost(None)


class Master:
    """What a master has got, and what it has still to send."""

    def __init__(self, reply: Callable[[list[bytes]], bytes]) -> None:
        """`reply(words)`: what it sends for a request."""
        self.got: list[list[bytes]] = []
        self.unsent = b""
        self._reply = reply
        self._requests = Requests()

    def take(self, data: bytes) -> None:
        for words in self._requests.feed(data):
            self.got.append(words)
            self.unsent += self._reply(words)

    def sends(self, random: Random) -> bytes:
        """The next bytes: all, or a part."""
        size = random.choice([len(self.unsent), random.randint(0, len(self.unsent))])
        data, self.unsent = self.unsent[:size], self.unsent[size:]
        return data
