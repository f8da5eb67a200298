"""A child process that is ended by its process id. Knows no Redis and no test framework."""

import os
import random
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from typing import Self

from tests.support.forkserver import Forked
from tests.support.hung import doing

# Only a hanging process takes so long, even if twenty others want each core: a start costs a second
# of CPU time, and a stop may take as long as the proxy's drain_max, which is 30 s.
START_TIMEOUT_S = 100.0
STOP_TIMEOUT_S = 100.0
# A TCP port where nobody listens. One that was free just now may be another test's server a moment
# later.
CLOSED_PORT = 1
POLL_S = 0.005  # between two checks of something that sends no event
_MOST_POLL_S = 0.05  # when that takes long: six that wait would else keep a core busy


def free_port() -> int:
    """A TCP port of 127.0.0.1 that was free just now; be ready to retry when you bind it."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def free_range(count: int) -> int:
    """The first of so many consecutive ports of 127.0.0.1 that were free just now.

    They are lower than those that a system chooses by itself, from 32768 on.
    """
    while True:
        first = random.randrange(10_000, 32_768 - count)
        with ExitStack() as held, suppress(OSError):
            for port in range(first, first + count):
                held.enter_context(socket.socket()).bind(("127.0.0.1", port))
            return first


def attempts(timeout_s: float, waiting_for: str) -> Iterator[None]:
    """Yields at short intervals, so that a loop can check again; TimeoutError past the limit."""
    began_s = time.monotonic()
    while (passed_s := time.monotonic() - began_s) < timeout_s:
        yield
        time.sleep(min(max(POLL_S, passed_s / 10), _MOST_POLL_S))
    raise TimeoutError(f"{waiting_for}: not within {timeout_s} s")


def wait_until(holds: Callable[[], bool], waiting_for: str, timeout_s: float = 30.0) -> None:
    for _ in attempts(timeout_s, waiting_for):
        if holds():
            return


class Process:
    """One child process, and four ways to end it. As a context it is started, and then removed."""

    def __init__(self) -> None:
        self._child: subprocess.Popen[bytes] | Forked | None = None

    def start(self) -> object:
        """Returns when it serves."""
        raise NotImplementedError

    def remove(self) -> None:
        """Ends it, and deletes its files."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.remove()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, *trouble: object) -> None:
        self.remove()

    @property
    def child(self) -> subprocess.Popen[bytes] | Forked:
        if self._child is None:
            raise RuntimeError("not started")
        return self._child

    @property
    def pid(self) -> int:
        return self.child.pid

    @property
    def running(self) -> bool:
        return self._child is not None and self._child.poll() is None

    def terminate(self) -> None:
        """SIGTERM, without waiting."""
        self.child.terminate()

    def wait(self, timeout_s: float = STOP_TIMEOUT_S) -> int:
        """The exit code, once the process has ended by itself or by a signal."""
        code = self.child.wait(timeout_s)
        self._close()
        return code

    def kill(self) -> int:
        """SIGKILL, and the exit code."""
        self.child.kill()
        return self.wait()

    def stop(self) -> None:
        """SIGTERM, then SIGKILL if that is not enough; nothing if it already ended.

        Then subprocess.TimeoutExpired says what it was doing.
        """
        if not self.running:
            self._close()
            return
        self.terminate()
        try:
            self.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired as hung:
            hung.add_note(self.doing())
            self.kill()
            raise

    def doing(self) -> str:
        """Several lines for whoever must find out why it does not end."""
        return doing(self.pid)

    def rss_bytes(self) -> int:
        """Resident memory, from /proc: Linux only."""
        return self._memory("VmRSS")

    def peak_bytes(self) -> int:
        """The most memory that was resident since `forget_peak`, from /proc: Linux only."""
        return self._memory("VmHWM")

    def forget_peak(self) -> None:
        with open(f"/proc/{self.pid}/clear_refs", "w", encoding="ascii") as references:
            references.write("5")

    def _memory(self, name: str) -> int:
        with open(f"/proc/{self.pid}/status", encoding="ascii") as status:
            sizes = [line.split()[1] for line in status if line.startswith(f"{name}:")]
        return int(sizes[0]) * 1024

    def open_files(self) -> int:
        """Descriptors in use, from /proc: Linux only."""
        return len(os.listdir(f"/proc/{self.pid}/fd"))

    def _close(self) -> None:
        if self._child is not None and self._child.stdout is not None:
            self._child.stdout.close()
