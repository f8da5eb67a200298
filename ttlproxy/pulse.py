"""The event loop's heartbeat. Knows nothing of what the loop has to do."""

from __future__ import annotations

import asyncio
import time
from typing import Final

_EVERY_S: Final = 0.25


class Pulse:
    """Shows to other threads, which go on where the loop is stuck, that it turns."""

    def __init__(self) -> None:
        self._beat_s = time.monotonic()

    async def run(self) -> None:
        """Beats until cancelled."""
        while True:
            self._beat_s = time.monotonic()
            await asyncio.sleep(_EVERY_S)

    def age_s(self) -> float:
        """How long ago the last beat was."""
        return time.monotonic() - self._beat_s
