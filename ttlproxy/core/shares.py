"""Spreads a sample over several places, in proportion to their sizes."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise


def shares(sizes: Sequence[int], most: int) -> list[int]:
    """The number to take from each of places of these sizes, `most` together, or all if there are
    fewer."""
    total = sum(sizes)
    wanted = min(most, total)
    ends = [end * wanted // max(total, 1) for end in accumulate(sizes, initial=0)]
    return [after - before for before, after in pairwise(ends)]
