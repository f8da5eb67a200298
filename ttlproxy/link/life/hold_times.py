"""Measures how long requests are held before they go to Redis, by what they wait for."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from ttlproxy.core.counters import Counters


class HoldTime:
    """One hold, from now on. why: one of HELD."""

    __slots__ = ("_began_s", "_counters", "_why")

    def __init__(self, counters: Counters, why: str) -> None:
        self._counters = counters
        self._why = why
        self._began_s = time.monotonic()

    def over(self) -> None:
        """The requests go on, or never will."""
        self._counters.hold_ms[self._why].observe((time.monotonic() - self._began_s) * 1000)


@contextmanager
def held(counters: Counters, why: str) -> Iterator[None]:
    """The body is one hold. It counts if it fails, but not if it is cancelled: then the client has
    gone."""
    hold = HoldTime(counters, why)
    try:
        yield
    except Exception:
        hold.over()
        raise
    hold.over()
