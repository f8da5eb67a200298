"""The figures that several parts of the benchmark take from a load."""

from __future__ import annotations

from tests.bench.scenarios import Measure, Result

RATE = Measure("requests/s", lambda result: result.run.requests / result.run.seconds)
REDIS_CPU = Measure(
    "Redis, µs of CPU a request", lambda result: result.redis_us / result.run.requests
)


PROXY_CPU = Measure(
    "proxy, µs of CPU a request",
    lambda result: result.proxy_us / result.run.requests,
    of_proxy=True,
)


def found(name: str) -> Measure:
    """A figure that the load itself reports under that name."""
    return Measure(name, lambda result: result.run.found[name])


def percentile(percent: float, *, beyond: bool = False) -> Measure:
    """A percentile of the latencies; with `beyond` the difference from the first case."""

    def of(result: Result) -> float:
        latencies = result.run.latencies_us
        return latencies[min(int(len(latencies) * percent / 100), len(latencies) - 1)]

    return Measure(f"{'added ' if beyond else ''}p{percent:g}, µs", of, beyond)
