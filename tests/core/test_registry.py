"""The keys that need attention soon, as far as a proxy knows; it must never miss one."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ttlproxy.core.families import ALL, Known
from ttlproxy.core.registry import ANNOUNCED_MS, UNKNOWN, Registry, RegistryView
from ttlproxy.core.write_rules import WriteRule, WriteRules, name_of
from ttlproxy.wire import NOTHING_DUE

NOW_MS = 1_000_000
UNTIL_MS = NOW_MS + ANNOUNCED_MS
SOON_MS = NOW_MS + 5000


def _registry(*, is_read: bool = True, wakes: list[tuple[int, int]] | None = None) -> Registry:
    families = Known()
    families.add([ALL])

    def wake(db: int, deadline_ms: int) -> None:
        if wakes is not None:
            wakes.append((db, deadline_ms))

    registry = Registry(wake, families=families)
    families.add_observer(registry.families_changed)
    registry.families_changed()
    registry.beat(NOW_MS)
    if is_read:
        _read(registry)
    return registry


def _read(registry: Registry, *entries: tuple[bytes, int], until_ms: int = UNTIL_MS) -> None:
    reading = registry.begin_reading(until_ms)
    registry.read(0, entries)
    registry.end_reading(reading, until_ms)


def _reaped(registry: Registry, first_ms: int | None, key: bytes = b"k") -> None:
    registry.begin_reap((0, key))
    registry.set_first_deadline((0, key), first_ms)
    registry.end_reap((0, key))


def _bound(registry: Registry, key: bytes = b"k") -> int:
    return registry.view((0,)).names[key]


def test_a_key_that_is_announced_is_due_then_and_another_where_nothing_was_read() -> None:
    registry = _registry()
    registry.announced(0, b"k", SOON_MS)
    assert _bound(registry) == SOON_MS
    assert _bound(registry, b"other") == UNTIL_MS
    registry.announced(0, b"k", SOON_MS - 1)
    registry.announced(0, b"k", SOON_MS + 1)
    assert _bound(registry) == SOON_MS - 1, "announcements of one moment come in any order"


def test_a_key_of_no_family_is_none_that_may_be_managed() -> None:
    registry = Registry()
    view = registry.view((0,))
    assert b"k" not in view.names
    assert not view.names
    assert view.places(b"k") == registry.places(b"k") == []
    registry.families.add([b"k"])
    assert b"k1" in view.names
    assert view.places(b"k1") == [(0, b"k1")]
    assert b"other" not in view.names


def test_each_key_may_be_due_if_nothing_was_read() -> None:
    registry = _registry(is_read=False)
    assert _bound(registry) == UNKNOWN
    registry.announced(0, b"k", SOON_MS)
    assert _bound(registry) == UNKNOWN, "it may have an earlier one"


def test_deadlines_that_are_far_ahead_are_left_out() -> None:
    registry = _registry(is_read=False)
    _read(registry, (b"soon", SOON_MS), (b"later", UNTIL_MS))
    assert registry.bounds(0) == {b"soon": SOON_MS}
    assert (_bound(registry, b"soon"), _bound(registry, b"later")) == (SOON_MS, UNTIL_MS)
    registry.announced(0, b"late", UNTIL_MS)
    assert b"late" not in registry.bounds(0)


def _hears_no_more(registry: Registry) -> None:
    registry.hears = False


@pytest.mark.parametrize("forgets", [Registry.forget_all, _hears_no_more])
def test_a_reading_does_not_count_if_announcements_were_missed(
    forgets: Callable[[Registry], None],
) -> None:
    registry = _registry(is_read=False)
    reading = registry.begin_reading(UNTIL_MS)
    forgets(registry)
    registry.end_reading(reading, UNTIL_MS)
    assert registry.until_ms == UNKNOWN


def test_a_reap_raises_the_bound_and_ends_it_with_the_index() -> None:
    registry = _registry()
    for first_ms, bound in ((SOON_MS + 1, SOON_MS + 1), (UNTIL_MS, UNTIL_MS), (None, UNTIL_MS)):
        registry.announced(0, b"k", SOON_MS)
        _reaped(registry, first_ms)
        assert _bound(registry) == bound
    assert registry.bounds(0) == {}


def test_a_reap_answered_before_an_announcement_does_not_undo_it() -> None:
    for deadline_ms, first_ms in ((40, 500), (40, None), (300, None)):
        registry = _registry()
        registry.announced(0, b"k", 100)
        registry.begin_reap((0, b"k"))
        registry.announced(0, b"k", deadline_ms)
        registry.begin_reap((0, b"k"))
        for _ in range(2):
            registry.set_first_deadline((0, b"k"), first_ms)
            registry.end_reap((0, b"k"))
        assert _bound(registry) <= 300


def test_the_answer_of_a_reap_counts_once_earlier_ones_are_over() -> None:
    registry = _registry()
    registry.begin_reap((0, b"k"))
    registry.announced(0, b"k", 100)
    registry.end_reap((0, b"k"))
    _reaped(registry, 200)
    assert _bound(registry) == 200


@pytest.mark.parametrize("first_ms", [SOON_MS, UNTIL_MS + 1, None])
def test_if_nothing_was_read_a_reaps_answer_holds_for_as_long_as_is_announced(
    first_ms: int | None,
) -> None:
    registry = _registry(is_read=False)
    _reaped(registry, first_ms)
    assert _bound(registry) == min(first_ms or NOTHING_DUE, UNTIL_MS)
    registry.hears = False
    registry.forget_all()
    registry.beat(NOW_MS)
    _reaped(registry, first_ms)
    assert _bound(registry) == UNKNOWN, "nobody tells of an earlier one"


@pytest.mark.parametrize("is_read", [False, True])
@pytest.mark.parametrize("first_ms", [UNTIL_MS + 5, UNTIL_MS + 7000, None])
def test_a_reaps_answer_while_schedules_are_read_is_known_afterwards(
    first_ms: int | None, is_read: bool
) -> None:
    """The schedule may have been read before, when the key was due still."""
    registry = _registry(is_read=is_read)
    registry.announced(0, b"k", SOON_MS)
    until_ms = UNTIL_MS + 6000
    reading = registry.begin_reading(until_ms)
    _reaped(registry, first_ms)
    registry.end_reading(reading, until_ms)
    assert _bound(registry) == min(first_ms or NOTHING_DUE, until_ms)


def test_after_all_is_forgotten_a_reap_tells_of_its_key_only_from_the_next_beat_on() -> None:
    """Redis's clock may have been set back, so that more is not announced than was thought."""
    registry = _registry()
    registry.forget_all()
    _reaped(registry, None)
    assert _bound(registry) == UNKNOWN
    registry.beat(NOW_MS - 1000)
    _reaped(registry, None)
    assert _bound(registry) == UNTIL_MS - 1000


def test_the_answers_of_reaps_take_no_more_memory_than_this(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("ttlproxy.core.registry._MOST_KEPT", 10)
    registry = _registry(is_read=False)
    for number in range(11):
        _reaped(registry, None, b"%d" % number)
    registry.beat(NOW_MS)
    assert registry.bounds(0) == {}


def test_every_announced_deadline_wakes_the_reaper() -> None:
    woken: list[tuple[int, int]] = []
    registry = _registry(wakes=woken)
    registry.announced(2, b"k", 100)
    assert woken == [(2, 100)]
    assert registry.databases() == [2]


def test_the_first_of_what_is_read_wakes_the_reaper_unless_it_is_known() -> None:
    woken: list[tuple[int, int]] = []
    registry = _registry(is_read=False, wakes=woken)
    for _ in range(2):
        _read(registry, (b"k", SOON_MS + 1), (b"l", SOON_MS), (b"later", UNTIL_MS))
    assert woken == [(0, SOON_MS)]


def test_databases_are_those_that_hold_keys_and_of_which_was_announced_since() -> None:
    registry = _registry()
    assert registry.populate([0, 3]) == {0, 3}
    registry.announced(5, b"k", SOON_MS)
    assert registry.populate([3]) == set()
    assert sorted(registry.databases()) == [0, 3, 5]
    assert registry.populate([3, 4]) == {4}
    assert sorted(registry.databases()) == [0, 3, 4]


def test_a_session_that_was_there_before_hears_of_a_database_that_is_new() -> None:
    registry = _registry()
    view = registry.view((7,))
    registry.announced(7, b"k", SOON_MS)
    assert view.names[b"k"] == SOON_MS
    registry.populate([])
    registry.announced(7, b"l", SOON_MS)
    assert view.names[b"l"] == SOON_MS


def test_keys_in_all_databases_may_be_due_if_a_client_may_be_in_several() -> None:
    registry = _registry()
    registry.announced(0, b"k", NOTHING_DUE)
    view = registry.view((0,))
    assert view.until_ms == UNTIL_MS
    view.select((3, 0))
    assert view.names[b"k"] == view.until_ms == UNKNOWN
    assert sorted(view.places(b"k")) == [(0, b"k"), (3, b"k")]
    assert view.databases() == [3, 0]
    view.select((3,))
    assert view.names[b"k"] == UNTIL_MS


def test_so_may_they_where_requests_write_to_another_database() -> None:
    registry = _registry()
    view = registry.view((0,))
    view.include([(4, b"k")])
    assert view.names[b"k"] == view.names[b"other"] == UNKNOWN
    assert sorted(view.places(b"k")) == [(0, b"k"), (4, b"k")]
    assert view.places(b"other") == [(0, b"other")]
    view.include_no_more()
    assert view.names[b"k"] == UNTIL_MS
    assert view.places(b"k") == [(0, b"k")]


def test_a_rule_of_onwrite_makes_a_key_one_that_may_be_managed_and_where_nothing_is_due() -> None:
    registry = Registry()
    view = registry.view((0,))
    rule = WriteRule(1000)
    registry.rules.replace(0, WriteRules({name_of(b"k*", b"set"): rule.row((b"k*",))}))
    assert view.names[b"k1"] == NOTHING_DUE
    assert b"other" not in view.names
    assert b"k1" not in view.managed
    registry.rules.doubt([0])
    assert view.names[b"other"] == UNKNOWN, "it may match one"


def test_a_slot_that_leaves_takes_what_is_known_with_it() -> None:
    registry = _registry()
    registry.announced(0, b"stays", SOON_MS)
    registry.announced(0, b"goes", SOON_MS)
    registry.begin_reap((0, b"goes"))
    registry.forget(lambda key: key == b"goes")
    registry.set_first_deadline((0, b"goes"), SOON_MS + 1)
    assert registry.bounds(0) == {b"stays": SOON_MS}


def test_a_proxy_that_is_alone_hears_nothing_before_it_has_asked_for_something() -> None:
    registry = Registry()
    assert registry.expecting, "nobody knows yet"
    registry.others(False)
    assert not registry.expecting
    registry.expect()
    registry.others(False)
    assert registry.expecting, "a rule may be announced"


def _asked(view: RegistryView, key: bytes, now_ms: int) -> bool:
    """Whether a read of the key waits, or asks Redis."""
    return view.names[key] < now_ms


KEYS = st.sampled_from([b"a", b"b", b"c"])
EVENTS = st.lists(
    st.tuples(st.just("set"), KEYS, st.integers(1, 3 * ANNOUNCED_MS))
    | st.tuples(st.just("reap"), KEYS, st.none() | st.integers(1, 3 * ANNOUNCED_MS))
    | st.tuples(st.just("other reap"), KEYS, st.none() | st.integers(1, 3 * ANNOUNCED_MS))
    | st.tuples(st.just("time"), st.just(b""), st.integers(1, 2 * ANNOUNCED_MS))
    | st.tuples(st.just("read ahead"), st.just(b""), st.none())
    | st.tuples(st.just("forget"), st.just(b""), st.none()),
    max_size=60,
)


@given(EVENTS)
def test_no_key_that_is_due_is_ever_thought_not_to_be(events: list[tuple[str, bytes, int]]) -> None:
    """As scripts, reaps, other proxies' reaps and readings go on, if announcements arrive at once.
    The schedule has when each key needs attention."""
    registry, now_ms = _registry(), NOW_MS
    view, schedule = registry.view((0,)), dict[bytes, int]()
    for what, key, amount in events:
        if what == "set":
            at_ms = now_ms + amount
            if at_ms < schedule.get(key, NOTHING_DUE):
                schedule[key] = at_ms
                if amount < ANNOUNCED_MS:
                    registry.announced(0, key, at_ms)
        elif what in ("reap", "other reap"):
            if schedule.get(key, NOTHING_DUE) >= now_ms:
                continue  # nothing is due
            schedule.pop(key)
            if amount is not None:
                schedule[key] = now_ms + amount
            if what == "reap":
                _reaped(registry, schedule.get(key), key)
        elif what == "time":
            now_ms += amount
        elif what == "read ahead":
            reading, until_ms = registry.begin_reading(now_ms + ANNOUNCED_MS), now_ms + ANNOUNCED_MS
            soon = [each for each in schedule.items() if registry.until_ms <= each[1] < until_ms]
            registry.read(0, soon)
            for past in registry.past(0, now_ms):
                _reaped(registry, schedule.get(past), past)
            registry.end_reading(reading, until_ms)
            registry.beat(now_ms)
        else:
            registry.forget_all()
        for each, at_ms in schedule.items():
            if at_ms < now_ms:
                assert _asked(view, each, now_ms)


def test_what_is_read_is_not_believed_where_nobody_tells_of_earlier_deadlines() -> None:
    """Such a proxy asks Redis at each request: an entry that is later than that would hide it."""
    woken: list[tuple[int, int]] = []
    registry = _registry(is_read=False, wakes=woken)
    registry.hears = False
    _read(registry, (b"k", SOON_MS))
    assert _bound(registry) == UNKNOWN
    assert registry.bounds(0) == {}
    assert woken == [(0, SOON_MS)], "the reaper looks then"
