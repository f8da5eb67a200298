"""Figures as a table for people and as CSV. Does not know how they were measured."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from statistics import median

from tests.bench.scenarios import Row
from tests.bench.targets import DIRECT


def table(rows: Sequence[Row]) -> str:
    """A Markdown table."""
    head = ("test", "pipeline", "target", "figure", "median", "min to max")
    lines = [(*head, "of direct", "of HAProxy"), ("---",) * 8, *map(_cells, rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _cells(row: Row) -> tuple[str, ...]:
    return (
        row.test,
        "-" if row.pipeline is None else str(row.pipeline),
        row.target,
        row.figure,
        _number(row.median),
        f"{_number(min(row.values))} to {_number(max(row.values))}",
        _ratio(row.of_first) + _of(row),
        _ratio(row.of_haproxy),
    )


def _of(row: Row) -> str:
    """The case that the first ratio compares with, if the heading does not name it."""
    return "" if row.first.startswith(DIRECT) or not row.of_first else f" ({row.first})"


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def _ratio(ratios: Sequence[float]) -> str:
    return f"{median(ratios):.2f}" if ratios else "-"


def as_csv(parts: Mapping[str, Sequence[Row]]) -> str:
    """The format of docs/figures.csv, which the pages quote: figures rounded as in the table."""
    lines = io.StringIO()
    writer = csv.writer(lines, lineterminator="\n")
    head = ("part", "test", "pipeline", "target", "figure", "median", "min", "max")
    writer.writerow((*head, "ratio", "of", "of_haproxy"))
    for part, rows in parts.items():
        for row in rows:
            case = (row.test, row.pipeline, row.target, row.figure)
            numbers = (row.median, min(row.values), max(row.values))
            ratios = [_ratio(each) if each else "" for each in (row.of_first, row.of_haproxy)]
            plain = (_number(number).replace(",", "") for number in numbers)
            of = row.first if row.of_first else ""
            writer.writerow((part, *case, *plain, ratios[0], of, ratios[1]))
    return lines.getvalue()


def merged(file: str, parts: Mapping[str, Sequence[Row]]) -> str:
    """`file`, in the format of `as_csv`, with these figures in place of those of their parts."""
    new = as_csv(parts)
    kept = [line for line in file.splitlines(True)[1:] if line.partition(",")[0] not in parts]
    head, rows = new.split("\n", 1)
    return f"{head}\n{''.join(kept)}{rows}"
