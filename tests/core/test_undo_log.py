"""What a registry has given up since some time can be had again."""

from __future__ import annotations

import pytest

from tests.support.session_world import read_registry
from ttlproxy.core import undo_log as module
from ttlproxy.core.keys import SLOTS
from ttlproxy.core.registry import Registry
from ttlproxy.core.undo_log import UndoLog


def _registry() -> tuple[Registry, UndoLog]:
    registry = read_registry()
    undo_log = registry.undo_log = UndoLog()
    return registry, undo_log


def _reaped(registry: Registry, key: bytes, first_ms: int | None) -> None:
    registry.begin_reap((0, key))
    registry.set_first_deadline((0, key), first_ms)
    registry.end_reap((0, key))


def test_the_earliest_bound_of_each_key_comes_back() -> None:
    registry, undo_log = _registry()
    registry.announced(0, b"k", 100)
    registry.announced(0, b"gone", 50)
    first = undo_log.begin_part(7)
    _reaped(registry, b"k", 200)
    _reaped(registry, b"gone", None)
    second = undo_log.begin_part(7)
    _reaped(registry, b"k", 300)
    assert undo_log.since(first).raised == {b"k": 100, b"gone": 50}
    assert undo_log.since(second).raised == {b"k": 200}
    assert undo_log.since(undo_log.begin_part(7)).raised == {}


def test_a_key_that_came_back_meanwhile_does_not_hide_that_it_was_given_up() -> None:
    registry, undo_log = _registry()
    registry.announced(0, b"k", 100)
    _reaped(registry, b"k", None)
    registry.announced(0, b"k", 400)
    _reaped(registry, b"k", 500)
    assert undo_log.since(0).raised == {b"k": 100}


def test_forgetting_all_keys_interrupts_all_slots() -> None:
    registry, undo_log = _registry()
    before, after = undo_log.begin_part(7), undo_log.begin_part(7)
    registry.forget_all()
    last = undo_log.begin_part(7)
    assert undo_log.since(before).slots == undo_log.since(after).slots == set(range(SLOTS))
    assert undo_log.since(last).slots == set()
    assert undo_log.interrupted_in == after


def test_dropped_parts_are_not_needed_any_more() -> None:
    undo_log = UndoLog()
    for number in range(1, 4):
        undo_log.interrupted([number])
        undo_log.raised(b"%d" % number, number)
        undo_log.begin_part(7)
    undo_log.drop(2)
    assert undo_log.since(0) == ({b"3": 3}, {3}, 7)
    undo_log.drop(99)
    undo_log.raised(b"last", 7)
    assert undo_log.since(0).raised == {b"last": 7}


def test_of_too_much_nothing_is_kept_and_all_slots_are_interrupted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "MOST", 3)
    undo_log = UndoLog()
    for number in range(4):
        undo_log.raised(b"%d" % number, 0)
    assert undo_log.since(0) == ({}, set(range(SLOTS)), 0)
    part = undo_log.begin_part(7)
    undo_log.raised(b"k", 5)
    assert undo_log.since(part) == ({b"k": 5}, set(), 7)


def test_deadlines_that_were_read_ahead_since_do_not_count_for_a_replica_that_is_behind() -> None:
    """A key may have come and gone at the master that the replica still has."""
    undo_log = UndoLog()
    first, second = undo_log.begin_part(100), undo_log.begin_part(200)
    assert undo_log.since(first).until_ms == 100
    assert undo_log.since(second).until_ms == 200
