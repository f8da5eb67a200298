"""An event loop whose time passes at once where it waits for nothing but a timer. Sockets are real.
So limits of many seconds are tested without waiting for them."""

from __future__ import annotations

import asyncio
import selectors


class _Selector(selectors.DefaultSelector):
    """Waits for no timer: counts the seconds instead."""

    passed_s = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:  # there is no timer
            return super().select()
        events = super().select(0)
        if not events:
            self.passed_s += max(timeout, 0)
        return events


class VirtualTime(asyncio.SelectorEventLoop):
    """Its time is that of its timers."""

    def __init__(self) -> None:
        self._timers = _Selector()
        super().__init__(self._timers)

    def time(self) -> float:
        return self._timers.passed_s
