"""Which tests a run takes: SHARES, by the kind of a test and the server that it runs on.

Knows pytest's items and their markers; starts nothing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from enum import Enum, auto
from itertools import pairwise
from typing import Final, NamedTuple
from zlib import crc32

import pytest

from tests.support.requirements import servers_of_a_run

# What these folders test hardly depends on the version of the server: other than the scripts.
_SERVERS_ALIKE: Final = {"chaos", "cluster", "data_path", "docs", "faults", "operations", "process"}

# A test with so many cases on a server has many, or very many.
_MANY: Final = 6
_VERY_MANY: Final = 12


class Kind(Enum):
    """What a test is, by its markers; the first that fits counts. CONTRIBUTING.md explains them."""

    SLOW_CASE = auto()  # `slow` is at these cases of a test, not at the test
    SLOW_ONE_OF = auto()  # the test has both markers
    SLOW = auto()
    EACH_SERVER = auto()
    ONE_OF = auto()
    ALIKE = auto()  # it is in a folder of _SERVERS_ALIKE, or is `long`
    VERY_MANY_ALIKE = auto()
    VERY_MANY = auto()
    MANY = auto()
    FEW = auto()


class Share(NamedTuple):
    """
    of: one of so many cases of a test
    by_turns: those, but each test on one of the servers only
    """

    of: int
    by_turns: bool = False


NONE: Final = Share(0)
ALL: Final = Share(1)
HALF: Final = Share(2)
THIRD: Final = Share(3)
QUARTER: Final = Share(4)
MARKED: Final = Share(-1)  # as many as the marker `one_of` says; all without one
ALL_BY_TURNS: Final = Share(1, by_turns=True)
HALF_BY_TURNS: Final = Share(2, by_turns=True)
THIRD_BY_TURNS: Final = Share(3, by_turns=True)


class Shares(NamedTuple):
    """What runs on a server.

    quick: in a quick run, which is on one server; newest: on the newest server of several, also of
    tests that need none, or any; older: on each of the others
    """

    quick: Share
    newest: Share
    older: Share


# A run on one server takes all, unless it is a quick one.
SHARES: Final = {
    Kind.SLOW_CASE: Shares(quick=NONE, newest=HALF, older=NONE),
    Kind.SLOW_ONE_OF: Shares(quick=NONE, newest=HALF_BY_TURNS, older=HALF_BY_TURNS),
    Kind.SLOW: Shares(quick=NONE, newest=ALL_BY_TURNS, older=ALL_BY_TURNS),
    Kind.EACH_SERVER: Shares(quick=MARKED, newest=ALL, older=ALL),
    Kind.ONE_OF: Shares(quick=MARKED, newest=MARKED, older=MARKED),
    Kind.ALIKE: Shares(quick=ALL, newest=ALL_BY_TURNS, older=ALL_BY_TURNS),
    Kind.VERY_MANY_ALIKE: Shares(quick=ALL, newest=THIRD_BY_TURNS, older=THIRD_BY_TURNS),
    Kind.VERY_MANY: Shares(quick=ALL, newest=THIRD, older=QUARTER),
    Kind.MANY: Shares(quick=ALL, newest=ALL, older=QUARTER),
    Kind.FEW: Shares(quick=ALL, newest=ALL, older=ALL_BY_TURNS),
}


# Kinds with a marker of their name.
_MARKED_KINDS: Final = (Kind.SLOW, Kind.EACH_SERVER, Kind.ONE_OF)


class _Test(NamedTuple):
    """A test on a server, without its cases; those that are marked as slow are one for themselves.

    server: its number among the servers that the test may run on, the newest last; of: how many
    """

    name: str
    server: int
    of: int
    slow_cases: bool

    @property
    def is_on_newest(self) -> bool:
        return self.server == self.of - 1


def selected(items: Iterable[pytest.Item], quick: bool) -> set[pytest.Item]:
    """The items that are to run."""
    servers = {killable: servers_of_a_run(killable) for killable in (False, True)}
    if len(servers[False]) == 1 and not quick:
        return {*items}
    tests = defaultdict[_Test, list[pytest.Item]](list)
    for item in items:
        tests[_test(item, servers["binary" in getattr(item, "fixturenames", ())])].append(item)
    found = set[pytest.Item]()
    for test, cases in tests.items():
        shares = SHARES[_kind(test, cases)]
        share = shares.quick if quick else shares.newest if test.is_on_newest else shares.older
        found.update(_some(test, cases, share))
    return found


def tenths_of(
    items: Iterable[pytest.Item], taken: set[pytest.Item], tenths: Sequence[int]
) -> set[pytest.Item]:
    """Every tenth of the items that are taken, from each of these on; all if there is none."""
    chosen = [item for item in items if item in taken]
    return {item for tenth in tenths for item in chosen[tenth::10]} if tenths else taken


def long_first(items: Iterable[pytest.Item], workers: int) -> list[pytest.Item]:
    """Each worker gets a contiguous part of the items: here all parts begin with long tests."""
    long, others = list[pytest.Item](), list[pytest.Item]()
    for item in items:
        (long if item.get_closest_marker("long") else others).append(item)
    ends = [len(others) * part // workers for part in range(workers + 1)]
    return [
        item
        for part, (begin, end) in enumerate(pairwise(ends))
        for item in (*long[part::workers], *others[begin:end])
    ]


def _test(item: pytest.Item, servers: Sequence[str]) -> _Test:
    case = getattr(item, "callspec", None)
    version = case.params.get("version") if case is not None else None
    needs_newest = item.get_closest_marker("any_server") and version == servers[-1]
    is_on_each = version is not None and not needs_newest
    return _Test(
        item.nodeid.partition("[")[0],
        servers.index(version) if is_on_each else 0,
        len(servers) if is_on_each else 1,
        case is not None and any(mark.name == "slow" for mark in case.marks),
    )


def _kind(test: _Test, cases: Sequence[pytest.Item]) -> Kind:
    if test.slow_cases:
        return Kind.SLOW_CASE
    of = {kind: cases[0].get_closest_marker(kind.name.lower()) for kind in _MARKED_KINDS}
    if of[Kind.SLOW] and of[Kind.ONE_OF]:
        return Kind.SLOW_ONE_OF
    for kind, marker in of.items():
        if marker:
            return kind
    are_very_many = len(cases) >= _VERY_MANY
    if _is_alike(cases[0]):
        return Kind.VERY_MANY_ALIKE if are_very_many else Kind.ALIKE
    if are_very_many:
        return Kind.VERY_MANY
    return Kind.MANY if len(cases) >= _MANY else Kind.FEW


def _is_alike(item: pytest.Item) -> bool:
    folders = item.nodeid.partition("::")[0].split("/")
    return bool(_SERVERS_ALIKE.intersection(folders)) or bool(item.get_closest_marker("long"))


def _some(test: _Test, cases: Sequence[pytest.Item], share: Share) -> Sequence[pytest.Item]:
    """The share of the cases; not the same ones on each of several older servers."""
    is_elsewhere = share.by_turns and crc32(test.name.encode()) % test.of != test.server
    if share == NONE or is_elsewhere:
        return ()
    of = share.of
    if share == MARKED:
        marker = cases[0].get_closest_marker("one_of")
        of = marker.args[0] if marker is not None else 1
    begin = 0 if test.is_on_newest or share.by_turns else test.server % min(of, len(cases))
    return cases[begin::of]
