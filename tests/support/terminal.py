"""A command that somebody runs at a terminal: what it prints there, and Ctrl-C."""

from __future__ import annotations

import os
import pty
import select
import signal
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from tests.support.processes import START_TIMEOUT_S, attempts

CTRL_C: Final = b"\x03"


class Terminal:
    """text: all that has been printed so far; code: the exit code, once `end` has returned; minus
    the number of the signal that ended it."""

    def __init__(
        self, words: Sequence[str], folder: Path, env: Mapping[str, str] | None = None
    ) -> None:
        self.text = ""
        self.code: int | None = None
        self._pid, self._terminal = pty.fork()
        if not self._pid:
            signal.signal(signal.SIGINT, signal.SIG_DFL)  # ignored where the tests run unattended
            os.chdir(folder)
            os.execvpe(words[0], list(words), {**os.environ, **(env or {})})

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.code is None:
            os.killpg(self._pid, signal.SIGTERM)  # make leaves its child behind
            os.killpg(self._pid, signal.SIGHUP)  # a shell at a terminal ends by this alone
            os.waitpid(self._pid, 0)
        os.close(self._terminal)

    def until(self, words: str) -> None:
        """Waits until this is printed."""
        for _ in attempts(START_TIMEOUT_S, f"{words!r} after {self.text!r}"):
            if words in self.text:
                return
            self._read()

    def type(self, keys: bytes) -> None:
        os.write(self._terminal, keys)

    def end(self) -> int:
        """The exit code, once it has ended by itself."""
        for _ in attempts(START_TIMEOUT_S, f"its end after {self.text!r}"):
            self._read()
            ended, status = os.waitpid(self._pid, os.WNOHANG)
            if ended:
                self.code = os.waitstatus_to_exitcode(status)
                self._read()
                return self.code
        raise AssertionError

    def _read(self) -> None:
        with suppress(OSError):  # it has ended, and nobody has the terminal
            while select.select([self._terminal], [], [], 0)[0]:
                self.text += os.read(self._terminal, 65536).decode(errors="replace")
