"""When the next heartbeat of the link is due, and whether it is thorough."""

from __future__ import annotations

import asyncio
from typing import Final

EVERY_S: Final = 1.0
# One regular heartbeat in so many looks at what seldom changes; more if there is a reason.
_SELDOM: Final = 10
# After a reason: the request may be carried out just after the first of these heartbeats.
_AFTER_REASON: Final = 2


class Beats:
    """Regular heartbeats come once a second, others whenever `begin` is called earlier.

    regular: whether this heartbeat is a regular one; thorough: whether it also looks at what seldom
    changes
    """

    def __init__(self) -> None:
        self.regular = True
        self.thorough = True
        self._reasons = _AFTER_REASON  # heartbeats that must still be thorough
        self._since_thorough = 0
        self._next_s = 0.0  # by the loop's clock

    def begin(self) -> None:
        now_s = asyncio.get_running_loop().time()
        self.regular = now_s >= self._next_s
        if self.regular:
            self._next_s = now_s + EVERY_S
            self._since_thorough += 1
        self.thorough = self._reasons > 0 or self._since_thorough >= _SELDOM
        self._reasons = max(self._reasons - 1, 0)
        if self.thorough:
            self._since_thorough = 0

    def be_thorough(self) -> None:
        """There is a reason: the next two heartbeats look at everything."""
        self._reasons = _AFTER_REASON

    @property
    def left_s(self) -> float:
        """Seconds until the next regular heartbeat."""
        return self._next_s - asyncio.get_running_loop().time()
