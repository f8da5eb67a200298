"""The one module that knows all others: builds, starts and drains the proxy."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from ttlproxy.addresses import Listen, Upstream
from ttlproxy.config import Settings
from ttlproxy.core.counters import Counters
from ttlproxy.core.text import counted
from ttlproxy.errors import EmbeddedError, SeveralMasters
from ttlproxy.link import Context, Link, Masters
from ttlproxy.link.reaper.reaper import Reaper
from ttlproxy.net import log_summaries
from ttlproxy.net.allocator import give_back
from ttlproxy.net.listener import Listeners
from ttlproxy.net.tasks import Task, cancel, run_together, until
from ttlproxy.operations.parked_keys import parked_keys
from ttlproxy.process.draining import finish, serve_on
from ttlproxy.process.open_files import beside_clients, make_room
from ttlproxy.process.reload import Read, Reload, Values, adopt
from ttlproxy.process.runner import Around, Signals
from ttlproxy.process.service_manager import ServiceManager
from ttlproxy.proxy import protected_mode
from ttlproxy.proxy.accept import Gate
from ttlproxy.proxy.client_table import client_table
from ttlproxy.proxy.server import ClientSource, Server
from ttlproxy.telemetry.health import Details, Health
from ttlproxy.telemetry.memory import shortage
from ttlproxy.telemetry.metric_spec import LoopHeartbeat, MetricSource
from ttlproxy.wire import IS_COMPILED

if TYPE_CHECKING:
    from ttlproxy.process.embedded import Embedded
    from ttlproxy.process.embedded_cluster import EmbeddedCluster
    from ttlproxy.telemetry.worker_totals import Subject

log = logging.getLogger(__name__)

AnyEmbedded: TypeAlias = "Embedded | EmbeddedCluster"


class OneRedis:
    """A link, a reaper, and a server whose clients each have one connection to Redis."""

    def __init__(
        self, settings: Settings, upstream: Upstream, counters: Counters, source: ClientSource
    ) -> None:
        context = Context(settings, counters)
        self.link = Link(upstream, context, lambda: self.server.leave())
        self.server = Server(settings, self.link, counters, source)
        self._reaper = Reaper(self.link)

    def start(self) -> list[Task]:
        """Starts the tasks beside the link and the server."""
        return [asyncio.create_task(self._reaper.run(), name="reaper")]

    async def drop_leases(self) -> None:
        """Gives up leases when the tasks have ended, so that other proxies can reap at once."""
        await self._reaper.drop_lease()

    async def close(self) -> None:
        """Closes what is left when all clients have gone."""
        await self.link.list_waiters.close()


class SeveralRedis:
    """A link and a reaper for each master, and a server whose clients have a connection to each."""

    def __init__(
        self, settings: Settings, upstream: Upstream, counters: Counters, source: ClientSource
    ) -> None:
        from ttlproxy.proxy.routed_server import RoutedServer  # large, and rarely needed

        self.link = Masters(settings, upstream, counters, lambda link: self.server.retire(link))
        self.server = RoutedServer(
            settings,
            self.link,
            counters,
            source,
            beside_clients(settings.max_clients, settings.workers),
        )

    def start(self) -> list[Task]:
        return []

    async def drop_leases(self) -> None:
        await self.link.drop_leases()

    async def close(self) -> None:
        await self.link.close()


class Serves(NamedTuple):
    """The facts about a proxy, once clients may connect.

    page: the address of the status page, if there is one; trouble: why Redis is not there; empty if
    it is there
    """

    listen: Listen
    upstream: Upstream
    embedded: AnyEmbedded | None = None
    page: Listen | None = None
    trouble: str = ""


Started = Callable[[Serves], None]

# Thresholds of the garbage collector. Clients leave no reference cycles, so it finds next to
# nothing. With Python's own thresholds it looked through the objects of all clients again and again
# while thousands came or left, which took more time than everything else.
_COLLECTS_AFTER: Final = (20_000, 20, 100)


async def serve(settings: Settings, started: Started, read: Read) -> int:
    """Runs the proxy until SIGTERM or SIGINT; returns the exit code.

    `started` is called when clients may connect, `read` to read the settings again. Raises
    TtlproxyError.
    """
    reload = Reload(settings, read)
    if not IS_COMPILED:
        log.info(
            "requests are read in Python, in up to twice the CPU time: ttlproxy doctor says why"
        )
    chosen = "max_clients" in settings.given
    room = make_room(settings.max_clients, settings.workers, chosen)
    settings = replace(settings, max_clients=room)
    if short := shortage(settings):
        log.warning("%s: it may be killed. Give it %s", *short)
    await _check_addresses(settings)
    with Signals.of_process() as signals:
        async with AsyncExitStack() as stack:
            found = await _unless(signals.stop, find_upstream(settings, stack))
            if found is not None:
                await _serve(settings, *found, signals, reload, started)
    log.info("stopped")
    return signals.code


async def _serve(
    settings: Settings,
    upstream: Upstream,
    embedded: AnyEmbedded | None,
    signals: Signals,
    reload: Reload,
    started: Started,
) -> None:
    manager = ServiceManager.of(os.environ)
    page: Listen | None = None

    def say(address: Listen, trouble: str) -> None:
        if nodes := settings.addresses[1:]:
            log.info("nodes of a Cluster are at %s", ", ".join(map(str, nodes)))
        started(Serves(address, upstream, embedded, page, trouble))
        manager.notify("READY=1", f"STATUS=listens on {address}, in front of {upstream.shown}")

    @asynccontextmanager
    async def shown(subject: Subject) -> AsyncIterator[None]:
        nonlocal page
        if settings.admin is None:
            yield
            return
        from ttlproxy.admin import Admin  # takes 13 MB (RSS), so it is imported only if needed

        admin = Admin(settings.admin, settings, upstream, subject, signals.stop_soon)
        page = await admin.start()
        log.info("admin pages at http://%s", page)
        try:
            yield
        finally:
            await admin.close()

    vital = [asyncio.create_task(_ended(embedded), name="embedded")] if embedded else []
    vital.append(asyncio.create_task(manager.run(signals.stop), name="service manager"))
    around = Around(signals, vital, say, shown)
    if settings.workers == 1:

        async def take(values: Values) -> None:
            adopt(settings, values)

        vital.append(asyncio.create_task(reload.run(signals.reload, take), name="reload"))
        await serve_one(settings, upstream, Gate(settings), around)
    else:
        from ttlproxy.process.workers import Workers, supervise  # few proxies have several

        settings = replace(settings, upstream=upstream)
        workers = Workers(settings)
        running = reload.run(signals.reload, workers.adopt)
        vital.append(asyncio.create_task(running, name="reload"))
        await supervise(workers, settings, around)


async def serve_one(
    settings: Settings, upstream: Upstream, source: ClientSource, around: Around[Health]
) -> None:
    """Runs the one process that serves the clients of `source`."""
    give_back()
    counters = Counters()
    try:
        try:
            core: OneRedis | SeveralRedis = OneRedis(settings, upstream, counters, source)
            await _serve_clients(settings, counters, core, around)
        except SeveralMasters as found:
            log.info("%s: each of its masters gets a link", found)
            core = SeveralRedis(settings, upstream, counters, source)
            await _serve_clients(settings, counters, core, around)
    finally:
        await cancel(*around.vital)


async def _serve_clients(
    settings: Settings, counters: Counters, core: OneRedis | SeveralRedis, around: Around[Health]
) -> None:
    server, heartbeat, signals = core.server, LoopHeartbeat(), around.signals

    async def gather() -> Details:
        clients = await client_table(server.clients)
        return {"clients": clients, "parked": parked_keys(core.link.all, settings)}

    loop = asyncio.get_running_loop()
    source = MetricSource(counters, core.link, server, heartbeat, loop, settings)
    health = Health(source, gather)
    async with around.shown(health):
        linking = asyncio.create_task(core.link.run(), name="link")
        beating = asyncio.create_task(heartbeat.run(), name="heartbeat")
        watching = asyncio.create_task(server.watch(), name="slow clients")
        own = [linking, beating, watching, *core.start()]
        vital = [*own, *around.vital]
        try:
            tried = core.link.serving.tried
            await until(run_together(link=tried.wait(), stop=signals.stop.wait()), vital)
            if signals.stop.is_set():
                return  # no client could connect yet
            address = await server.start()
            health.accepts = True
            gc.freeze()  # objects made so far stay, so the collector need not scan them
            gc.set_threshold(*_COLLECTS_AFTER)
            around.say(address, core.link.trouble)
            warned = protected_mode.warn(settings, core.link)
            await until(run_together(warn=warned, stop=signals.stop.wait()), vital)
            await until(signals.stop.wait(), vital)
            health.drains = True
            connected = counted(len(server.clients), "client is", "clients are")
            log.info("%s: %s connected", signals.ending, connected)
            await until(serve_on(settings, signals, lambda: len(server.clients)), vital)
            await until(finish(settings, server, signals), vital)
        finally:
            await cancel(*own[1:])
            await core.drop_leases()
            await cancel(linking)
            await server.close()
            log_summaries.flush_all()
        await core.close()


async def _ended(embedded: AnyEmbedded) -> None:
    code = await embedded.wait()
    raise EmbeddedError(f"the embedded server has stopped, with exit code {code}")


async def _check_addresses(settings: Settings) -> None:
    """Raises ListenError if an address cannot be bound, before an embedded server is started."""
    await Listeners(settings.addresses).check()
    if settings.admin is not None:
        await Listeners([settings.admin], flag="--admin").check()


async def find_upstream(
    settings: Settings, stack: AsyncExitStack
) -> tuple[Upstream, AnyEmbedded | None]:
    """Returns the Redis behind the proxy; an embedded one is stopped when the stack is closed."""
    if settings.upstream is not None:
        return settings.upstream, None
    from ttlproxy.process.embedded import Embedded
    from ttlproxy.process.embedded_cluster import EmbeddedCluster

    kind = EmbeddedCluster if settings.embedded == "cluster" else Embedded
    embedded = kind(settings.data_dir)
    stack.push_async_callback(embedded.stop)
    return Upstream.parse(await embedded.start()), embedded


async def _unless(
    stop: asyncio.Event, main: Coroutine[None, None, tuple[Upstream, AnyEmbedded | None]]
) -> tuple[Upstream, AnyEmbedded | None] | None:
    """Returns the result of `main`; None if `stop` is set first."""
    running = asyncio.create_task(main, name="start")
    try:
        await until(stop.wait(), [running])
    finally:
        await cancel(running)
    return None if stop.is_set() else running.result()
