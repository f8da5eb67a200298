"""Shows the results of long work, and its progress."""

from __future__ import annotations

import asyncio
import io
import logging
import sys
import time
from collections.abc import Callable
from typing import Final, NoReturn, Self, TextIO

# Seconds between two lines: on a terminal one line is written again and again, elsewhere each
# stays.
_TERMINAL_S: Final = 0.1
_ELSEWHERE_S: Final = 5.0
_NOTED_S: Final = 5.0  # the same if `note` takes the lines
# Seconds between two looks at work that does not call `at` itself.
_LOOK_S: Final = 0.5
# Clears the line on a terminal.
CLEAR: Final = "\r\x1b[K"


class Progress:
    """Results go to `say`, a line each; the progress goes to standard error.

    On a terminal the progress is one line, which the next one replaces.
    """

    def __init__(
        self,
        say: Callable[[str], None],
        out: TextIO | None = None,
        clock: Callable[[], float] = time.monotonic,
        note: Callable[[str], None] | None = None,
    ) -> None:
        """`out`: in place of standard error; `clock()` returns seconds; `note`: takes the progress
        lines if `out` is no terminal."""
        self._say = say
        self._out = sys.stderr if out is None else out
        self._note = note or self._write
        self._clock = clock
        self._is_terminal = self._out.isatty()
        elsewhere_s = _ELSEWHERE_S if note is None else _NOTED_S
        self._every_s = _TERMINAL_S if self._is_terminal else elsewhere_s
        self._next_s = clock() + self._every_s
        self._is_shown = False

    @classmethod
    def logged(cls, log: logging.Logger, *, may_replace: bool) -> Self:
        """Returns progress for the work of a proxy: a line of the log now and then, or the one line
        of a terminal if it `may_replace` lines. The time until the first line begins now."""

        def note(line: str) -> None:
            log.info("%s", line)

        is_shown = may_replace and log.isEnabledFor(logging.INFO)
        return cls(note, None if is_shown else io.StringIO(), note=note)

    @classmethod
    def silent(cls) -> Self:
        """Returns progress that tells nothing."""
        return cls(_nothing, io.StringIO(), note=_nothing)

    def say(self, line: str) -> None:
        """Shows a result."""
        self.clear()
        self._say(line)

    def at(self, how_far: Callable[[], str]) -> None:
        """Shows the progress, unless it has just been shown; the work calls this as it goes on."""
        now_s = self._clock()
        if now_s < self._next_s:
            return
        self._next_s = now_s + self._every_s
        if not self._is_terminal:
            self._note(how_far())
            return
        self._out.write(f"{CLEAR}{how_far()}")
        self._out.flush()
        self._is_shown = True

    async def keep_telling(self, how_far: Callable[[], str]) -> NoReturn:
        """Shows the progress of work that does not call `at` itself, until cancelled."""
        try:
            while True:
                await asyncio.sleep(_LOOK_S)
                self.at(how_far)
        finally:
            self.clear()

    def clear(self) -> None:
        """Clears the line on a terminal."""
        if self._is_shown:
            self._out.write(CLEAR)
            self._out.flush()
            self._is_shown = False

    def _write(self, line: str) -> None:
        self._out.write(f"{line}\n")
        self._out.flush()


def of_names(looked_at: int, names: int) -> str:
    """Returns roughly the progress of a walk with SCAN, from how many names it was asked for."""
    return f", after about {min(looked_at, names)} of {names} names"


def _nothing(line: str) -> None:
    """Takes a line."""
