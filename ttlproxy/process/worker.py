"""A process that serves, forked from the one that listens, which has imported everything already.

A new process would need half a second of CPU for that, and share no memory.
"""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import socket
import stat
import sys
import threading
import traceback
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Final, NoReturn, TypeAlias

from ttlproxy.config import Settings
from ttlproxy.process.fd_channel import FdReceiver
from ttlproxy.process.runner import run

Work: TypeAlias = Callable[[Settings, FdReceiver], Coroutine[None, None, int]]
"""Returns the exit code."""

_FIRST: Final = 3  # file descriptor after the standard streams


class Worker:
    """A process that serves.

    pid: its process id
    """

    def __init__(self, settings: Settings, end: socket.socket, work: Work) -> None:
        """Starts it; `end`: its end of the channel; `work`: what it runs."""
        for stream in filter(None, (sys.stdout, sys.stderr)):  # there may be none
            with suppress(OSError):
                stream.flush()  # otherwise what is buffered would be written twice
        pid = os.fork()
        if pid == 0:
            _serve(settings, end, work)
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


def _serve(settings: Settings, end: socket.socket, work: Work) -> NoReturn:
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
