"""What a proxy knows of managed keys; it must never miss one."""

from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ttlproxy.core.registry import MOST_KEPT, PIN_BARRIERS, Owner, Place, Registry


def _past_all_pins(registry: Registry) -> None:
    for _ in range(PIN_BARRIERS):
        registry.barrier()


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
    registry.pin(0, b"k", Owner())
    assert b"k" in registry.names
    assert registry.due(b"k", 10**15) == []


def test_what_others_have_only_asked_for_is_no_index_yet() -> None:
    registry, one, other = Registry(), Owner(), Owner()
    assert not registry.may_have_index(b"k", one)
    registry.pin(0, b"k", one)
    assert registry.may_have_index(b"k", one)
    assert not registry.may_have_index(b"k", other)
    registry.announced(0, b"k", 100)
    assert registry.may_have_index(b"k", other)
    registry.pin(0, b"k", one)
    assert registry.may_have_index(b"k", other), "known before it was pinned"
    _reaped(registry, None)
    assert registry.may_have_index(b"k", other), "whose pins there were is not known any more"
    _past_all_pins(registry)
    assert not registry.may_have_index(b"k", one)


def test_no_answer_removes_a_key_while_a_request_that_may_manage_it_is_on_its_way() -> None:
    registry = Registry()
    registry.announced(0, b"k", 100)
    registry.pin(0, b"k", Owner())
    _reaped(registry, None)
    assert b"k" in registry.names
    assert registry.due(b"k", 200) == []
    registry.announced(0, b"k", 300)
    _past_all_pins(registry)
    assert registry.due(b"k", 301) == [(0, b"k")]


def test_a_pin_that_nothing_came_of_ends_after_some_barriers() -> None:
    registry = Registry()
    registry.pin(0, b"k", Owner())
    for _ in range(PIN_BARRIERS - 1):
        registry.barrier()
        assert b"k" in registry.names
    registry.pin(0, b"k", Owner())
    registry.barrier()
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
    registry.pin(0, b"pinned", Owner())
    assert b"gone" in registry.names, "until the new entries are whole"
    registry.end_load()
    assert set(registry.names) == {b"k", b"new", b"pinned"}
    assert registry.due(b"k", 61) == [(0, b"k")]


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
    assert set(registry.names) == {b"k"}
    assert registry.due(b"k", 61) == [(0, b"k")]


def test_what_was_read_of_a_pinned_key_counts_for_longer_than_the_pin() -> None:
    registry = Registry()
    registry.pin(0, b"there", Owner())
    registry.pin(0, b"not there", Owner())
    registry.announced(0, b"gone", 50)
    registry.pin(0, b"gone", Owner())
    registry.begin_load()
    registry.load(0, [(b"there", 70)])
    registry.end_load()
    assert set(registry.names) == {b"there", b"not there", b"gone"}
    _past_all_pins(registry)
    assert set(registry.names) == {b"there"}


def test_every_announced_deadline_wakes_the_reaper() -> None:
    woken: list[tuple[int, int]] = []
    registry = Registry(lambda db, deadline_ms: woken.append((db, deadline_ms)))
    registry.announced(2, b"k", 100)
    assert woken == [(2, 100)]


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
    assert {b"k", b"x"} == set(registry.names)


def test_a_swap_while_schedules_are_read_counts_for_what_was_read() -> None:
    registry = Registry()
    registry.begin_load()
    registry.load(0, [(b"k", 70)])
    registry.swapped(0, 1)
    registry.end_load()
    assert set(registry.places(b"k")) == {(0, b"k"), (1, b"k")}


def test_where_others_may_announce_something_is_always_looked_for() -> None:
    registry = Registry()
    registry.others(False)
    registry.others(True)
    assert registry.expecting
    _past_all_pins(registry)
    assert registry.expecting


def test_what_is_expected_is_looked_for_as_long_as_it_may_be_under_way() -> None:
    registry = Registry()
    registry.others(False)
    assert not registry.expecting
    registry.expect()
    assert registry.expecting
    for _ in range(PIN_BARRIERS):
        assert registry.expecting
        assert registry.wants_barrier
        registry.barrier()
    assert not registry.expecting


def test_what_a_pin_stands_for_is_looked_for_also_where_nobody_else_announces() -> None:
    registry, busy = Registry(), _Connection(False)
    registry.others(False)
    registry.pin(0, b"k", busy.owner)
    for _ in range(10):
        assert registry.expecting
        registry.barrier()
    busy.settled = True
    registry.barrier()
    assert not registry.expecting


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
        assert registry.names[b"k"] == bound_ms
        registry.set_first_deadline((0, b"k"), 300)
        registry.set_first_deadline((1, b"k"), 200)
        assert registry.names[b"k"] == 200


def test_managed_keys_are_listed_page_by_page_over_all_databases() -> None:
    registry = Registry()
    places = [(0, b"a"), (0, b"b"), (0, b"c"), (5, b"d"), (5, b"e")]
    for db, key in places:
        registry.announced(db, key, 100)
    for count in (1, 2, 3, 4, 5, 9):
        pages = [registry.listed(start, count) for start in range(0, 6, count)]
        assert [place for page in pages for place in page] == places


def test_a_key_that_is_known_has_an_index_for_all_and_a_pin_for_its_own_client() -> None:
    registry, one, other = Registry(), Owner(), Owner()
    registry.announced(0, b"k", 100)
    assert registry.may_have_index(b"k", other)
    registry.pin(0, b"k", one)
    assert registry.may_have_index(b"k", other)
    registry.pin(0, b"new", one)
    registry.begin_reap((0, b"new"))
    registry.set_first_deadline((0, b"new"), None)
    assert not registry.may_have_index(b"new", other)
    registry.begin_load()
    registry.end_load()
    assert not registry.may_have_index(b"new", other)
    assert registry.may_have_index(b"new", one)


def test_a_pin_lasts_for_each_of_those_who_pinned_a_key_one_after_the_other() -> None:
    registry, first, second = Registry(), _Connection(False), _Connection(False)
    registry.pin(0, b"k", first.owner)
    registry.barrier()
    registry.pin(0, b"k", second.owner)
    _past_all_pins(registry)
    first.settled = True
    _past_all_pins(registry)
    assert set(registry.names) == {b"k"}
    second.settled = True
    _past_all_pins(registry)
    assert not registry.names
    assert registry.databases() == []


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


def test_a_connection_with_as_many_pins_as_are_kept_keeps_them() -> None:
    registry, busy = Registry(), _Connection(False)
    for number in range(MOST_KEPT):
        registry.pin(0, b"%d" % number, busy.owner)
    _past_all_pins(registry)
    assert len(registry) == MOST_KEPT
    registry.pin(0, b"one more", busy.owner)
    for _ in range(2):
        _past_all_pins(registry)
    assert busy.calls == ["swamped"]
    assert not registry.names
    assert registry.wants_barrier, "for it may rest"
    busy.settled = True
    registry.barrier()
    assert not registry.wants_barrier


def test_far_deadlines_of_many_keys_share_their_numbers() -> None:
    """One number object for each key would be a fifth of the memory that a managed key may take."""
    registry = Registry()
    registry.begin_load(0)
    registry.load(0, ((b"%d" % n, 1_000_000_000 + 7 * n) for n in range(10_000)))
    registry.end_load()
    for number in range(10_000):
        registry.announced(0, b"%d" % -number, 1_000_000_000 + 7 * number)
    assert len({id(bound) for bound in registry.names.values()}) < 10


def test_before_anything_is_known_announcements_are_looked_for() -> None:
    assert Registry().expecting


def test_schedules_that_nobody_has_begun_to_read_are_no_news() -> None:
    for read in (lambda registry: registry.load(0, []), Registry.end_load):
        with pytest.raises(RuntimeError):
            read(Registry())


def test_heartbeats_alone_end_no_pin() -> None:
    registry = Registry()
    registry.pin(0, b"k", Owner())
    for now_ms in range(100):
        registry.beat(now_ms)
    assert b"k" in registry.names
    assert registry.wants_barrier


class _Connection:
    """settled: whether it says that it is at rest"""

    def __init__(self, settled: bool) -> None:
        self.settled = settled
        self.calls: list[str] = []
        self.owner = Owner(lambda: self.settled, lambda: self.calls.append("swamped"))


def test_a_pin_lasts_as_long_as_one_of_its_connections_does_not_come_to_rest() -> None:
    for busy_comes_first in (True, False):
        registry, busy, quiet = Registry(), _Connection(False), _Connection(True)
        for connection in (busy, quiet) if busy_comes_first else (quiet, busy):
            registry.pin(0, b"k", connection.owner)
        registry.pin(0, b"quiet", quiet.owner)
        for _ in range(10):
            _past_all_pins(registry)
            assert set(registry.names) == {b"k"}
        busy.settled = True
        registry.barrier()
        assert not registry.names
        assert not registry.wants_barrier


def test_a_pin_that_was_confirmed_needs_no_rest() -> None:
    registry, busy = Registry(), _Connection(False)
    registry.pin(0, b"k", busy.owner)
    registry.announced(0, b"k", 100)
    _past_all_pins(registry)
    assert not registry.wants_barrier
    assert b"k" in registry.names


def test_a_connection_with_more_pins_than_are_kept_is_told_so_until_it_rests() -> None:
    registry, busy, other = Registry(), _Connection(False), _Connection(False)
    registry.pin(0, b"other", other.owner)
    for number in range(MOST_KEPT + 1):
        registry.pin(0, b"%d" % number, busy.owner)
    _past_all_pins(registry)
    assert (busy.calls, other.calls) == (["swamped"], [])
    assert busy.owner.is_swamped
    assert set(registry.names) == {b"other"}, "memory is bounded"
    registry.pin(0, b"another", busy.owner)
    _past_all_pins(registry)
    assert busy.owner.is_swamped, "few pins are no rest"
    assert set(registry.names) == {b"other"}
    assert registry.wants_barrier, "for it may rest"
    busy.settled = True
    registry.barrier()
    assert not busy.owner.is_swamped


def test_a_connection_that_has_ended_keeps_nothing() -> None:
    registry, busy = Registry(), _Connection(False)
    registry.pin(0, b"k", busy.owner)
    busy.owner.end()
    _past_all_pins(registry)
    assert not registry.names


KEYS = st.sampled_from([b"a", b"b", b"c"])
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("send"), st.integers(0, 2), KEYS),
        st.tuples(st.just("carry out"), st.integers(0, 2), KEYS),
        st.tuples(st.just("reap"), st.integers(0, 2), KEYS),
        st.tuples(st.just("barrier"), st.integers(0, 2), KEYS),
        st.tuples(st.just("load"), st.integers(0, 2), KEYS),
    ),
    max_size=60,
)


@given(STEPS)
def test_a_key_is_known_while_a_request_that_may_manage_it_is_under_way(
    steps: list[tuple[str, int, bytes]],
) -> None:
    """Redis carries out each connection's requests in order, at any time.

    Between two barriers it carries out at least one request of each connection.
    """
    registry = Registry()
    under_way: list[list[bytes]] = [[], [], []]
    sent, done = [0, 0, 0], [0, 0, 0]
    asked: list[tuple[int, int] | None] = [None, None, None]
    waits = [False, False, False]  # since the last barrier

    def settled(number: int) -> bool:
        before, asked[number] = asked[number], (sent[number], done[number])
        return asked[number] == before

    def carry_out(number: int) -> None:
        under_way[number].pop(0)
        done[number] += 1
        waits[number] = False

    owners = [Owner(partial(settled, number)) for number in range(3)]
    for what, number, key in steps:
        if what == "send":
            registry.pin(0, key, owners[number])
            under_way[number].append(key)
            sent[number] += 1
        elif what == "carry out" and under_way[number]:
            carry_out(number)
        elif what == "reap":
            place: Place = (0, key)
            registry.begin_reap(place)
            registry.set_first_deadline(place, None)
            registry.end_reap(place)
        elif what == "barrier":
            for each in range(3):
                if waits[each]:
                    carry_out(each)
            registry.barrier()
            waits = [bool(requests) for requests in under_way]
        elif what == "load":
            registry.begin_load()
            registry.end_load()
        for waiting in under_way:
            assert set(waiting) <= set(registry.names)
