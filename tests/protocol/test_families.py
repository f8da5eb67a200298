"""The model of families finds the fault of today's hints, and none in the protocol that is to be.

The rest of the cases takes minutes: `python -m tests.protocol`.
"""

from collections.abc import Iterator

import pytest

from tests.protocol.__main__ import LACKS, SCENARIOS, explored
from tests.protocol.explorer import Explorer
from tests.protocol.families import Rules

# Those with some thousand states at most.
SMALL = ("one after the other", "B starts", "a flush", "a rule")
SMALL_LACKS = ("joins", "asks_all")


def test_hints_that_travel_by_pushes_let_a_new_value_die_by_an_old_deadline() -> None:
    found = explored(SCENARIOS["one after the other"], Rules(pushes_only=True))
    assert [*found.faults] == ["stale, causal"]
    assert found.faults["stale, causal"][-1] == "the reaper removes 'new'"


@pytest.mark.parametrize("name", SMALL)
def test_families_that_all_have_confirmed_let_none_die_and_nobody_waits_for_ever(name: str) -> None:
    found = explored(SCENARIOS[name], Rules())
    assert (found.faults, found.stuck) == ({}, None)


@pytest.mark.parametrize("rule", SMALL_LACKS)
def test_no_rule_may_be_left_out(rule: str) -> None:
    assert explored(SCENARIOS[LACKS[rule]], Rules()._replace(**{rule: False})).faults


def test_each_rule_has_a_case_without_it() -> None:
    assert {*LACKS, "pushes_only"} == {*Rules._fields}


def _explored(ways: dict[str, str], end: str, fault: str = "") -> object:
    """Of a model whose states are letters: `ways[state]` are those that follow."""

    def steps(state: str) -> Iterator[tuple[str, str]]:
        return ((f"to {after}", after) for after in ways.get(state, ""))

    explorer = Explorer(steps, lambda state: [state] if state == fault else [], end.__eq__)
    return explorer.explore("a", 100)


def test_the_explorer_gives_the_shortest_way_to_a_fault() -> None:
    ways = {"a": "bc", "b": "d", "c": "e", "d": "e", "e": "f"}
    assert _explored(ways, "f", "e") == (5, {"e": ["to c", "to e"]}, None)


def test_the_explorer_finds_a_state_that_leads_to_no_end() -> None:
    assert _explored({"a": "bc", "b": "f", "c": "c"}, "f") == (4, {}, ["to c"])
    assert _explored({"a": "bc", "b": "f", "c": "ca"}, "f") == (4, {}, None)


def test_the_explorer_ends_where_there_are_too_many_states() -> None:
    explorer = Explorer[int](lambda state: [("on", state + 1)], lambda _: [], lambda _: False)
    with pytest.raises(RuntimeError, match="more than 100 states"):
        explorer.explore(0, 100)
