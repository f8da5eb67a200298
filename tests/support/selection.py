"""Which tests a run takes: on which servers, and whether slow ones.

Knows pytest's items and their markers; starts nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Final

import pytest

from tests.support.requirements import servers_of_a_run

# What these folders test may depend on the version of the server: what scripts do there, and which
# commands it has. Other tests run on the newest server alone.
_EACH_SERVER: Final = {"conversations", "dialects", "features", "redis_py", "semantics"}


def selected(items: Iterable[pytest.Item], quick: bool) -> set[pytest.Item]:
    """The items that are to run: all on the newest server, but without slow ones in a quick run."""
    newest = {killable: servers_of_a_run(killable)[-1:] for killable in (False, True)}
    return {
        item
        for item in items
        if _is_on_one_of(newest["binary" in getattr(item, "fixturenames", ())], item)
        and not (quick and item.get_closest_marker("slow"))
    }


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


def _is_on_one_of(newest: Sequence[str], item: pytest.Item) -> bool:
    """Whether it is on the newest server or on none, or runs on each."""
    case = getattr(item, "callspec", None)
    version = case.params.get("version") if case is not None else None
    return version is None or version in newest or _depends_on_version(item)


def _depends_on_version(item: pytest.Item) -> bool:
    folders = item.nodeid.partition("::")[0].split("/")
    is_slow_or_long = any(map(item.get_closest_marker, ("slow", "long")))
    in_folder = bool(_EACH_SERVER.intersection(folders)) and not is_slow_or_long
    return in_folder or bool(item.get_closest_marker("each_server"))
