"""A process that serves, forked from the one that listens, which has imported everything already.

A new process would need half a second of CPU for that, and share no memory.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import pickle
import signal
import socket
import stat
import sys
import threading
import traceback
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from functools import partial
from typing import Final, NoReturn

from ttlproxy.config import Settings
from ttlproxy.net.tasks import cancel
from ttlproxy.process.app import serve_one
from ttlproxy.process.fd_channel import FdReceiver
from ttlproxy.process.reload import adopt
from ttlproxy.process.runner import Around, Signals, run
from ttlproxy.telemetry.health import Health
from ttlproxy.telemetry.worker_totals import EVERY_S, report_of

_FIRST: Final = 3  # file descriptor after the standard streams


class Worker:
    """A process that serves.

    pid: its process id
    """

    def __init__(self, settings: Settings, end: socket.socket) -> None:
        """Starts it; `end`: its end of the channel."""
        for stream in filter(None, (sys.stdout, sys.stderr)):  # there may be none
            with suppress(OSError):
                stream.flush()  # otherwise what is buffered would be written twice
        pid = os.fork()
        if pid == 0:
            _serve(settings, end)
        self.pid = pid
        self._loop = asyncio.get_running_loop()
        self._code: asyncio.Future[int] = self._loop.create_future()
        threading.Thread(target=self._wait, daemon=True, name=f"worker {pid}").start()

    async def wait(self) -> int:
        """Returns its exit code; a negative one is the signal that ended it."""
        return await asyncio.shield(self._code)

    def signal(self, number: signal.Signals) -> None:
        """Sends a signal, unless it has ended."""
        if not self._code.done():
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def _wait(self) -> None:
        _, status = os.waitpid(self.pid, 0)
        with suppress(RuntimeError):  # the loop has ended before
            self._loop.call_soon_threadsafe(
                self._code.set_result, os.waitstatus_to_exitcode(status)
            )


def _serve(settings: Settings, end: socket.socket) -> NoReturn:
    """Leaves the event loop and the connections of the other process behind, and serves."""
    code = 1
    try:
        gc.freeze()  # or garbage collection would close files of the worker
        os.setsid()  # a terminal's Ctrl-C is for the other process
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)  # until the event loop runs
        asyncio._set_running_loop(None)
        _close_sockets(end.fileno())
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        code = run(settings, work(settings, FdReceiver(end, settings)), f"worker {os.getpid()}")
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


def _close_sockets(but: int) -> None:
    """Closes all other sockets: those of other workers and of the listener must end with their own
    process."""
    for name in os.listdir("/dev/fd"):
        number = int(name)
        with suppress(OSError):  # the list's own file is closed
            if number >= _FIRST and number != but and stat.S_ISSOCK(os.fstat(number).st_mode):
                os.close(number)


async def work(settings: Settings, receiver: FdReceiver) -> int:
    """Runs one of several workers, whose clients another process accepts; returns the exit code.

    It ends with that process. Raises TtlproxyError.
    """
    settings = replace(settings, drain_min=0.0)  # the parent has waited, or is gone
    assert settings.upstream is not None

    def change(values: bytes) -> None:
        adopt(settings, {**pickle.loads(values), "drain_min": 0.0})

    receiver.on_settings = change
    shown = partial(_reported, receiver)
    with Signals.of_worker() as signals:
        closed = asyncio.create_task(receiver.closed.wait(), name="fd channel")
        closed.add_done_callback(lambda _: signals.stop.set())
        around = Around(signals, [], lambda *_: None, shown)
        await serve_one(settings, settings.upstream, receiver, around)
        await cancel(closed)
    return 0


@asynccontextmanager
async def _reported(receiver: FdReceiver, health: Health) -> AsyncIterator[None]:
    """Reports to the process that listens, every EVERY_S seconds and at the end."""

    async def report() -> None:
        while True:
            receiver.report(report_of(health))
            await asyncio.sleep(EVERY_S)

    receiver.on_start = lambda: receiver.report(report_of(health))
    receiver.on_look = health.look
    health.on_details = lambda details: receiver.details(json.dumps(details).encode())
    reporting = asyncio.create_task(report(), name="report")
    try:
        yield
    finally:
        await cancel(reporting)
        receiver.report(report_of(health))
