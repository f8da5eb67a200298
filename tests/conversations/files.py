"""Conversations in text files, each a sentence and the lines of tests.support.conversation.

# About the next ones.
[every, no_reaper]             how they are sent: a name in SENT, and fixtures that they need
TEXT = some words              what {TEXT} stands for from here on

the sentence that the test says
  # Why.
  pop: LPOP l | RPOP l         one conversation for each value of {pop},
  size: 1 | 2                  with the value of {size} at the same place
  | start | stop               the same as a table
  | -1    | 0
    RPUSH l {start} -> 1
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.support.conversation import Way
from tests.support.error_texts import NOT_AN_INTEGER, WRONGTYPE
from tests.support.per_type import SENT, said_of


class Conversation(NamedTuple):
    """What is said, and in which way. `fixtures`: names of those that it needs."""

    text: str
    way: Way
    fixtures: list[str]


@dataclass
class _Part:
    """One title of a file, for all its values and ways. `constants`: what names stand for;
    `columns`: names with a value for each conversation; `table`: the same in rows, below names."""

    title: str
    sent: str
    fixtures: list[str]
    constants: dict[str, str]
    columns: dict[str, list[str]] = field(default_factory=dict)
    table: list[list[str]] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)

    def read(self, line: str) -> None:
        """Takes a line below the title."""
        said = line.strip()
        cells = [cell.strip() for cell in said.removeprefix("|").split(" | ")]
        name, _, first = cells[0].partition(": ")
        if line.startswith("    "):
            self.lines.append(said)
        elif said.startswith("|"):
            self.table.append(cells)
        elif len(cells) == 1:
            self.constants[name] = first
        else:
            self.columns[name] = [first, *cells[1:]]

    def conversations(self) -> Iterator[tuple[str, Conversation]]:
        """Each with a name."""
        names = [*self.columns, *(self.table[0] if self.table else ())]
        columns = [*self.columns.values(), *zip(*self.table[1:], strict=True)]
        for values in zip(*columns, strict=True) if names else [()]:
            text = "\n".join(self.lines)
            for name, value in {**self.constants, **dict(zip(names, values, strict=True))}.items():
                text = text.replace(f"{{{name}}}", value)
            for type_, way in SENT[self.sent]:
                name = "-".join(filter(None, (self.title, *values, type_, way.__name__)))
                yield name, Conversation(said_of(type_, text), way, self.fixtures)


def _parts(path: Path) -> Iterator[_Part]:
    sent, fixtures, part = "talk", list[str](), None
    constants = {"WRONGTYPE": WRONGTYPE, "NOT_AN_INTEGER": NOT_AN_INTEGER}
    for line in path.read_text().splitlines():
        if not line or line.lstrip().startswith("#"):
            continue
        if line.startswith(" "):
            assert part is not None, f"{path}: {line} has no title"
            part.read(line)
        elif line.startswith("["):
            sent, *fixtures = line.strip("[]").split(", ")
        elif " = " in line:
            name, _, constants[name] = line.partition(" = ")
        else:
            if part is not None:
                yield part
            part = _Part(line, sent, fixtures, dict(constants))
    if part is not None:
        yield part


def conversations(folder: Path) -> pytest.MarkDecorator:
    """One test for each conversation in the folder's files, and each way in which it is sent."""
    cases = [
        pytest.param(said, id=f"{path.stem}: {name}")
        for path in sorted(folder.glob("*.txt"))
        for part in _parts(path)
        for name, said in part.conversations()
    ]
    return pytest.mark.parametrize("said", cases)
