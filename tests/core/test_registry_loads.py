"""Schedules that are read while announcements, reaps and swaps of databases go on."""

import pytest

from ttlproxy.core.registry import Owner, Registry


def test_of_announcements_in_any_order_the_earliest_counts() -> None:
    for first_ms, second_ms in ((100, 40), (40, 100)):
        registry = Registry()
        registry.begin_load()
        registry.announced(0, b"k", first_ms)
        registry.announced(0, b"k", second_ms)
        assert registry.due(b"k", 41) == [(0, b"k")]
        registry.end_load()
        assert registry.due(b"k", 41) == [(0, b"k")]


def test_loading_forgets_what_is_gone_and_keeps_what_came_meanwhile() -> None:
    registry = Registry()
    registry.announced(0, b"gone", 100)
    registry.begin_load()
    registry.load(0, [(b"k", 70)])
    registry.announced(1, b"new", 80)
    registry.announced(0, b"k", 60)
    registry.pin(0, b"pinned", Owner())
    assert b"gone" in registry.bounds, "until the new entries are whole"
    registry.end_load()
    assert set(registry.bounds) == {b"k", b"new", b"pinned"}
    assert registry.due(b"k", 61) == [(0, b"k")]


def test_a_load_does_not_take_a_key_that_is_pinned_twice_for_managed() -> None:
    registry, one, other = Registry(), Owner(lambda: False), Owner()
    registry.pin(0, b"k", one)
    registry.barrier()
    registry.pin(0, b"k", one)
    registry.begin_load()
    registry.end_load()
    assert registry.may_have_index(b"k", one)
    assert not registry.may_have_index(b"k", other)


def test_what_is_read_late_does_not_undo_an_announcement() -> None:
    registry = Registry()
    registry.begin_load()
    registry.announced(0, b"k", 60)
    registry.load(0, [(b"k", 70)])
    registry.end_load()
    assert registry.due(b"k", 61) == [(0, b"k")]


@pytest.mark.parametrize("first_ms", [5000, None])
def test_a_reap_that_was_out_when_schedules_were_read_undoes_nothing_of_it(
    first_ms: int | None,
) -> None:
    """It may be older than a missed announcement, which is why the schedules are read."""
    registry = Registry()
    registry.announced(0, b"k", 50)
    registry.begin_reap((0, b"k"))
    registry.begin_load()
    registry.load(0, [(b"k", 60)])
    registry.end_load()
    registry.set_first_deadline((0, b"k"), first_ms)
    registry.end_reap((0, b"k"))
    assert registry.due(b"k", 61) == [(0, b"k")]


def test_a_database_whose_schedule_cannot_be_read_is_known_as_before() -> None:
    registry = Registry()
    registry.announced(0, b"k", 60)
    registry.announced(1, b"gone", 60)
    registry.begin_load()
    registry.load_known(0)
    registry.end_load()
    assert set(registry.bounds) == {b"k"}
    assert registry.due(b"k", 61) == [(0, b"k")]


def test_after_a_swap_each_database_may_have_the_keys_of_both_and_anything_may_be_due() -> None:
    registry = Registry()
    registry.announced(0, b"k", 100)
    registry.announced(7, b"x", 50)
    registry.begin_reap((7, b"x"))
    registry.swapped(0, 7)
    assert set(registry.due(b"k", 1)) == set(registry.due(b"k", 1)) == {(0, b"k"), (7, b"k")}
    assert set(registry.places(b"x")) == {(0, b"x"), (7, b"x")}
    registry.set_first_deadline((7, b"x"), None)
    assert (7, b"x") in registry.places(b"x"), "the answer may be older than the swap"
    registry.swapped(3, 5)
    assert registry.databases() == [0, 7]
    assert {b"k", b"x"} == set(registry.bounds)


def test_a_swap_while_schedules_are_read_counts_for_what_was_read() -> None:
    registry = Registry()
    registry.begin_load()
    registry.load(0, [(b"k", 70)])
    registry.swapped(0, 1)
    registry.end_load()
    assert set(registry.places(b"k")) == {(0, b"k"), (1, b"k")}


def test_a_swap_of_other_databases_leaves_a_reap_as_it_is() -> None:
    for swapped in (Registry.swapped, Registry.perhaps_swapped):
        registry = Registry()
        registry.announced(3, b"k", 100)
        registry.begin_reap((3, b"k"))
        swapped(registry, 0, 7)
        registry.set_first_deadline((3, b"k"), 200)
        assert registry.due(b"k", 150) == []


def test_the_bound_of_a_key_is_the_earliest_of_all_databases_after_a_swap() -> None:
    for swapped, bound_ms in ((Registry.swapped, 0), (Registry.perhaps_swapped, 100)):
        registry = Registry()
        registry.announced(0, b"k", 100)
        registry.announced(1, b"x", 50)
        swapped(registry, 0, 1)
        assert registry.bounds[b"k"] == bound_ms
        registry.set_first_deadline((0, b"k"), 300)
        registry.set_first_deadline((1, b"k"), 200)
        assert registry.bounds[b"k"] == 200


def test_before_anything_is_known_announcements_are_looked_for() -> None:
    assert Registry().expecting


def test_schedules_that_nobody_has_begun_to_read_are_no_news() -> None:
    for read in (lambda registry: registry.load(0, []), Registry.end_load):
        with pytest.raises(RuntimeError):
            read(Registry())
