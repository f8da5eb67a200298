"""The one place that knows all others: build, start, supervise, drain."""

from __future__ import annotations

import asyncio
import gc
import logging
import signal
from collections.abc import Callable, Coroutine, Sequence
from contextlib import AsyncExitStack

from ttlproxy.config import Settings, Upstream
from ttlproxy.embedded import Embedded
from ttlproxy.errors import EmbeddedError
from ttlproxy.link import Link
from ttlproxy.metrics import Metrics
from ttlproxy.purge import purged
from ttlproxy.reaper import Reaper
from ttlproxy.server import Server
from ttlproxy.tasks import Task, cancel, until_first

log = logging.getLogger(__name__)

Started = Callable[[str, str, Embedded | None], None]


async def serve(settings: Settings, started: Started) -> int:
    """Runs the proxy until SIGTERM or SIGINT; gives the exit code.

    `started(address, upstream, embedded server)` is called once clients may come. Raises
    TtlproxyError, and OSError where the address cannot be had.
    """
    stop, now = _signals()
    async with AsyncExitStack() as stack:
        upstream, embedded = await _upstream(settings, stack)
        metrics = Metrics()
        link = Link(settings, upstream, metrics)
        reaper = Reaper(settings, link, metrics)
        server = Server(settings, link, metrics, reaper.sweep)
        linking = asyncio.create_task(link.run(), name="link")
        reaping = asyncio.create_task(reaper.run(), name="reaper")
        vital = [linking, reaping]
        if embedded:
            vital.append(asyncio.create_task(_ended(embedded), name="embedded server"))
        try:
            await _until(link.tried.wait(), vital)
            address = await server.start()
            gc.freeze()  # what is there now stays: the collector need not look at it again
            started(str(address), upstream.shown, embedded)
            await _until(stop.wait(), vital)
            log.info("stopping: %d clients are connected", len(server.clients))
            await _until(_drain(server, settings.drain_max, now), vital)
        finally:
            await cancel(*vital[1:])
            await reaper.drop_lease()
            await cancel(linking)
            await server.close()
    return 0


async def purge(settings: Settings, force: bool, say: Callable[[str], None]) -> int:
    """Removes all that is internal from the upstream; gives the exit code. Raises TtlproxyError."""
    async with AsyncExitStack() as stack:
        upstream, _ = await _upstream(settings, stack)
        await purged(settings, upstream, force, say)
    return 0


async def _drain(server: Server, limit_s: float, now: asyncio.Event) -> None:
    """Lets what is in flight finish, up to the limit, or until `now` is set."""
    draining = asyncio.create_task(server.drain(limit_s), name="drain")
    await _until(now.wait(), [draining])
    if draining.done() and draining.result():
        log.warning("%d clients are cut off: the drain's limit is over", draining.result())
    await cancel(draining)


async def _ended(embedded: Embedded) -> None:
    code = await embedded.wait()
    raise EmbeddedError(f"the embedded server has ended by itself, with {code}")


async def _upstream(settings: Settings, stack: AsyncExitStack) -> tuple[Upstream, Embedded | None]:
    """The Redis to stand before; an embedded one is ended with the stack."""
    if settings.upstream is not None:
        return settings.upstream, None
    embedded = Embedded(settings.data_dir)
    stack.push_async_callback(embedded.stop)
    return Upstream.parse(await embedded.start()), embedded


def _signals() -> tuple[asyncio.Event, asyncio.Event]:
    """Set at the first SIGTERM or SIGINT, and at the second."""
    stop, now = asyncio.Event(), asyncio.Event()

    def on_signal() -> None:
        (now if stop.is_set() else stop).set()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, on_signal)
    return stop, now


async def _until(event: Coroutine[None, None, object], others: Sequence[Task]) -> None:
    """Until the event, or until one of the other tasks ends; raises what that raised."""
    waiting = asyncio.create_task(event)
    try:
        await until_first(waiting, *others)
    finally:
        await cancel(waiting)
