"""Deadlines as numbers in a sorted set, in seconds or ms. Knows which numbers cannot be meant."""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil, isfinite
from typing import Final, NamedTuple

from ttlproxy.errors import UnfitKey
from ttlproxy.operations.migration.elements import shown

# From September 2001 to November 2286 Unix time in ms has 13 digits, and in seconds 10. So a number
# that is meant in the other unit is outside.
_EARLIEST_MS: Final = 10**12
_LATEST_MS: Final = 10**13


class Unit(NamedTuple):
    """ms: how many ms it has; other: the name of the unit that may be meant instead."""

    name: str
    ms: int
    other: str


UNITS: Final[Mapping[str, Unit]] = {"s": Unit("s", 1000, "ms"), "ms": Unit("ms", 1, "s")}


def deadline_ms(score: bytes, unit: Unit, member: bytes, key: bytes) -> int | None:
    """A deadline from the score of a member of `key`; None if it is infinite.

    Raises UnfitKey if it cannot be meant.
    """
    number = float(score)
    if number == float("inf"):
        return None
    found = round(number * unit.ms) if isfinite(number) else 0
    if _EARLIEST_MS <= found < _LATEST_MS:
        return found
    other = UNITS[unit.other]
    fits = _EARLIEST_MS <= number * other.ms < _LATEST_MS
    hint = (
        f"it is one in {other.name}: use --unit {other.name}"
        if fits
        else "are the scores deadlines? As deadlines, they are Unix times"
    )
    raise UnfitKey(
        f"{shown(key)} has member {shown(member)} with score {score.decode()}, which is no time in"
        f" {unit.name} between 2001 and 2286: {hint}"
    )


def score(deadline: int, unit: Unit) -> int:
    """A deadline in ms as a number in the unit, never earlier."""
    return ceil(deadline / unit.ms)
