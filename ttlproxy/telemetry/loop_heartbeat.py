"""The event loop's heartbeat. Does not know what the loop does."""

from __future__ import annotations

import asyncio
import time
from typing import Final

from ttlproxy.core.histogram import Histogram

_EVERY_S: Final = 0.25
_LAGS_MS: Final = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000)


class LoopHeartbeat:
    """Shows that the event loop turns; other threads can ask even if it is stuck.

    lag_ms: how late each beat was
    """

    def __init__(self) -> None:
        self.lag_ms = Histogram(_LAGS_MS)
        self._beat_s = time.monotonic()

    async def run(self) -> None:
        """Beats until cancelled."""
        while True:
            self._beat_s = time.monotonic()
            await asyncio.sleep(_EVERY_S)
            self.lag_ms.observe(max(self.age_s() - _EVERY_S, 0) * 1000)

    def why_not_live(self, stuck_s: float) -> str:
        """The reason; empty unless the loop has not turned for more than `stuck_s`."""
        age_s = self.age_s()
        return f"the event loop has been stuck for {age_s:.1f} s" if age_s > stuck_s else ""

    def age_s(self) -> float:
        """Seconds since the last beat."""
        return time.monotonic() - self._beat_s
