"""The parts of the benchmark, each a table of scenarios.

A part starts what it needs on the stage, and gives the scenarios that are to be measured there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tests.bench.parts import forwarding, latency
from tests.bench.scenarios import Scenario
from tests.bench.targets import Stage


@dataclass(frozen=True)
class Part:
    """A part of the benchmark.

    name: what `--only` takes; summary: its line of the help; scenarios: starts what they need;
    needs: programs without which there is nothing to measure
    """

    name: str
    summary: str
    scenarios: Callable[[Stage], list[Scenario]]
    needs: tuple[str, ...] = ()


_FLOODED = ("redis-benchmark",)

PARTS = (
    Part("plain", "GET and SET, the short comparison", forwarding.plain, _FLOODED),
    Part("forwarding", "sizes, clients and pipelines", forwarding.scenarios, _FLOODED),
    Part("latency", "added to a request of a client that is alone", latency.scenarios),
)
