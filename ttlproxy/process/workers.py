"""Processes that serve one address: this one listens, and gives each client to the least busy
worker.

That spreads a few long-lived connections evenly, which SO_REUSEPORT does not. Workers share
nothing: to Redis and to each other they are independent proxies.
"""

from __future__ import annotations

import asyncio
import logging
import pickle
import signal
import socket
from contextlib import suppress
from functools import partial
from random import uniform
from typing import Final

from ttlproxy.config import Settings
from ttlproxy.errors import WorkerError
from ttlproxy.net.listener import Listeners
from ttlproxy.net.tasks import cancel, run_together, until
from ttlproxy.process.draining import serve_on
from ttlproxy.process.fd_channel import FdSender, channel
from ttlproxy.process.reload import Values, adopt
from ttlproxy.process.runner import Around
from ttlproxy.process.worker import Worker
from ttlproxy.proxy import routed_server  # noqa: F401 - before workers are forked, which may need it
from ttlproxy.proxy.client_limit import ClientLimit, refusal
from ttlproxy.telemetry.worker_totals import WorkerTotals

log = logging.getLogger(__name__)

# Seconds until a worker that has ended by itself is replaced.
_PAUSE_S: Final = (0.5, 1.5)


class Workers:
    """The processes that serve, and the listening sockets.

    address: where clients connect, with the real port once `listen` is done
    totals: the workers' metrics and health
    """

    def __init__(self, settings: Settings) -> None:
        """`settings`: those of each worker."""
        self._settings = settings
        self.address = settings.listen
        self.totals = WorkerTotals()
        self._listeners = Listeners(
            settings.addresses, settings.unix_socket_perm, settings.tcp_keepalive
        )
        self._limit = ClientLimit(settings.max_clients)
        self._senders: dict[Worker, FdSender] = {}
        self._stops = False
        self._one_more_serves = asyncio.Condition()

    @property
    def clients(self) -> int:
        """The number of clients that are connected."""
        return sum(sender.clients for sender in self._senders.values())

    async def run(self) -> None:
        """Keeps the workers running until they are stopped.

        Raises WorkerError if one ends before it serves, unless clients are accepted already.
        """
        loop = asyncio.get_running_loop()
        self.totals.on_look = partial(loop.call_soon_threadsafe, self._look)
        keeping = [asyncio.create_task(self._keep()) for _ in range(self._settings.workers)]
        try:
            done, _ = await asyncio.wait(keeping, return_when=asyncio.FIRST_EXCEPTION)
            for task in done:
                task.result()
        finally:
            await cancel(*keeping)

    async def listen(self) -> None:
        """Waits until all workers serve, then accepts clients. Raises ListenError."""
        await self._until_serving(self._settings.workers)
        self.address = await self._listeners.hand_over(self._give)
        self.totals.accepts = True

    async def adopt(self, values: Values) -> None:
        """Changes settings, here and in each worker."""
        adopt(self._settings, values)
        for sender in list(self._senders.values()):
            while not (sender.send_settings(pickle.dumps(values)) or sender.closed.is_set()):
                await sender.room()

    async def stop(self) -> None:
        """Accepts no more clients; has each worker finish what is in flight, and then end."""
        self._stops = True
        self._listeners.stop()
        for sender in self._senders.values():
            sender.finish()

    def hurry(self) -> None:
        """Tells each worker to end at once."""
        self._signal(signal.SIGINT)

    async def close(self) -> None:
        """Kills the workers that are left."""
        self._stops = True
        self._listeners.stop()
        self._signal(signal.SIGKILL)
        for worker in list(self._senders):
            await worker.wait()

    def _look(self) -> None:
        for sender in self._serving():
            sender.look()

    def _signal(self, number: signal.Signals) -> None:
        for worker in self._senders:
            worker.signal(number)

    async def _keep(self) -> None:
        while not self._stops:
            worker, sender = self._start()
            self._senders[worker] = sender
            serving = asyncio.create_task(self._when_serving(sender))
            code = await worker.wait()
            await sender.closed.wait()  # its last report has been read
            await cancel(serving)
            del self._senders[worker]
            self.totals.lost(worker.pid)
            if self._stops:
                return
            if not (sender.ready.is_set() or self._listeners.accepts):
                raise WorkerError(f"a worker ended before it was ready, with exit code {code}")
            self.totals.replaced += 1
            log.error(
                "worker %d ended unexpectedly, with exit code %d: it is replaced", worker.pid, code
            )
            await asyncio.sleep(uniform(*_PAUSE_S))

    async def _when_serving(self, sender: FdSender) -> None:
        await sender.ready.wait()
        async with self._one_more_serves:
            self._one_more_serves.notify_all()

    async def _until_serving(self, count: int) -> None:
        async with self._one_more_serves:
            await self._one_more_serves.wait_for(lambda: len(self._serving()) >= count)

    def _serving(self) -> list[FdSender]:
        """Returns the workers that serve, the least busy first."""
        senders = self._senders.values()
        serving = [each for each in senders if each.ready.is_set() and not each.closed.is_set()]
        return sorted(serving, key=lambda sender: sender.clients)

    def _start(self) -> tuple[Worker, FdSender]:
        ours, theirs = channel()
        with theirs:
            worker = Worker(self._settings, theirs)
        sender = FdSender(ours)
        sender.on_report = partial(self.totals.heard, worker.pid)
        sender.on_details = partial(self.totals.looked, worker.pid)
        return worker, sender

    async def _give(self, client: socket.socket) -> None:
        if self._limit.reached(self.clients):
            self.totals.refused += 1
            with client, suppress(OSError):
                client.send(refusal(self._settings))
            return
        while True:
            await self._until_serving(1)
            serving = self._serving()
            if any(sender.give(client) for sender in serving):
                return
            rooms = {f"room {number}": sender.room() for number, sender in enumerate(serving)}
            await run_together(**rooms)


async def supervise(workers: Workers, settings: Settings, around: Around[WorkerTotals]) -> None:
    """Runs several workers that serve one address, and drains them."""
    signals = around.signals
    async with around.shown(workers.totals):
        running = asyncio.create_task(workers.run(), name="workers")
        beating = asyncio.create_task(workers.totals.heartbeat.run(), name="heartbeat")
        vital = [running, beating, *around.vital]
        try:
            await until(run_together(all=workers.listen(), stop=signals.stop.wait()), vital)
            if signals.stop.is_set():
                return  # no client could connect yet
            around.say(workers.address, workers.totals.trouble())
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
