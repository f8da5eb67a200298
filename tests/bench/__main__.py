"""Runs the benchmark and prints its table: `python -m tests.bench --help`."""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from collections import defaultdict
from contextlib import ExitStack
from pathlib import Path
from statistics import median

from tests.bench.measure import CLIENTS, VALUE_BYTES, requests_per_second
from tests.bench.targets import start_all

TESTS = ("GET", "SET")
PIPELINES = (1, 16, 64)
# Requests of one measurement, so that each takes one to two seconds.
REQUESTS = {1: 40_000, 16: 400_000, 64: 800_000}

Figures = dict[tuple[str, int], dict[str, list[float]]]


def _measure(targets: dict[str, int], rounds: int, share: float) -> Figures:
    """Rounds through all targets, each round beginning with another one."""
    figures: Figures = defaultdict(lambda: defaultdict(list))
    names = list(targets)
    for number in range(rounds):
        turn = number % len(names)
        for test in TESTS:
            for pipeline in PIPELINES:
                for name in names[turn:] + names[:turn]:
                    rate = requests_per_second(
                        targets[name], test, pipeline, int(REQUESTS[pipeline] * share)
                    )
                    figures[test, pipeline][name].append(rate)
        print(f"round {number + 1} of {rounds} done", file=sys.stderr)
    return figures


def _ratio(mine: list[float], others: list[float] | None) -> str:
    """The median of the ratios round by round."""
    if not others:
        return "-"
    return f"{median(a / b for a, b in zip(mine, others, strict=True)):.2f}"


def _table(figures: Figures) -> str:
    lines = [
        "| test | pipeline | target | requests/s, median | min to max | of direct | of HAProxy |",
        "|---|---|---|---|---|---|---|",
    ]
    for (test, pipeline), rates in figures.items():
        for name, each in rates.items():
            lines.append(
                f"| {test} | {pipeline} | {name} | {median(each):,.0f}"
                f" | {min(each):,.0f} to {max(each):,.0f}"
                f" | {_ratio(each, rates['direct'])} | {_ratio(each, rates.get('haproxy'))} |"
            )
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser("python -m tests.bench", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5, help="interleaved rounds (default: 5)")
    parser.add_argument("--share", type=float, default=1.0, help="of the usual requests")
    parser.add_argument("--json", type=Path, help="a file for all figures")
    options = parser.parse_args()
    if not shutil.which("redis-benchmark"):
        print("redis-benchmark is needed (Debian: redis-tools)", file=sys.stderr)
        return 2
    with ExitStack() as stack:
        figures = _measure(start_all(stack), options.rounds, options.share)
    print(f"{CLIENTS} clients, values of {VALUE_BYTES} bytes; ratios are medians of each round's")
    print(_table(figures))
    if options.json:
        rows = [
            {"test": test, "pipeline": pipeline, "requests_per_second": rates}
            for (test, pipeline), rates in figures.items()
        ]
        options.json.write_text(json.dumps(rows, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
