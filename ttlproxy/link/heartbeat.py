"""When the next heartbeat of the link is due, and what it looks at."""

from __future__ import annotations

import asyncio
from typing import Final

EVERY_S: Final = 1.0
# What seldom changes is looked at with every so many heartbeats, unless there is a reason.
_SELDOM: Final = 10
# A request that is a reason may be carried out just after the heartbeat that it has caused.
_AFTER_REASON: Final = 2


class Beats:
    """Regular heartbeats come once a second, others whenever `begin` is called.

    regular: whether the present heartbeat is one of them; thorough: whether it is to look at what
    seldom changes, too
    """

    def __init__(self) -> None:
        self.regular = True
        self.thorough = True
        self._reasons = _AFTER_REASON  # heartbeats that are to be thorough
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
        """There is a reason: the next two heartbeats look at all."""
        self._reasons = _AFTER_REASON

    @property
    def left_s(self) -> float:
        """Until the next regular one."""
        return self._next_s - asyncio.get_running_loop().time()
