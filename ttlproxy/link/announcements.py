"""Keeps a push connection open, and passes on what it announces."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from redis.asyncio import Redis
from redis.exceptions import RedisError

from ttlproxy.config import Settings
from ttlproxy.errors import UpstreamError
from ttlproxy.link.address_watch import AddressWatch
from ttlproxy.link.backoff import Backoff
from ttlproxy.link.confirmations import Confirmations
from ttlproxy.link.connections import close
from ttlproxy.link.context import Context
from ttlproxy.link.pipeline import run
from ttlproxy.link.pushes import Pushes, announcing
from ttlproxy.link.server_clock import ServerClock
from ttlproxy.link.serving import Serving
from ttlproxy.link.shared_state import SharedState
from ttlproxy.link.walks import Walks
from ttlproxy.net.tasks import cancel

log = logging.getLogger(__name__)

# It may be lost, or fail to open, so often in a row before its server counts as away.
_MOST_LOSSES = 3
# For a connection that is lost again and again while the server is there.
_AGAIN = Backoff(cap=0.25, base=0.005)
# A connection that was shorter counts as a failure.
_HEALTHY_MS = 1000
# How long serving waits until other proxies are greeted: a write, which may be paused.
_GREETING_S = 0.1


class Announcements:
    """While there is no push connection, announcements are missed, and nobody is served.

    connection: the present one
    swaps: how often two databases have changed places; flushes: how often keys may have gone
    greetings: how many other proxies have said hello
    """

    def __init__(
        self,
        settings: Settings,
        address: AddressWatch,
        context: Context,
        serving: Serving,
        confirmations: Confirmations,
        shared_state: SharedState,
        walks: Walks,
        connect: Callable[[str], Redis],
    ) -> None:
        """`connect(name)` gives a new connection with this name."""
        self.connection: Pushes | None = None
        self.swaps = 0
        self.flushes = 0
        self.greetings = 0
        self._settings = settings
        self._address = address
        self._context = context
        self._serving = serving
        self._confirmations = confirmations
        self._shared_state = shared_state
        self._walks = walks
        self._connect = connect

    def receive(self) -> None:
        """Takes what Redis has announced so far, without waiting."""
        if self.connection is not None:
            self.connection.receive()

    async def run(self) -> None:
        """Opens a push connection, and a new one after each loss. Raises UpstreamError or OSError
        after several losses in a row."""
        failures = 0
        while True:
            began = ServerClock.reading()
            try:
                await self._hear()
            except TimeoutError:  # Redis is silent: the link finds out more
                log.debug("the push connection is not open yet: Redis does not answer")
            except (UpstreamError, OSError):
                if failures >= _MOST_LOSSES:
                    raise  # it is not just this connection
            failures = 0 if ServerClock.reading() - began > _HEALTHY_MS else failures + 1
            if failures > 1:
                await asyncio.sleep(_AGAIN.compute(failures - 1))

    async def _hear(self) -> None:
        """Opens a push connection; ends when that is lost."""
        lost, settings = asyncio.Event(), self._settings

        def on_loss() -> None:
            self._serving.stop()  # from here on announcements are missed
            lost.set()

        pushes = Pushes(
            self._context.keys,
            self._context.announced,
            self._swapped,
            self._context.actions.changed,
            self._flushed,
            self._greeted,
            self._walks.heard,
            on_loss,
        )
        greeting: list[asyncio.Task[None]] = []
        try:
            await pushes.open(self._address.now, settings.connect_timeout, settings.tcp_keepalive)
            greeting.append(asyncio.create_task(self._greet(), name="greeting"))
            await asyncio.wait(greeting, timeout=_GREETING_S)
            self.connection = pushes
            self._confirmations.beat()  # this reads the registry, and lets clients be served
            await lost.wait()
        finally:
            self._serving.stop()
            self.connection = None
            pushes.close()
            await cancel(*greeting)

    async def _greet(self) -> None:
        """Tells other proxies that there is one more.

        If the server refuses the write, they still notice: they count the clients that track keys.
        """
        redis = self._connect("ttlproxy:hello")
        try:
            await run(redis, [(0, words) for words in announcing(self._context.keys.hello)])
        except (RedisError, OSError) as trouble:
            log.debug("cannot announce this proxy to the others: %s", trouble)
        finally:
            await close(redis)

    def _greeted(self) -> None:
        """Another proxy is about to serve."""
        self.greetings += 1
        self._context.registry.others(True)

    def _swapped(self, one: int, other: int) -> None:
        """Two databases were swapped: until they are read anew, each has the keys of both."""
        self._context.registry.swapped(one, other)
        self._context.actions.forget(one, other)
        self.swaps += 1
        self._confirmations.first(self._shared_state.keep)

    def _flushed(self) -> None:
        """Any key may be gone, or be another one: a replica that takes another master's data says
        the same. Until all is read anew, entries too many only cost reaps."""
        if self._context.has_rules:
            self._context.actions.forget_all()
        self.flushes += 1
        self._confirmations.first(self._shared_state.keep)
