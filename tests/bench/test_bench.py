"""The benchmark runs: each part, with a tiny share of the work, gives each of its figures."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from math import isfinite
from pathlib import Path

import pytest

from tests.bench import targets
from tests.bench.__main__ import main
from tests.bench.loads import OneByOne, Run
from tests.bench.measures import RATE, percentile
from tests.bench.parts import PARTS, Part, fleet, memory
from tests.bench.report import as_csv, merged, table
from tests.bench.scenarios import Case, Measure, Result, Row, Scenario, measured, one_round
from tests.bench.targets import Stage, find_program
from tests.docs import quoted_figures
from tests.support.requirements import absent
from tests.support.servers import Proxy
from ttlproxy.link.knowledge import announcements

pytestmark = [pytest.mark.redis, pytest.mark.long]

SHARE = 0.0005
# redis-benchmark needs half a second to open so many connections.
MANY = "500 clients"


def _quick(scenarios: Sequence[Scenario]) -> list[Scenario]:
    """All scenarios but those with many clients, and one of them."""
    few = [scenario for scenario in scenarios if MANY not in scenario.name]
    return few + [scenario for scenario in scenarios if MANY in scenario.name][:1]


def _figures(scenario: Scenario) -> set[tuple[str, str]]:
    """All pairs (target, figure) that a scenario must give."""
    return {
        (case.name, measure.name)
        for number, case in enumerate(scenario.cases)
        for measure in scenario.measures
        if (case.target.proxy or not measure.of_proxy) and (number or not measure.beyond)
    }


@pytest.fixture
def stage(monkeypatch: pytest.MonkeyPatch) -> Iterator[Stage]:
    """Its proxies are forked, because the figures do not matter here."""
    for module in (targets, fleet, memory):
        monkeypatch.setattr(module, "Proxy", partial(Proxy, forked=True))
    few = announcements.FEW
    with ExitStack() as stack:
        yield Stage(stack, SHARE)
    assert few == announcements.FEW, "proxies of later tests in this process decide themselves"


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("part", PARTS, ids=lambda part: part.name)
def test_each_scenario_gives_each_of_its_figures(part: Part, stage: Stage) -> None:
    for program in part.needs:
        if find_program(program) is None:
            absent(program, f"{program} is not installed")
    rows: list[Row] = []
    scenarios = _quick(part.scenarios(stage))
    if not scenarios and stage.absent:
        absent("redis-8", "; ".join(stage.absent))
    for scenario in scenarios:
        found = measured(scenario, [one_round(scenario)])
        assert {(row.target, row.figure) for row in found} == _figures(scenario)
        rows += found
    assert scenarios
    assert all(isfinite(value) for row in rows for value in row.values)
    assert table(rows).count("\n") == len(rows) + 1


def test_the_figures_of_a_run_are_printed_and_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "figures.csv"
    part = ["--only", "latency", "--share", "0.001", "--rounds", "3"]
    assert main([*part, "--csv", str(file)]) == 0
    printed = capsys.readouterr().out
    figures = quoted_figures.read(file).values()
    assert {row.target for row in figures} >= {"direct", "ttlproxy"}
    assert {row.part for row in figures} == {"latency"}
    assert all(f"| {row.target} | {row.figure} |" in printed for row in figures)


def _rounds(**rates: list[float]) -> list[dict[str, Result]]:
    """Results by the case's name; `rates` are requests a second, one for each round."""
    names, values = list(rates), zip(*rates.values(), strict=True)
    return [
        {
            name: Result(Run(seconds=1 / rate, latencies_us=[rate]))
            for name, rate in zip(names, each, strict=True)
        }
        for each in values
    ]


def _scenario(stage: Stage, *measures: Measure) -> Scenario:
    target = stage.redis()
    load = OneByOne(("PING",), 1)
    return Scenario("PING", [Case(name, target, load) for name in ("direct", "other")], measures)


def test_ratios_are_taken_round_by_round(stage: Stage) -> None:
    """The machine was twice as fast in the second round, and no target improved."""
    first, other = measured(_scenario(stage, RATE), _rounds(direct=[100, 200], other=[50, 100]))
    assert (first.of_first, other.of_first) == ([1.0, 1.0], [0.5, 0.5])


def test_the_added_time_is_told_of_all_but_the_first(stage: Stage) -> None:
    scenario = _scenario(stage, percentile(50, beyond=True))
    (other,) = measured(scenario, _rounds(direct=[100, 200], other=[150, 180]))
    assert (other.target, other.figure, other.values) == ("other", "added p50, µs", [50, -20])


def test_figures_of_a_part_replace_those_that_were_there() -> None:
    row = Row("GET", 16, "ttlproxy", "requests/s", "direct", [9e4], [0.9], [])
    file = as_csv({"one": [row], "other": [row]})
    again = merged(file, {"one": [replace(row, values=[5.0])]})
    head, other, one = again.splitlines()
    assert (head, other) == (file.splitlines()[0], file.splitlines()[2])
    assert one == "one,GET,16,ttlproxy,requests/s,5,5,5,0.90,direct,"
