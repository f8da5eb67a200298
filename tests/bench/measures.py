"""The figures that several parts of the benchmark take from a load."""

from __future__ import annotations

from collections.abc import Callable

from tests.bench import usage
from tests.bench.scenarios import Measure, Result

RATE = Measure("requests/s", lambda result: result.run.requests / result.run.seconds)
REDIS_CPU = Measure(
    "Redis, µs of CPU a request", lambda result: result.redis.total_us / result.run.requests
)


def _of_proxy(name: str, used: Callable[[usage.Cpu], float]) -> Measure:
    return Measure(name, lambda result: used(result.proxy) / result.run.requests, of_proxy=True)


PROXY_CPU = _of_proxy("proxy, µs of CPU a request", lambda cpu: cpu.total_us)
PROXY_USER = _of_proxy("proxy, µs in user mode a request", lambda cpu: cpu.user_us)
PROXY_SYSTEM = _of_proxy("proxy, µs in the kernel a request", lambda cpu: cpu.system_us)
CPU = (PROXY_CPU, PROXY_USER, PROXY_SYSTEM)


def found(name: str) -> Measure:
    """A figure that the load itself reports under that name."""
    return Measure(name, lambda result: result.run.found[name])


def percentile(percent: float, *, beyond: bool = False) -> Measure:
    """A percentile of the latencies; with `beyond` the difference from the first case."""

    def of(result: Result) -> float:
        latencies = result.run.latencies_us
        return latencies[min(int(len(latencies) * percent / 100), len(latencies) - 1)]

    return Measure(f"{'added ' if beyond else ''}p{percent:g}, µs", of, beyond)
