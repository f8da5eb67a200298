"""A histogram: how many observations fell where. Knows no names and no way to show itself."""

from __future__ import annotations

from bisect import bisect_left


class Histogram:
    """Counts by a closed list of upper bounds, as Prometheus's do.

    counts: of those at most as large as each bound, and larger than the one before; the last is of
    those beyond all; total: of all values; most: the largest
    """

    __slots__ = ("bounds", "counts", "most", "total")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0
        self.most = 0.0

    def observe(self, value: float, times: int = 1) -> None:
        self.counts[bisect_left(self.bounds, value)] += times
        self.total += value * times
        self.most = max(self.most, value)

    def at(self, percent: float) -> float:
        """So many percent are no larger: a bound, or the largest value; 0 before there is any."""
        left = sum(self.counts) * percent / 100
        for bound, count in zip(self.bounds, self.counts, strict=False):
            left -= count
            if left <= 0:
                return min(bound, self.most)
        return self.most
