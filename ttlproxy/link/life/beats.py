"""When the next heartbeat of the link is due, and whether it is thorough."""

from __future__ import annotations

import asyncio
from random import uniform
from typing import Final

from ttlproxy.link.shared.fleet import Fleet

EVERY_S: Final = 1.0
# By so much of it a pause may be shorter, so that proxies that began together do not stay together.
_JITTER: Final = 0.2
# Timers have whole milliseconds: so much earlier they may end.
_EARLY_S: Final = 0.001
# One regular heartbeat in so many looks at what seldom changes; more if there is a reason.
_SELDOM: Final = 10
# After a reason: the request may be carried out just after the first of these heartbeats.
_AFTER_REASON: Final = 2


class Beats:
    """Regular heartbeats come once a second, or less often if many proxies are attached; others
    whenever `begin` is called earlier.

    regular: whether this heartbeat is a regular one; thorough: whether it also looks at what seldom
    changes; has_reason: whether it does so for a reason
    walks: whether this proxy does for all what takes a heartbeat a second
    """

    def __init__(self, fleet: Fleet) -> None:
        self.regular = True
        self.thorough = True
        self.has_reason = True
        self.walks = False
        self._fleet = fleet
        self._reasons = 1  # heartbeats that must still be thorough
        self._since_thorough = 0
        self._next_s = 0.0  # by the loop's clock

    def begin(self) -> None:
        now_s = asyncio.get_running_loop().time()
        self.regular = now_s >= self._next_s - _EARLY_S
        if self.regular:
            self._next_s = now_s + self._pause_s()
            self._since_thorough += 1
        self.has_reason = self._reasons > 0
        self.thorough = self.has_reason or self._since_thorough >= _SELDOM
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

    def _pause_s(self) -> float:
        if self._fleet.attached <= 1:
            return EVERY_S
        longest_s = EVERY_S * (1 if self.walks else self._fleet.stretch)
        return uniform(1 - _JITTER, 1) * longest_s
