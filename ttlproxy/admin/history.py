"""The metrics of the last minutes and of the last hour, as series for charts.

A table says what is drawn, and from which metrics. Knows no page and no clock.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from itertools import islice
from typing import Final, NamedTuple, TypeAlias

from ttlproxy.telemetry.metric_spec import Report, Value

# Numbers of samples: five minutes with one a second, and an hour with one every ten seconds.
LENGTH: Final = 300
HOUR_STEP: Final = 10
HOUR_LENGTH: Final = 360

_Read: TypeAlias = Callable[[Report, Report, float], float | None]
"""(metrics now, metrics before, seconds between them) -> a value; None if it is unknown."""


class Series(NamedTuple):
    """is_level: whether it has a value at each moment; for a longer time the highest one counts,
    because trouble that has passed must be seen"""

    read: _Read
    is_level: bool = False


def gauge(name: str, times: float = 1) -> Series:
    """Returns the series of the current value, times a factor."""

    def value(now: Report, before: Report, seconds: float) -> float | None:
        metric = now.get(name)
        return metric * times if isinstance(metric, int | float) else None

    return Series(value, is_level=True)


def up(series: Series) -> Series:
    """Returns the series with gaps while the link is down, because its last value is out of date
    then."""

    def value(now: Report, before: Report, seconds: float) -> float | None:
        return series.read(now, before, seconds) if now.get("ttlproxy_link_up") else None

    return series._replace(read=value)


def rate(name: str, label: str = "") -> Series:
    """Returns the series of the growth per second, of all labels together or of one."""

    def value(now: Report, before: Report, seconds: float) -> float | None:
        if name not in now:
            return None
        # A counter shrinks if one of several processes has been replaced.
        grown = _total(now[name], label) - _total(before.get(name, 0), label)
        return max(grown, 0) / seconds

    return Series(value)


def quantile(name: str, percent: float) -> Series:
    """Returns the series of a percentile of what a histogram has counted meanwhile, times 1000:
    seconds become ms.

    Within a bucket the values are taken to be spread evenly, as in Prometheus's histogram_quantile;
    what is above all bounds counts as the last bound.
    """

    def value(now: Report, before: Report, seconds: float) -> float | None:
        later, earlier = now.get(name), before.get(name)
        if not (isinstance(later, tuple) and isinstance(earlier, tuple)):
            return None
        counts = [max(new - old, 0) for new, old in zip(later[1], earlier[1], strict=True)]
        wanted = sum(counts) * percent / 100
        if not wanted:
            return None
        begin = reached = 0.0
        for bound, count in zip(later[0], counts, strict=False):
            if count and reached + count >= wanted:
                return 1000 * (begin + (bound - begin) * (wanted - reached) / count)
            begin, reached = bound, reached + count
        return 1000 * begin

    return Series(value)


def _total(metric: Value, label: str) -> float:
    if isinstance(metric, dict):
        counts = {name: count for name, count in metric.items() if isinstance(count, int | float)}
        return counts.get(label, 0) if label else sum(counts.values())
    return 0 if isinstance(metric, tuple) else metric


# The series that the page draws, sampled once a second.
SERIES: Final[Mapping[str, Series]] = {
    "clients": gauge("ttlproxy_connections"),
    "accepted": rate("ttlproxy_connections_accepted_total"),
    "requests": rate("ttlproxy_requests_total"),
    "forwarded": rate("ttlproxy_requests_total", "forwarded"),
    "bytes_in": rate("ttlproxy_sent_bytes_total", "redis"),
    "bytes_out": rate("ttlproxy_sent_bytes_total", "clients"),
    "held": rate("ttlproxy_holds_total"),
    "managed_keys": up(gauge("ttlproxy_managed_keys")),
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

    def __init__(
        self, table: Mapping[str, Series] = SERIES, step: int = 1, length: int = LENGTH
    ) -> None:
        """`step`: how many metrics make one sample; `length`: how many samples are kept."""
        self._table = table
        self._step = step
        self._length = length
        self._number = 0
        self._values: dict[str, deque[float | None]] = {
            name: deque(maxlen=length) for name in table
        }
        self._highest: dict[str, float] = {}  # of levels, since the last sample
        self._taken = 0  # metrics since the last sample
        self._before: tuple[Report, float] | None = None

    def take(self, metrics: Report, now_s: float) -> None:
        """Takes the metrics as of now; the first call only stores them, to compare later."""
        if self._before is None:
            self._before = metrics, now_s
            return
        for name, series in self._table.items():
            level = series.read(metrics, metrics, 1) if series.is_level else None
            if level is not None:
                self._highest[name] = max(level, self._highest.get(name, level))
        self._taken += 1
        if self._taken < self._step:
            return
        before, then_s = self._before
        for name, series in self._table.items():
            if series.is_level:
                value = self._highest.get(name)
            else:
                value = series.read(metrics, before, max(now_s - then_s, 0.001))
            self._values[name].append(None if value is None else round(value, 3))
        self._number += 1
        self._before, self._taken, self._highest = (metrics, now_s), 0, {}

    def since(self, number: int) -> dict[str, object]:
        """Returns the samples after that number, as a JSON object; all, if there is no such
        sample."""
        new = self._number - number
        if not 0 <= number <= self._number or new > self._length:
            new = self._length
        return {
            "last": self._number,
            "series": {
                name: list(islice(values, max(len(values) - new, 0), None))
                for name, values in self._values.items()
            },
        }


class Growth:
    """The growth of a counter with labels since the start, and in the last hour."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._taken = 0
        self._counts: dict[str, float] = {}
        self._before: deque[dict[str, float]] = deque(maxlen=HOUR_LENGTH + 1)

    def take(self, metrics: Report) -> None:
        """Takes the metrics as of now, once a second."""
        metric = metrics.get(self._name)
        if isinstance(metric, dict):
            self._counts = {
                label: count for label, count in metric.items() if isinstance(count, int | float)
            }
            if self._taken % HOUR_STEP == 0:
                self._before.append(self._counts)
            self._taken += 1

    def rows(self) -> list[dict[str, object]]:
        """Returns the series that have ever grown, as JSON objects."""
        then = self._before[0] if len(self._before) > HOUR_LENGTH else {}
        return [
            {"label": label, "all": count, "hour": max(count - then.get(label, 0), 0)}
            for label, count in self._counts.items()
            if count
        ]
