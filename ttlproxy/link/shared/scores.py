"""Deadlines as scores: whole ms, unless somebody has written something else by hand."""

from __future__ import annotations

from math import floor

from ttlproxy.wire import NOTHING_DUE


def whole_ms(score: bytes) -> int:
    """Returns the score, rounded down and limited: a whole ms is later than both or than
    neither."""
    return floor(min(max(float(score), 0), NOTHING_DUE))
