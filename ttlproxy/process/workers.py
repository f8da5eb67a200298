"""Processes that serve one address: this one listens, and gives each client to the least busy.

That spreads a few long-lived connections evenly, which SO_REUSEPORT does not. Workers share
nothing: to Redis and to each other they are independent proxies.
"""

from __future__ import annotations

import asyncio
import logging
import os
import pickle
import signal
import socket
import sys
from contextlib import suppress
from functools import partial
from random import uniform
from typing import Final

from ttlproxy.config import Settings
from ttlproxy.errors import WorkerError
from ttlproxy.net.listener import Listeners
from ttlproxy.net.tasks import cancel, run_together
from ttlproxy.process.fd_channel import Sender, channel
from ttlproxy.process.reload import Values, adopt
from ttlproxy.proxy.client_limit import ClientLimit, refusal
from ttlproxy.telemetry.worker_totals import WorkerTotals

log = logging.getLogger(__name__)

# A worker that has ended by itself is replaced after so many seconds.
_PAUSE_S: Final = (0.5, 1.5)


class Workers:
    """The processes that serve, and the listening sockets.

    address: where clients connect; with the real port, once `listen` is done
    totals: the workers' metrics and health
    """

    def __init__(self, settings: Settings) -> None:
        """`settings`: for each worker."""
        self._settings = settings
        self.address = settings.listen
        self.totals = WorkerTotals()
        self._listeners = Listeners(
            settings.addresses, settings.unix_socket_perm, settings.tcp_keepalive
        )
        self._limit = ClientLimit(settings.max_clients)
        self._senders: dict[asyncio.subprocess.Process, Sender] = {}
        self._stops = False
        self._one_more_serves = asyncio.Condition()

    @property
    def clients(self) -> int:
        """How many are connected."""
        return sum(sender.clients for sender in self._senders.values())

    async def run(self) -> None:
        """Keeps the workers running until they are stopped.

        Raises WorkerError if one ends before it serves, unless clients are accepted already.
        """
        loop = asyncio.get_running_loop()

        def look() -> None:
            loop.call_soon_threadsafe(self._look)

        self.totals.on_look = look
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
            while not (sender.tell(pickle.dumps(values)) or sender.closed.is_set()):
                await sender.room()

    async def stop(self) -> None:
        """Accepts no more clients; each worker finishes what is in flight, and then ends."""
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
        for process in list(self._senders):
            await process.wait()

    def _look(self) -> None:
        for sender in self._serving():
            sender.look()

    def _signal(self, number: signal.Signals) -> None:
        for process in self._senders:
            with suppress(ProcessLookupError):
                process.send_signal(number)

    async def _keep(self) -> None:
        while not self._stops:
            process, sender = await self._start()
            self._senders[process] = sender
            if self._stops:  # it was stopped meanwhile
                sender.finish()
            serving = asyncio.create_task(self._when_serving(sender))
            code = await process.wait()
            await sender.closed.wait()  # its last report has been read
            await cancel(serving)
            del self._senders[process]
            self.totals.lost(process.pid)
            if self._stops:
                return
            if not (sender.ready.is_set() or self._listeners.accepts):
                raise WorkerError(f"a worker ended before it was ready, with exit code {code}")
            self.totals.replaced += 1
            log.error(
                "worker %d ended unexpectedly, with exit code %d: it is replaced", process.pid, code
            )
            await asyncio.sleep(uniform(*_PAUSE_S))

    async def _when_serving(self, sender: Sender) -> None:
        await sender.ready.wait()
        async with self._one_more_serves:
            self._one_more_serves.notify_all()

    async def _until_serving(self, count: int) -> None:
        async with self._one_more_serves:
            await self._one_more_serves.wait_for(lambda: len(self._serving()) >= count)

    def _serving(self) -> list[Sender]:
        """The workers that serve, the least busy first."""
        senders = self._senders.values()
        serving = [each for each in senders if each.ready.is_set() and not each.closed.is_set()]
        return sorted(serving, key=lambda sender: sender.clients)

    async def _start(self) -> tuple[asyncio.subprocess.Process, Sender]:
        ours, theirs = channel()
        with theirs:
            ours.send(pickle.dumps(self._settings))  # not as arguments, which all users can read
            process = await _launch(theirs.fileno())
        sender = Sender(ours)
        sender.on_report = partial(self.totals.heard, process.pid)
        sender.on_details = partial(self.totals.looked, process.pid)
        return process, sender

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


async def _launch(channel: int) -> asyncio.subprocess.Process:
    """Starts a worker that has this end of its channel, a file descriptor."""
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", "-m", "ttlproxy.process.worker", str(channel)),
        pass_fds=[channel],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},  # to find ttlproxy
        stdin=asyncio.subprocess.DEVNULL,
        start_new_session=True,  # a terminal's Ctrl-C is for this process
    )
