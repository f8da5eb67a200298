"""A histogram: counts of observations by value. Knows no names and not how it is shown."""

from __future__ import annotations

from bisect import bisect_left


class Histogram:
    """Counts by a fixed list of upper bounds, as in Prometheus.

    counts: for each bound, the values up to it and above the bound before; the last count is of
    values above all bounds; total: the sum of all values; most: the largest value
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
        """The percentile: a bound, or the largest value; 0 if there are no values."""
        left = sum(self.counts) * percent / 100
        for bound, count in zip(self.bounds, self.counts, strict=False):
            left -= count
            if left <= 0:
                return min(bound, self.most)
        return self.most
