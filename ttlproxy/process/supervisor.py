"""Runs the parent process of several workers, from its start to its end."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager

from ttlproxy.addresses import Listen
from ttlproxy.config import Settings
from ttlproxy.net.tasks import Task, cancel, run_together, until
from ttlproxy.process.draining import serve_on
from ttlproxy.process.signals import Signals
from ttlproxy.process.workers import Workers
from ttlproxy.telemetry.worker_totals import WorkerTotals

log = logging.getLogger(__name__)


async def supervise(
    workers: Workers,
    settings: Settings,
    others: Sequence[Task],
    say: Callable[[Listen, str], None],
    signals: Signals,
    shown: Callable[[WorkerTotals], AbstractAsyncContextManager[None]],
) -> None:
    """Runs several workers that serve one address, and drains them."""
    async with shown(workers.totals):
        running = asyncio.create_task(workers.run(), name="workers")
        beating = asyncio.create_task(workers.totals.heartbeat.run(), name="heartbeat")
        vital = [running, beating, *others]
        try:
            await until(run_together(all=workers.listen(), stop=signals.stop.wait()), vital)
            if signals.stop.is_set():
                return  # no client could connect yet
            say(workers.address, workers.totals.trouble())
            await until(signals.stop.wait(), vital)
            workers.totals.drains = True
            log.info("%s: %d workers", signals.ending, settings.workers)
            await until(serve_on(settings, signals, lambda: workers.clients), vital)
            await workers.stop()
            await until(signals.now.wait(), vital)
            if not running.done():
                workers.hurry()
                await running
        finally:
            await workers.close()
            await cancel(*vital)
