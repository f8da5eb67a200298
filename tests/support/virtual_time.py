"""An event loop whose time passes at once where it waits for nothing but a timer. Sockets are real.
So limits of many seconds are tested without waiting for them."""

from __future__ import annotations

import asyncio
import selectors

# Without a timer it waits for a socket, and for no longer than this.
_PATIENCE_S = 60.0
_MOST_S = 1e5


class _Selector(selectors.DefaultSelector):
    """Waits for no timer: counts the seconds instead. What does not end fails after a day."""

    passed_s = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        events = super().select(_PATIENCE_S if timeout is None else 0)
        if not events:
            self.passed_s += max(timeout or 0, 0)
        if (timeout is None and not events) or self.passed_s > _MOST_S:
            raise TimeoutError("nothing more happens")
        return events


class VirtualTime(asyncio.SelectorEventLoop):
    """Its time is that of its timers."""

    def __init__(self) -> None:
        self._timers = _Selector()
        super().__init__(self._timers)

    def time(self) -> float:
        return self._timers.passed_s
