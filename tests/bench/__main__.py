"""Runs the benchmark and prints its table: `python -m tests.bench --help`."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from contextlib import ExitStack
from pathlib import Path

from tests.bench import report
from tests.bench.parts import PARTS, Part
from tests.bench.scenarios import Result, Row, measured, one_round
from tests.bench.targets import Stage, find_program

_BY_NAME = {part.name: part for part in PARTS}
_HELP = "\n".join(f"  {part.name:<12}{part.summary}" for part in PARTS)


def run(part: Part, share: float, rounds: int) -> tuple[list[Row], list[str]]:
    """The figures of a part, and what is missing among them and why."""
    missing = [program for program in part.needs if find_program(program) is None]
    if missing:
        return [], [f"{part.name}: {program} is not installed" for program in missing]
    with ExitStack() as stack:
        stage = Stage(stack, share)
        scenarios = part.scenarios(stage)
        results: list[list[dict[str, Result]]] = [[] for _ in scenarios]
        for number in range(rounds):
            for scenario, each in zip(scenarios, results, strict=True):
                each.append(one_round(scenario))
            print(f"{part.name}: round {number + 1} of {rounds} done", file=sys.stderr)
    rows = [
        row
        for scenario, each in zip(scenarios, results, strict=True)
        for row in measured(scenario, each)
    ]
    return rows, [f"{part.name}: {reason}" for reason in stage.absent]


def _parts(text: str) -> list[Part]:
    names = _BY_NAME if text == "all" else text.split(",")
    try:
        return [_BY_NAME[name] for name in names]
    except KeyError as unknown:
        raise argparse.ArgumentTypeError(f"there is no part {unknown}") from None


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        "python -m tests.bench",
        description=__doc__,
        epilog=f"parts:\n{_HELP}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--only",
        type=_parts,
        default=_parts("plain"),
        metavar="PART,...",
        help="the parts to run, or all (default: plain)",
    )
    parser.add_argument("--rounds", type=int, default=7, help="interleaved rounds (default: 7)")
    parser.add_argument(
        "--share", type=float, default=1.0, help="of the usual requests, keys and elements"
    )
    parser.add_argument(
        "--csv", type=Path, help="a file for all figures, after each part anew, as docs/figures.csv"
    )
    parser.add_argument(
        "--into", type=Path, help="docs/figures.csv: the rows of these parts are replaced"
    )
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> int:
    options = _options(arguments)
    # Without byte code a proxy keeps 8 MiB that it needed to compile; an installed one does not.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    parts: dict[str, list[Row]] = {}
    absent: list[str] = []
    for part in options.only:
        parts[part.name], reasons = run(part, options.share, options.rounds)
        absent += reasons
        if options.csv:
            options.csv.write_text(report.as_csv(parts))
    if options.into:
        options.into.write_text(report.merged(options.into.read_text(), parts))
    for reason in absent:
        print(f"left out: {reason}")
    print("Ratios are medians of each round's, to direct, or to what is named behind them.")
    print(report.table([row for rows in parts.values() for row in rows]))
    return 0


if __name__ == "__main__":
    # SIGTERM must end what was started, too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    sys.exit(main())
