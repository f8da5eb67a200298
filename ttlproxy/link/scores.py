"""Deadlines as scores: whole ms, unless somebody has written something else by hand."""

from __future__ import annotations

from math import floor

from ttlproxy.core.registry import NOTHING_DUE


def whole_ms(score: bytes) -> int:
    """What is before a score is before this, and no whole number of ms lies between the two."""
    return floor(min(max(float(score), 0), NOTHING_DUE))
