"""Which tests run, by markers, folders and servers. The items stand for pytest's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from tests.support import selection
from tests.support.selection import long_first, selected, tenths_of

SERVERS = ["6.2", "7.0"]


@dataclass(frozen=True)
class Case:
    params: dict[str, object]


@dataclass(eq=False)
class Item:
    nodeid: str
    marks: Sequence[pytest.MarkDecorator] = ()
    callspec: Case | None = None
    fixturenames: Sequence[str] = field(default=("version",))

    def get_closest_marker(self, name: str) -> pytest.MarkDecorator | None:
        return next((mark for mark in self.marks if mark.name == name), None)


@pytest.fixture(autouse=True)
def _two_servers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selection, "servers_of_a_run", lambda killable: SERVERS)


def _runs_on(file: str, *marks: pytest.MarkDecorator, quick: bool = False) -> list[str]:
    items = [Item(f"tests/{file}::test", marks, Case({"version": each})) for each in SERVERS]
    found = selected(cast(Any, items), quick)
    return [str(each.callspec.params["version"]) for each in cast(Any, items) if each in found]


mark = pytest.mark


@pytest.mark.parametrize(
    ("file", "marks", "servers"),
    [
        ("semantics/test_sets.py", [], SERVERS),
        ("semantics/test_sets.py", [mark.long], ["7.0"]),
        ("semantics/test_sets.py", [mark.slow], ["7.0"]),
        ("faults/test_kills.py", [], ["7.0"]),
        ("faults/test_kills.py", [mark.slow], ["7.0"]),
        ("faults/test_kills.py", [mark.each_server], SERVERS),
        ("faults/test_kills.py", [mark.long, mark.each_server], SERVERS),
    ],
)
def test_older_servers_run_what_depends_on_the_version(
    file: str, marks: list[pytest.MarkDecorator], servers: list[str]
) -> None:
    assert _runs_on(file, *marks) == servers


def test_a_quick_run_leaves_out_slow_tests() -> None:
    assert _runs_on("faults/test_kills.py", quick=True) == ["7.0"]
    assert _runs_on("faults/test_kills.py", mark.slow, quick=True) == []


def test_a_test_that_needs_no_server_runs() -> None:
    item = Item("tests/core/test_keys.py::test", fixturenames=())
    assert len(selected(cast(Any, [item]), quick=True)) == 1


def test_a_tenth_is_every_tenth_of_the_tests_that_would_run() -> None:
    items = [Item(str(number)) for number in range(40)]
    taken = {item for item in items if item.nodeid != "0"}
    found = tenths_of(cast(Any, items), cast(Any, taken), [3, 0])
    assert {int(item.nodeid) for item in found} == {1, 4, 11, 14, 21, 24, 31, 34}
    assert len(tenths_of(cast(Any, items), cast(Any, taken), [])) == 39


def test_each_worker_begins_with_long_tests() -> None:
    items = [Item(name, [mark.long] * (name in "bd")) for name in "abcdef"]
    found = long_first(cast(Any, items), workers=2)
    assert [item.nodeid for item in found] == ["b", "a", "c", "d", "e", "f"]
