"""The metrics of the last minutes, one sample per second, as series for charts.

A table says what is drawn, and from which metrics. Knows no page and no clock.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from itertools import accumulate, islice
from typing import Final, TypeAlias

from ttlproxy.telemetry.metric_spec import Report, Value

# Five minutes, as long as the charts are wide.
LENGTH: Final = 300

Series: TypeAlias = Callable[[Report, Report, float], float | None]
"""(metrics now, metrics before, seconds between them) -> a value; None if it is unknown."""


def gauge(name: str, times: float = 1) -> Series:
    """The current value, times a factor."""

    def value(now: Report, before: Report, seconds: float) -> float | None:
        metric = now.get(name)
        return metric * times if isinstance(metric, int | float) else None

    return value


def up(series: Series) -> Series:
    """The same series, but unknown while the link is down: its last value is out of date."""

    def value(now: Report, before: Report, seconds: float) -> float | None:
        return series(now, before, seconds) if now.get("ttlproxy_link_up") else None

    return value


def rate(name: str, label: str = "") -> Series:
    """The growth per second, of all labels together or of one."""

    def value(now: Report, before: Report, seconds: float) -> float | None:
        if name not in now:
            return None
        # A counter shrinks if one of several processes has been replaced.
        grown = _total(now[name], label) - _total(before.get(name, 0), label)
        return max(grown, 0) / seconds

    return value


def quantile(name: str, percent: float) -> Series:
    """A percentile of what a histogram has counted meanwhile, times 1000: seconds become ms."""

    def value(now: Report, before: Report, seconds: float) -> float | None:
        later, earlier = now.get(name), before.get(name)
        if not (isinstance(later, tuple) and isinstance(earlier, tuple)):
            return None
        counts = [max(new - old, 0) for new, old in zip(later[1], earlier[1], strict=True)]
        bounds = [*later[0], later[0][-1]]  # values above all bounds count as the last bound
        reached = accumulate(counts)
        wanted = sum(counts) * percent / 100
        within = (bound for bound, count in zip(bounds, reached, strict=True) if count >= wanted)
        return next(within) * 1000 if wanted else None

    return value


def _total(metric: Value, label: str) -> float:
    if isinstance(metric, dict):
        counts = {name: count for name, count in metric.items() if not isinstance(count, str)}
        return counts.get(label, 0) if label else sum(counts.values())
    return 0 if isinstance(metric, tuple) else metric


# Samples of the numbers that the page draws, once a second.
SERIES: Final[Mapping[str, Series]] = {
    "clients": gauge("ttlproxy_connections"),
    "accepted": rate("ttlproxy_connections_accepted_total"),
    "requests": rate("ttlproxy_requests_total"),
    "forwarded": rate("ttlproxy_requests_total", "forwarded"),
    "bytes_in": rate("ttlproxy_sent_bytes_total", "redis"),
    "bytes_out": rate("ttlproxy_sent_bytes_total", "clients"),
    "held": rate("ttlproxy_holds_total"),
    "managed_keys": gauge("ttlproxy_managed_keys"),
    "overdue": up(gauge("ttlproxy_overdue_keys")),
    "oldest_overdue_ms": up(gauge("ttlproxy_oldest_overdue_seconds", 1000)),
    "reaped": rate("ttlproxy_reaped_elements_total"),
    "lag_p50_ms": quantile("ttlproxy_reap_lag_seconds", 50),
    "lag_p99_ms": quantile("ttlproxy_reap_lag_seconds", 99),
    "round_trip_ms": up(gauge("ttlproxy_link_round_trip_seconds", 1000)),
    "loop_lag_ms": quantile("ttlproxy_event_loop_lag_seconds", 99),
}


class History:
    """The latest samples of each series of a table, numbered from 1."""

    def __init__(self, table: Mapping[str, Series] = SERIES) -> None:
        self._table = table
        self._number = 0
        self._values: dict[str, deque[float | None]] = {
            name: deque(maxlen=LENGTH) for name in table
        }
        self._before: tuple[Report, float] | None = None

    def take(self, metrics: Report, now_s: float) -> None:
        """Takes the metrics as of now; the first call only stores them, to compare later."""
        if self._before is not None:
            before, then_s = self._before
            for name, series in self._table.items():
                value = series(metrics, before, max(now_s - then_s, 0.001))
                self._values[name].append(None if value is None else round(value, 3))
            self._number += 1
        self._before = metrics, now_s

    def since(self, number: int) -> dict[str, object]:
        """The samples after that number, as a JSON object; all, if there is no such sample."""
        new = self._number - number
        if not 0 <= number <= self._number or new > LENGTH:
            new = LENGTH
        return {
            "last": self._number,
            "series": {
                name: list(islice(values, max(len(values) - new, 0), None))
                for name, values in self._values.items()
            },
        }
