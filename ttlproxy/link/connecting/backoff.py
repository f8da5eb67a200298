"""How long to wait before an attempt: one that has failed, and one that many make at once."""

from __future__ import annotations

import random
from typing import Final

_ENOUGH: Final = 64
# Three times what a proxy that connects takes of Redis's time (tests/bench/parts/fleet.py), and the
# longest that this makes it wait: clients wait meanwhile, for hold_max.
_CONNECTING_S: Final = 0.003
_LONGEST_S: Final = 3.0


class Backoff:
    """Grows from failure to failure; half of each pause is random, also of the longest ones."""

    def __init__(self, cap: float, base: float) -> None:
        """`cap`: the longest pause, in seconds; `base`: half of the longest after one failure."""
        self._cap = cap
        self._base = base

    def compute(self, failures: int) -> float:
        """The next pause in seconds, after so many failures in a row."""
        longest_s = min(self._cap, self._base * 2 ** min(failures, _ENOUGH))
        return random.uniform(longest_s / 2, longest_s)


def stagger_s(attached: int) -> float:
    """How long a proxy waits so that `attached` others do not connect at the same time."""
    return random.uniform(0, min(attached * _CONNECTING_S, _LONGEST_S))
