"""The parts of the benchmark, each a table of scenarios.

A part starts what it needs on the stage, and returns the scenarios to measure.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tests.bench.parts import (
    attached,
    cluster,
    firing,
    fleet,
    forwarding,
    knowledge,
    latency,
    leaving,
    managed,
    masters,
    memory,
    onwrite,
    reaping,
    scripts,
    size,
    tasks,
    virtual,
)
from tests.bench.scenarios import Scenario
from tests.bench.targets import Stage


@dataclass(frozen=True)
class Part:
    """A part of the benchmark.

    name: its name for `--only`; summary: its line in the help; scenarios: starts what they need;
    needs: programs without which nothing can be measured
    """

    name: str
    summary: str
    scenarios: Callable[[Stage], list[Scenario]]
    needs: tuple[str, ...] = ()


_FLOODED = ("redis-benchmark",)

PARTS = (
    Part("plain", "GET and SET, the short comparison", forwarding.plain, _FLOODED),
    Part("forwarding", "sizes, clients and pipelines", forwarding.scenarios, _FLOODED),
    Part("managed", "native commands on keys that have far deadlines", managed.scenarios, _FLOODED),
    Part("virtual", "commands that set deadlines, beside native ones", virtual.scenarios, _FLOODED),
    Part("onwrite", "rules of ONWRITE, beside none and SADDEX", onwrite.scenarios, _FLOODED),
    Part("scripts", "HSETEX, beside its script", scripts.scenarios),
    Part("attached", "HSETEX with 1, 10 and 50 proxies attached", attached.scenarios),
    Part("latency", "added to a request of a client that is alone", latency.scenarios),
    Part(
        "memory", "resident: at rest, a connection, a managed key, large values", memory.scenarios
    ),
    Part("leaving", "thousands of clients that leave at once", leaving.scenarios),
    Part("size", "bytes in Redis for an element with a deadline", size.scenarios),
    Part("reaping", "elements that fall due in great numbers", reaping.scenarios),
    Part("firing", "what each action of ONEXPIRE costs for an element", firing.scenarios),
    Part("cluster", "GET and SET in front of three masters", cluster.scenarios, _FLOODED),
    Part("masters", "three masters at rest, and elements that fall due there", masters.scenarios),
    Part("fleet", "a thousand proxies: writes, rest, starts and storms", fleet.scenarios),
    Part(
        "knowledge",
        "Redis asked at each request, beside a proxy that hears of all keys",
        knowledge.scenarios,
        _FLOODED,
    ),
    Part("tasks", "delayed tasks, beside BullMQ and a poll", tasks.scenarios, ("node", "npm")),
)
