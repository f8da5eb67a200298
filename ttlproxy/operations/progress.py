"""What a tool tells while it works: its results, and how far it is."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Final, TextIO

# Between two lines: on a terminal one line is written again and again, elsewhere each stays.
_TERMINAL_S: Final = 0.1
_ELSEWHERE_S: Final = 5.0
_CLEAR: Final = "\r\x1b[K"


class Progress:
    """Results go to `say`, a line each; how far the work is, to standard error.

    On a terminal the latter is one line, which the next one replaces.
    """

    def __init__(
        self,
        say: Callable[[str], None],
        out: TextIO | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`out`: in place of standard error; `clock()`: seconds."""
        self._say = say
        self._out = sys.stderr if out is None else out
        self._clock = clock
        self._is_terminal = self._out.isatty()
        self._every_s = _TERMINAL_S if self._is_terminal else _ELSEWHERE_S
        self._next_s = clock() + self._every_s
        self._is_shown = False

    def say(self, line: str) -> None:
        """A result."""
        self.clear()
        self._say(line)

    def at(self, how_far: Callable[[], str]) -> None:
        """The work goes on: tells how far it is, unless it has just done so."""
        now_s = self._clock()
        if now_s < self._next_s:
            return
        self._next_s = now_s + self._every_s
        before, after = (_CLEAR, "") if self._is_terminal else ("", "\n")
        self._out.write(f"{before}{how_far()}{after}")
        self._out.flush()
        self._is_shown = self._is_terminal

    def clear(self) -> None:
        """Takes the line off a terminal."""
        if self._is_shown:
            self._out.write(_CLEAR)
            self._out.flush()
            self._is_shown = False
