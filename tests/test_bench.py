"""The benchmark runs: each of its parts, with next to nothing to do, gives each of its figures."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import ExitStack
from math import isfinite
from pathlib import Path

import pytest

from tests.bench.__main__ import main
from tests.bench.parts import PARTS, Part
from tests.bench.report import table
from tests.bench.scenarios import Row, Scenario, measured, one_round
from tests.bench.targets import Stage, find_program
from tests.require import absent

SHARE = 0.0005
# redis-benchmark takes half a second to connect so many, before it begins.
MANY = "500 clients"


def _quick(scenarios: Sequence[Scenario]) -> list[Scenario]:
    """All but those with many clients, and one of them."""
    few = [scenario for scenario in scenarios if MANY not in scenario.name]
    return few + [scenario for scenario in scenarios if MANY in scenario.name][:1]


def _figures(scenario: Scenario) -> set[tuple[str, str]]:
    """(target, figure) of all that a scenario is to give."""
    return {
        (case.name, measure.name)
        for number, case in enumerate(scenario.cases)
        for measure in scenario.measures
        if (case.target.proxy or not measure.of_proxy) and (number or not measure.beyond)
    }


@pytest.mark.parametrize("part", PARTS, ids=lambda part: part.name)
def test_each_scenario_gives_each_of_its_figures(part: Part) -> None:
    for program in part.needs:
        if find_program(program) is None:
            absent(program, f"{program} is not installed")
    rows: list[Row] = []
    with ExitStack() as stack:
        scenarios = _quick(part.scenarios(Stage(stack, SHARE)))
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
    file = tmp_path / "figures.json"
    assert (
        main(["--only", "latency", "--share", "0.001", "--rounds", "3", "--json", str(file)]) == 0
    )
    printed = capsys.readouterr().out
    figures = json.loads(file.read_text())["figures"]
    assert {len(row["values"]) for row in figures} == {3}
    assert {row["target"] for row in figures} >= {"direct", "ttlproxy"}
    assert all(f"| {row['target']} | {row['figure']} |" in printed for row in figures)


def test_a_figure_of_one_kind_stands_in_the_heading() -> None:
    row = Row("GET", 16, "ttlproxy", "requests/s", "direct", [9e4, 1e5, 5e4], [0.9, 0.8, 0.7], [])
    assert table([row]).splitlines() == [
        "| test | pipeline | target | requests/s, median | min to max | of direct | of HAProxy |",
        "|---|---|---|---|---|---|---|",
        "| GET | 16 | ttlproxy | 90,000 | 50,000 to 100,000 | 0.80 | - |",
    ]
