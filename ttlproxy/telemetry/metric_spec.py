"""Describes what a metric is, and what it is read from. Knows no metric."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Final, Literal, NamedTuple, Protocol, TypeAlias

from ttlproxy.config import Settings
from ttlproxy.core.counters import Counters, Histogram
from ttlproxy.link import Link, Masters

_EVERY_S: Final = 0.25
_LAGS_MS: Final = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000)


class LoopHeartbeat:
    """Shows that the event loop turns; other threads can ask even if it is stuck.

    lag_ms: how late each beat was
    """

    def __init__(self) -> None:
        self.lag_ms = Histogram(_LAGS_MS)
        self._beat_s = time.monotonic()

    async def run(self) -> None:
        """Beats until cancelled."""
        while True:
            self._beat_s = time.monotonic()
            await asyncio.sleep(_EVERY_S)
            self.lag_ms.observe(max(self.age_s() - _EVERY_S, 0) * 1000)

    def why_not_live(self, stuck_s: float) -> str:
        """Returns the reason; empty unless the loop has not turned for more than `stuck_s`."""
        age_s = self.age_s()
        return f"the event loop has been stuck for {age_s:.1f} s" if age_s > stuck_s else ""

    def age_s(self) -> float:
        """Returns the seconds since the last beat."""
        return time.monotonic() - self._beat_s


Buckets: TypeAlias = tuple[list[float], list[int], float]
"""Upper bounds; how many observations are in each bucket and above all; the sum of their values."""
Value: TypeAlias = float | dict[str, float] | dict[str, str] | Buckets | dict[str, Buckets]
"""A metric's value: a number; numbers by label; the labels of an info; a histogram's buckets, or
these by label."""
Report: TypeAlias = dict[str, Value]
"""Metric name -> value."""


# The label of metrics about one of several servers: its address.
BY_NODE: Final = "node"
BY_CERTIFICATE: Final = "certificate"
BY_SCRIPT: Final = "script"
BY_WORKER: Final = "worker"


class MeasuredServer(Protocol):
    """The server of clients. Any thread may call it."""

    def certificates_expire_s(self) -> dict[str, float]:
        """Returns the Unix time at which each certificate in use ends, by name; only those that are
        set."""

    def buffered_bytes(self) -> dict[str, float]:
        """Returns the bytes that are kept, by their destination."""


class MetricSource(NamedTuple):
    """The objects that the metrics of one process are read from."""

    counters: Counters
    link: Link | Masters
    server: MeasuredServer
    heartbeat: LoopHeartbeat
    loop: asyncio.AbstractEventLoop
    settings: Settings


class MetricSpec(NamedTuple):
    """kind: Prometheus's type
    label, values: the label's name, if any, and all its values; the values of BY_NODE are the
    servers that are there, of BY_CERTIFICATE only those that are set, of BY_SCRIPT the scripts that
    were called, and of BY_WORKER the workers' numbers, from 1 on
    of_many: how the numbers of several processes become one, for each value of the label
    """

    name: str
    meaning: str
    read: Callable[[MetricSource], Value]
    label: str = ""
    values: tuple[str, ...] = ()
    of_many: Literal["sum", "largest", "least"] = "sum"
    kind: Literal["counter", "gauge", "histogram", "info"] = "gauge"

    @property
    def series(self) -> tuple[str, ...]:
        """The names of its time series in queries."""
        if self.kind == "histogram":
            return tuple(f"{self.name}_{part}" for part in ("bucket", "count", "sum"))
        return (self.name,)


counter = partial(MetricSpec, kind="counter")
gauge = partial(MetricSpec, kind="gauge")
histogram = partial(MetricSpec, kind="histogram")
info = partial(MetricSpec, kind="info")


def by_value(counts: Mapping[str, int], values: Iterable[str]) -> dict[str, float]:
    """Returns a number for each value of a label, so that each series exists from the start."""
    return {value: counts.get(value, 0) for value in values}


def in_seconds(of_ms: Histogram) -> Buckets:
    return [bound / 1000 for bound in of_ms.bounds], list(of_ms.counts), of_ms.total / 1000
