"""A whole link that runs in the test's own event loop, without clients."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from redis.asyncio import Redis

from tests.link.conftest import until
from tests.support.containers import AnyServer
from tests.support.redis_client import Client
from tests.support.server_queries import connections
from ttlproxy.addresses import Upstream
from ttlproxy.cli.main import load
from ttlproxy.core.counters import Counters
from ttlproxy.link import Context, Link
from ttlproxy.net.tasks import cancel


class Running:
    """A link; changes: how often sessions had to end."""

    def __init__(self, url: str, *words: str) -> None:
        """`words`: further settings, as on the command line."""
        self.changes = 0
        self.counters = Counters()
        settings, upstream = load(["--upstream", url, *words]), Upstream.parse(url)
        self.context = Context(settings, self.counters)
        self.link = Link(upstream, self.context, self._end)
        self.task: asyncio.Task[None] | None = None
        self._until_beat = self.link.jobs.until_beat
        self._is_between = False  # two heartbeats
        self.link.jobs.until_beat = self._wait_for_beat  # type: ignore[method-assign]

    def _end(self) -> None:
        self.changes += 1

    async def beats(self, count: int = 1) -> None:
        """Ends after so many heartbeats that come at once; they are no regular ones."""
        for _ in range(count):
            await until(self._rests)
            answers = self.link.heartbeat.answers
            self.link.jobs.beat()
            await until(lambda: self.link.heartbeat.answers > answers and self._rests())  # noqa: B023

    def _rests(self) -> bool:
        """Whether no heartbeat is under way, nor wanted."""
        return self._is_between and not self.link.jobs._beats

    async def _wait_for_beat(self, pause_s: float, redis: Redis) -> None:
        self._is_between = True
        try:
            await self._until_beat(pause_s, redis)
        finally:
            self._is_between = False


@asynccontextmanager
async def running(link: Running) -> AsyncIterator[Running]:
    """Begins when clients are served; raises what ends the link."""
    link.task = asyncio.create_task(link.link.run())
    ready = asyncio.create_task(link.link.serving.ready.wait())
    try:
        await asyncio.wait({link.task, ready}, return_when=asyncio.FIRST_COMPLETED)
        if link.task.done():
            link.task.result()
        yield link
        assert not link.task.done()
    finally:
        await cancel(link.task, ready)


def ids(server: AnyServer, name: str) -> list[str]:
    """Of the server's connections with this name."""
    return [each["id"] for each in connections(server.port) if each["name"] == name]


def kill(server: AnyServer, direct: Client, name: str) -> None:
    for number in ids(server, name):
        direct.ask("CLIENT", "KILL", "ID", number)


async def turns(direct: Client) -> None:
    """Time enough for what repeats without a pause."""
    for _ in range(20):
        direct.ask("PING")
        await asyncio.sleep(0)
