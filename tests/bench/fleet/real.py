"""A member of a fleet that is real: a link and a reaper, without clients."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from ttlproxy.addresses import Upstream
from ttlproxy.cli.main import load
from ttlproxy.core.counters import Counters
from ttlproxy.link import Context, Link
from ttlproxy.link.reaper.reaper import Reaper
from ttlproxy.net.tasks import Task, cancel, until


class Real:
    """Starts, serves and stops as a proxy does (ttlproxy.process.app)."""

    def __init__(self, url: str, words: Sequence[str]) -> None:
        """`words`: settings, as on the command line."""
        self._upstream, self._settings = Upstream.parse(url), load(["--upstream", url, *words])
        self._tasks: list[Task] = []

    @property
    def serves(self) -> bool:
        return self._link.serving.now

    @property
    def is_away(self) -> bool:
        """Whether Redis counts as away: a lost connection alone is opened again before that."""
        return bool(self._link.trouble)

    @property
    def heartbeats(self) -> int:
        return self._link.heartbeat.answers

    def start(self) -> None:
        settings, counters = self._settings, Counters()
        # New ones, which know nothing of a life before.
        self._link = Link(self._upstream, Context(settings, counters))
        self._reaper = Reaper(self._link)
        running = {"link": self._link.run(), "reaper": self._reaper.run()}
        self._tasks = [asyncio.create_task(each, name=name) for name, each in running.items()]

    async def until_serving(self) -> None:
        """Raises what has ended the link."""
        await until(self._link.serving.ready.wait(), self._tasks)

    async def stop(self) -> None:
        link, reaper = self._tasks
        await cancel(reaper)
        await self._reaper.drop_lease()
        await cancel(link)
