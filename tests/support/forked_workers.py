"""Workers that are forked from the process that listens, which has done the imports: a worker that
is a new process spends 0.6 s on them. Knows no Redis."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import sys
import traceback

from ttlproxy.process import worker

_FIRST_FD = 3  # after the standard streams


class ForkedWorker:
    """The part of asyncio.subprocess.Process that ttlproxy.process.workers uses."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._loop = asyncio.get_running_loop()
        self._code = self._loop.create_future()
        self._pidfd = os.pidfd_open(pid)
        self._loop.add_reader(self._pidfd, self._ended)

    async def wait(self) -> int:
        code: int = await asyncio.shield(self._code)
        return code

    def send_signal(self, number: int) -> None:
        if self._code.done():
            raise ProcessLookupError
        os.kill(self.pid, number)

    def _ended(self) -> None:
        self._loop.remove_reader(self._pidfd)
        os.close(self._pidfd)
        self._code.set_result(os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1]))


async def launch(channel: int) -> ForkedWorker:
    """In place of the function of ttlproxy.process.workers."""
    pid = os.fork()
    if pid == 0:
        _become_worker(channel)
    return ForkedWorker(pid)


def _become_worker(channel: int) -> None:
    """Leaves the event loop and the connections of the process that listens behind."""
    code = 1
    try:
        gc.freeze()  # what is left of them must close no file of the worker
        os.setsid()
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)
        asyncio._set_running_loop(None)
        os.closerange(_FIRST_FD, channel)
        os.closerange(channel + 1, os.sysconf("SC_OPEN_MAX"))
        sys.argv[1:] = [str(channel)]
        code = worker.main()
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)
