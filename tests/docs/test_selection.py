"""Which cases of a test run, by its markers and its server. The items stand for pytest's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from tests.support import selection
from tests.support.selection import selected

SERVERS = ["6.2", "7.0"]


@dataclass(frozen=True)
class Case:
    marks: Sequence[pytest.Mark]
    params: dict[str, object]


@dataclass(eq=False)
class Item:
    nodeid: str
    marks: Sequence[pytest.Mark] = ()
    callspec: Case | None = None
    fixturenames: Sequence[str] = field(default=("version",))

    def get_closest_marker(self, name: str) -> pytest.Mark | None:
        case = self.callspec.marks if self.callspec else ()
        return next((mark for mark in (*case, *self.marks) if mark.name == name), None)


@pytest.fixture(autouse=True)
def _two_servers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selection, "servers_of_a_run", lambda killable: SERVERS)


def _items(
    name: str,
    cases: int,
    *marks: pytest.MarkDecorator,
    slow_from: int = 99,
    slow: Sequence[pytest.MarkDecorator] = (pytest.mark.slow,),
) -> list[Item]:
    """A test with so many cases on each server, of which those from `slow_from` on are slow."""
    return [
        Item(
            f"{name}[redis-{version}-{number}]",
            [each.mark for each in marks],
            Case([each.mark for each in slow if number >= slow_from], {"version": version}),
        )
        for version in SERVERS
        for number in range(cases)
    ]


def _taken(items: Sequence[Item], quick: bool = False) -> tuple[list[int], list[int]]:
    """The numbers of the cases that run on 6.2, and on 7.0."""
    found = selected(cast(Any, items), quick)
    names = [item.nodeid for item in items if item in cast(Any, found)]
    older, newest = (
        [int(name.rpartition("-")[2][:-1]) for name in names if f"[redis-{version}-" in name]
        for version in SERVERS
    )
    return older, newest


def _on_newest(items: Sequence[Item]) -> list[Item]:
    return [item for item in items if "7.0" in item.nodeid]


mark = pytest.mark
ALL = list(range(9))
HALF = ALL[::2]


@pytest.mark.parametrize(
    ("marks", "older", "newest", "quick"),
    [
        ([], [0, 4, 8], ALL, ALL),
        ([mark.one_of(3)], [0, 3, 6], [0, 3, 6], [0, 3, 6]),
        ([mark.each_server, mark.one_of(3)], ALL, ALL, [0, 3, 6]),
    ],
    ids=["no marker", "one_of", "each_server"],
)
def test_older_servers_and_quick_runs_have_a_share_of_many_cases(
    marks: list[pytest.MarkDecorator], older: list[int], newest: list[int], quick: list[int]
) -> None:
    items = _items("test", 9, *marks)
    assert _taken(items) == (older, newest)
    assert _taken(_on_newest(items), quick=True) == ([], quick)


def test_of_very_many_cases_the_newest_server_runs_a_third() -> None:
    items, every = _items("test", 20), list(range(20))
    assert _taken(items) == (every[::4], every[::3])
    assert _taken(_on_newest(items), quick=True) == ([], every)


def test_of_tests_with_few_cases_an_older_server_runs_half() -> None:
    taken, few = [_taken(_items(f"test_{number}", 5)) for number in range(20)], ALL[:5]
    assert taken.count((few, few)) + taken.count(([], few)) == 20
    assert (few, few) in taken
    assert ([], few) in taken


@pytest.mark.parametrize(
    ("marks", "ran"), [([mark.slow], ALL), ([mark.slow, mark.one_of(3)], HALF)], ids=["all", "half"]
)
def test_a_slow_test_runs_on_one_server_and_several_of_them_on_all(
    marks: list[pytest.MarkDecorator], ran: list[int]
) -> None:
    taken = [_taken(_items(f"test_{number}", 9, *marks)) for number in range(20)]
    assert taken.count((ran, [])) + taken.count(([], ran)) == 20
    assert ([], ran) in taken
    assert (ran, []) in taken
    assert _taken(_on_newest(_items("test", 2, mark.slow)), quick=True) == ([], [])


@pytest.mark.parametrize(
    ("name", "marks", "cases", "ran"),
    [
        ("tests/faults/test_kills.py::test_{}", [], 3, [0, 1, 2]),
        ("tests/faults/test_kills.py::test_{}", [], 13, [0, 3, 6, 9, 12]),
        ("tests/semantics/test_sets.py::test_{}", [mark.long], 3, [0, 1, 2]),
    ],
    ids=["folder", "folder, very many", "long"],
)
def test_where_the_version_hardly_matters_a_test_runs_on_one_server(
    name: str, marks: list[pytest.MarkDecorator], cases: int, ran: list[int]
) -> None:
    taken = [_taken(_items(name.format(number), cases, *marks)) for number in range(20)]
    assert taken.count((ran, [])) + taken.count(([], ran)) == 20
    assert ([], ran) in taken
    assert (ran, []) in taken
    always = _items(name.format(0), cases, *marks, mark.each_server)
    assert _taken(always) == ([*range(cases)], [*range(cases)])


@pytest.mark.parametrize("slow", [[mark.slow], [mark.slow, mark.any_server]], ids=len)
def test_half_of_the_slow_cases_run_on_the_newest_server(
    slow: list[pytest.MarkDecorator],
) -> None:
    items = _items("test", 5, slow_from=2, slow=slow)
    assert _taken(items) == ([0, 1], [0, 1, 2, 4])
    assert _taken(_on_newest(items), quick=True) == ([], [0, 1])


def test_a_run_on_one_server_takes_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selection, "servers_of_a_run", lambda killable: SERVERS[1:])
    for marks in ([mark.slow, mark.one_of(3)], [mark.one_of(3)], []):
        assert _taken(_on_newest(_items("test", 9, *marks, slow_from=5))) == ([], ALL)


@pytest.mark.parametrize("marks", [[], [mark.slow]], ids=len)
def test_all_cases_run_of_a_test_that_needs_no_server_or_any(
    marks: list[pytest.MarkDecorator],
) -> None:
    needs_any = _on_newest(_items("test", 9, mark.any_server, *marks))
    assert _taken(needs_any) == ([], ALL)
    needs_none = [Item("test", [each.mark for each in marks], fixturenames=())]
    assert len(selected(cast(Any, needs_none), quick=False)) == 1
