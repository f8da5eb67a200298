"""Proxies that are forked from one process which has imported ttlproxy. Imports are nine tenths of
the cost of a start, and the tests start a thousand proxies. Knows no Redis."""

import faulthandler
import multiprocessing
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection
from typing import IO

_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload(["tests.support.preload", "uvloop"])


def set_asking(asks: bool | None) -> None:
    """Whether proxies of this process ask Redis at each request what is due, or hear of it; None:
    as they decide themselves, by how many there are."""
    from ttlproxy.link.knowledge import announcements

    if asks is not None:
        announcements.FEW = 0 if asks else 1 << 30  # type: ignore[misc]


@contextmanager
def asking(asks: bool | None) -> Iterator[None]:
    """Does as `set_asking` for a while."""
    from ttlproxy.link.knowledge import announcements

    before = announcements.FEW
    set_asking(asks)
    try:
        yield
    finally:
        announcements.FEW = before  # type: ignore[misc]


def _run(
    words: Sequence[str], env: Mapping[str, str], stdout: Connection, log: str, asks: bool | None
) -> int:
    """Runs in the new process, like `env python -P -m ttlproxy words >stdout 2>log`."""
    from ttlproxy.cli.main import main

    set_asking(asks)
    os.dup2(stdout.fileno(), sys.stdout.fileno())
    stdout.close()
    with open(log, "ab") as end:
        os.dup2(end.fileno(), sys.stderr.fileno())
    os.environ.clear()
    os.environ.update(env)
    faulthandler.enable()
    sys.argv[1:] = words
    raise SystemExit(main())


class Forked:
    """One forked process, with the part of subprocess.Popen that tests use."""

    def __init__(
        self, words: Sequence[str], env: Mapping[str, str], log: str, *, asks: bool | None = None
    ) -> None:
        """`log`: the file that gets the process's standard error; `asks`: as of `Proxy`."""
        reader, writer = _context.Pipe(duplex=False)
        with writer:
            self._process = _context.Process(target=_run, args=(words, env, writer, log, asks))
            self._process.start()
        self.stdout: IO[bytes] = os.fdopen(os.dup(reader.fileno()), "rb", buffering=0)
        reader.close()
        self.pid = self._process.pid or 0

    @property
    def returncode(self) -> int | None:
        return self._process.exitcode

    def poll(self) -> int | None:
        return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        self._process.join(timeout)
        code = self._process.exitcode
        if code is None:
            raise subprocess.TimeoutExpired("ttlproxy", timeout or 0.0)
        return code

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            with suppress(ProcessLookupError):  # ended, but not reported yet
                os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)
