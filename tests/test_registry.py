"""What a proxy knows of managed keys, and that it never knows too little."""

from hypothesis import given
from hypothesis import strategies as st

from ttlproxy.registry import PIN_BEATS, Registry


def _past_all_pins(registry: Registry) -> None:
    for _ in range(PIN_BEATS):
        registry.beat()


def _reaped(registry: Registry, first_ms: int | None) -> None:
    registry.reaping((0, b"k"))
    registry.reaped((0, b"k"), first_ms)
    registry.no_longer_reaping((0, b"k"))


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
    assert b"x" in registry.names
    assert b"y" not in registry.names


def test_a_reap_raises_the_bound_and_ends_it_with_the_index() -> None:
    registry = Registry()
    registry.announced(0, b"k", 100)
    _reaped(registry, 200)
    assert registry.due(b"k", 150) == []
    assert registry.due(b"k", 201) == [(0, b"k")]
    _reaped(registry, None)
    assert b"k" not in registry.names
    assert registry.databases() == []


def test_a_reap_answered_before_an_announcement_does_not_undo_it() -> None:
    for deadline_ms, first_ms in ((40, 500), (40, None), (300, None)):
        registry = Registry()
        registry.announced(0, b"k", 100)
        registry.reaping((0, b"k"))
        registry.announced(0, b"k", deadline_ms)
        registry.reaping((0, b"k"))
        for _ in range(2):
            registry.reaped((0, b"k"), first_ms)
            registry.no_longer_reaping((0, b"k"))
        assert registry.due(b"k", 301) == [(0, b"k")]


def test_a_late_answer_of_three_reaps_does_not_undo_an_announcement() -> None:
    registry = Registry()
    registry.announced(0, b"k", 100)
    registry.reaping((0, b"k"))
    registry.reaping((0, b"k"))
    registry.reaped((0, b"k"), 200)
    registry.no_longer_reaping((0, b"k"))
    registry.announced(0, b"k", 300)
    registry.reaping((0, b"k"))
    registry.reaped((0, b"k"), None)
    assert registry.places(b"k") == [(0, b"k")]


def test_of_announcements_in_any_order_the_earliest_counts() -> None:
    for first_ms, second_ms in ((100, 40), (40, 100)):
        registry = Registry()
        registry.begin_load()
        registry.announced(0, b"k", first_ms)
        registry.announced(0, b"k", second_ms)
        assert registry.due(b"k", 41) == [(0, b"k")]
        registry.end_load()
        assert registry.due(b"k", 41) == [(0, b"k")]


def test_a_pinned_key_is_managed_at_once_and_not_yet_due() -> None:
    registry = Registry()
    registry.pin(0, b"k")
    assert b"k" in registry.names
    assert registry.due(b"k", 10**15) == []


def test_no_answer_removes_a_key_while_a_request_that_may_manage_it_is_on_its_way() -> None:
    registry = Registry()
    registry.announced(0, b"k", 100)
    registry.pin(0, b"k")
    _reaped(registry, None)
    assert b"k" in registry.names
    registry.announced(0, b"k", 300)
    _past_all_pins(registry)
    assert registry.due(b"k", 301) == [(0, b"k")]


def test_a_pin_that_nothing_came_of_ends_after_some_heartbeats() -> None:
    registry = Registry()
    registry.pin(0, b"k")
    for _ in range(PIN_BEATS - 1):
        registry.beat()
        assert b"k" in registry.names
    registry.pin(0, b"k")
    registry.beat()
    assert b"k" in registry.names, "pinned anew"
    _past_all_pins(registry)
    assert b"k" not in registry.names
    assert len(registry) == 0


def test_loading_forgets_what_is_gone_and_keeps_what_came_meanwhile() -> None:
    registry = Registry()
    registry.announced(0, b"gone", 100)
    registry.begin_load()
    registry.load(0, [(b"k", 70)])
    registry.announced(1, b"new", 80)
    registry.announced(0, b"k", 60)
    registry.pin(0, b"pinned")
    assert b"gone" in registry.names, "until the new entries are whole"
    registry.end_load()
    assert set(registry.names) == {b"k", b"new", b"pinned"}
    assert registry.due(b"k", 61) == [(0, b"k")]


def test_every_announced_deadline_wakes_the_reaper() -> None:
    woken: list[tuple[int, int]] = []
    registry = Registry()
    registry.on_announcement(lambda db, deadline_ms: woken.append((db, deadline_ms)))
    registry.announced(2, b"k", 100)
    assert woken == [(2, 100)]


def test_after_a_swap_each_database_may_have_the_keys_of_both_and_anything_may_be_due() -> None:
    registry = Registry()
    registry.announced(0, b"k", 100)
    registry.announced(7, b"x", 50)
    registry.reaping((7, b"x"))
    registry.swapped(0, 7)
    assert set(registry.due(b"k", 1)) == set(registry.due(b"k", 1)) == {(0, b"k"), (7, b"k")}
    assert set(registry.places(b"x")) == {(0, b"x"), (7, b"x")}
    registry.reaped((7, b"x"), None)
    assert (7, b"x") in registry.places(b"x"), "the answer may be older than the swap"
    registry.swapped(3, 5)
    assert registry.databases() == [0, 7]
    assert {b"k", b"x"} == set(registry.names)


def test_a_swap_while_schedules_are_read_counts_for_what_was_read() -> None:
    registry = Registry()
    registry.begin_load()
    registry.load(0, [(b"k", 70)])
    registry.swapped(0, 1)
    registry.end_load()
    assert set(registry.places(b"k")) == {(0, b"k"), (1, b"k")}


def test_what_is_expected_is_looked_for_as_long_as_it_may_be_under_way() -> None:
    registry = Registry()
    registry.others(False)
    assert not registry.expecting
    registry.expect()
    assert registry.expecting
    for _ in range(PIN_BEATS):
        assert registry.expecting
        registry.beat()
    assert not registry.expecting


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
    """A number for each would be a fifth of what a managed key may cost."""
    registry = Registry()
    registry.begin_load(0)
    registry.load(0, ((b"%d" % n, 1_000_000_000 + 7 * n) for n in range(10_000)))
    registry.end_load()
    for number in range(10_000):
        registry.announced(0, b"%d" % -number, 1_000_000_000 + 7 * number)
    assert len({id(bound) for bound in registry.names.values()}) < 10
