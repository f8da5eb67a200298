"""What is compared with what, and the resulting figures. Knows no command and starts nothing.

The speed of a shared machine may double within a run. So rounds are short and many, each has
another order of targets, and ratios are taken round by round.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median

from tests.bench import usage
from tests.bench.loads import Load, Run
from tests.bench.targets import HAPROXY, Target


@dataclass(frozen=True)
class Result:
    """A run, and the CPU time in µs that Redis and the proxy, if there is one, used for it."""

    run: Run
    redis_us: float = 0.0
    proxy_us: float = 0.0


@dataclass(frozen=True)
class Measure:
    """A figure and how to read it from a result.

    name: with its unit; beyond: the figure is the difference from the first case;
    of_proxy: only targets that are proxies have it
    """

    name: str
    of: Callable[[Result], float]
    beyond: bool = False
    of_proxy: bool = False


@dataclass(frozen=True)
class Case:
    """A load for a target, and its name in the table."""

    name: str
    target: Target
    load: Load


@dataclass(frozen=True)
class Scenario:
    """Cases that are compared: with the first one, and with HAProxy.

    pipeline: how many requests of a client are under way at a time, where that matters
    """

    name: str
    cases: Sequence[Case]
    measures: Sequence[Measure]
    pipeline: int | None = None


@dataclass(frozen=True)
class Row:
    """A figure of a case: its value in each round, and the ratios to two other cases.

    first: the name of the first case
    """

    test: str
    pipeline: int | None
    target: str
    figure: str
    first: str
    values: Sequence[float]
    of_first: Sequence[float]
    of_haproxy: Sequence[float]

    @property
    def median(self) -> float:
        return median(self.values)


def measured(scenario: Scenario, rounds: Sequence[dict[str, Result]]) -> list[Row]:
    """The rows of a scenario. rounds: in each round the results by the case's name."""
    return [row for measure in scenario.measures for row in _rows(scenario, measure, rounds)]


def one_round(scenario: Scenario) -> dict[str, Result]:
    """Runs each case once, in random order."""
    cases = random.sample(scenario.cases, len(scenario.cases))
    return {case.name: _result(case) for case in cases}


def _result(case: Case) -> Result:
    before = _used(case.target)
    run = case.load(case.target)
    return Result(run, *(now - then for now, then in zip(_used(case.target), before, strict=True)))


def _used(target: Target) -> tuple[float, float]:
    """The CPU time used by Redis and by the proxy."""
    proxy = [target.proxy.pid] if target.proxy else []
    return usage.cpu_us(*(server.pid for server in target.masters)), usage.cpu_us(*proxy)


def _rows(scenario: Scenario, measure: Measure, rounds: Sequence[dict[str, Result]]) -> list[Row]:
    values = _values(scenario, measure, rounds)
    first = scenario.cases[0].name
    compared = values if len(scenario.cases) > 1 else {}
    return [
        Row(
            scenario.name,
            scenario.pipeline,
            name,
            measure.name,
            first,
            each,
            _ratios(each, compared.get(first)),
            _ratios(each, compared.get(HAPROXY)),
        )
        for name, each in values.items()
    ]


def _values(
    scenario: Scenario, measure: Measure, rounds: Sequence[dict[str, Result]]
) -> dict[str, list[float]]:
    """By the case's name, one value for each round."""
    cases = [case for case in scenario.cases if case.target.proxy or not measure.of_proxy]
    values = {case.name: [measure.of(each[case.name]) for each in rounds] for case in cases}
    if not measure.beyond:
        return values
    base = values.pop(scenario.cases[0].name)
    return {
        name: [mine - other for mine, other in zip(each, base, strict=True)]
        for name, each in values.items()
    }


def _ratios(mine: Sequence[float], others: Sequence[float] | None) -> list[float]:
    """The ratio in each round; none if there is nothing to compare with."""
    if not others or not all(others):
        return []
    return [one / other for one, other in zip(mine, others, strict=True)]
