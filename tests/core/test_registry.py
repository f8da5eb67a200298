"""What a proxy knows of managed keys and their first deadlines; it must never miss one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ttlproxy.core.registry import Registry


def _reaped(registry: Registry, first_ms: int | None) -> None:
    registry.begin_reap((0, b"k"))
    registry.set_first_deadline((0, b"k"), first_ms)
    registry.end_reap((0, b"k"))


def test_an_announced_key_is_due_past_its_deadline_and_not_before() -> None:
    registry = Registry()
    registry.announced(0, b"k", 100)
    assert registry.due(b"k", 100) == []
    assert registry.due(b"k", 101) == [(0, b"k")]
    assert registry.due(b"other", 101) == []


def test_a_name_is_found_in_every_database_where_it_is_known() -> None:
    registry = Registry()
    registry.announced(0, b"k", 100)
    registry.announced(3, b"k", 50)
    registry.announced(5, b"x", 50)
    assert registry.due(b"k", 60) == [(3, b"k")]
    assert registry.places(b"k") == [(0, b"k"), (3, b"k")]
    assert b"x" in registry.bounds
    assert b"y" not in registry.bounds


def test_a_reap_raises_the_bound_and_ends_it_with_the_index() -> None:
    registry = Registry()
    registry.announced(0, b"k", 100)
    _reaped(registry, 200)
    assert registry.due(b"k", 150) == []
    assert registry.due(b"k", 201) == [(0, b"k")]
    _reaped(registry, None)
    assert b"k" not in registry.bounds
    assert registry.databases() == []


def test_a_reap_answered_before_an_announcement_does_not_undo_it() -> None:
    for deadline_ms, first_ms in ((40, 500), (40, None), (300, None)):
        registry = Registry()
        registry.announced(0, b"k", 100)
        registry.begin_reap((0, b"k"))
        registry.announced(0, b"k", deadline_ms)
        registry.begin_reap((0, b"k"))
        for _ in range(2):
            registry.set_first_deadline((0, b"k"), first_ms)
            registry.end_reap((0, b"k"))
        assert registry.due(b"k", 301) == [(0, b"k")]


def test_a_late_answer_of_three_reaps_does_not_undo_an_announcement() -> None:
    registry = Registry()
    registry.announced(0, b"k", 100)
    registry.begin_reap((0, b"k"))
    registry.begin_reap((0, b"k"))
    registry.set_first_deadline((0, b"k"), 200)
    registry.end_reap((0, b"k"))
    registry.announced(0, b"k", 300)
    registry.begin_reap((0, b"k"))
    registry.set_first_deadline((0, b"k"), None)
    assert registry.places(b"k") == [(0, b"k")]


def test_every_announced_deadline_wakes_the_reaper() -> None:
    woken: list[tuple[int, int]] = []
    registry = Registry(lambda db, deadline_ms: woken.append((db, deadline_ms)))
    registry.announced(2, b"k", 100)
    assert woken == [(2, 100)]


def test_what_a_reap_says_counts_once_those_before_it_are_over() -> None:
    registry = Registry()
    registry.begin_reap((0, b"k"))
    registry.announced(0, b"k", 100)
    registry.end_reap((0, b"k"))
    _reaped(registry, 200)
    assert registry.due(b"k", 150) == []
    registry.announced(0, b"k", 100)
    _reaped(registry, 200)
    assert registry.due(b"k", 150) == []


def test_managed_keys_are_listed_page_by_page_over_all_databases() -> None:
    registry = Registry()
    places = [(0, b"a"), (0, b"b"), (0, b"c"), (5, b"d"), (5, b"e")]
    for db, key in places:
        registry.announced(db, key, 100)
    for count in (1, 2, 3, 4, 5, 9):
        pages = [registry.listed(start, count) for start in range(0, 6, count)]
        assert [place for page in pages for place in page] == places


def test_a_database_without_keys_is_none_of_those_that_have_managed_ones() -> None:
    registry = Registry()
    registry.begin_load()
    registry.load(3, [])
    registry.end_load()
    assert registry.databases() == []
    with pytest.raises(RuntimeError):
        registry.load(3, [])


@given(st.integers(0, 1 << 46), st.integers(0, 1 << 40))
def test_a_bound_is_never_late_and_early_by_a_small_part_of_the_time_left(
    now_ms: int, left_ms: int
) -> None:
    registry, deadline_ms = Registry(), now_ms + left_ms
    registry.beat(now_ms)
    registry.announced(0, b"k", deadline_ms)
    assert registry.due(b"k", deadline_ms + 1) == [(0, b"k")]
    assert registry.due(b"k", deadline_ms - left_ms // 1024) == []


def test_far_deadlines_of_many_keys_share_their_numbers() -> None:
    """One number object for each key would be a fifth of the memory that a managed key may take."""
    registry = Registry()
    registry.begin_load(0)
    registry.load(0, ((b"%d" % n, 1_000_000_000 + 7 * n) for n in range(10_000)))
    registry.end_load()
    for number in range(10_000):
        registry.announced(0, b"%d" % -number, 1_000_000_000 + 7 * number)
    assert len({id(bound) for bound in registry.bounds.values()}) < 10
