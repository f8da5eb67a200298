"""Keys that a request under way may make managed: they count until that is settled."""

from functools import partial

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


def test_a_pinned_key_is_managed_at_once_and_not_yet_due() -> None:
    registry = Registry()
    registry.pin(0, b"k", Owner())
    assert b"k" in registry.bounds
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
    assert b"k" in registry.bounds
    assert registry.due(b"k", 200) == []
    registry.announced(0, b"k", 300)
    _past_all_pins(registry)
    assert registry.due(b"k", 301) == [(0, b"k")]


def test_a_pin_that_nothing_came_of_ends_after_some_barriers() -> None:
    registry = Registry()
    registry.pin(0, b"k", Owner())
    for _ in range(PIN_BARRIERS - 1):
        registry.barrier()
        assert b"k" in registry.bounds
    registry.pin(0, b"k", Owner())
    registry.barrier()
    assert b"k" in registry.bounds, "pinned anew"
    _past_all_pins(registry)
    assert b"k" not in registry.bounds
    assert len(registry) == 0


def test_what_was_read_of_a_pinned_key_counts_for_longer_than_the_pin() -> None:
    registry = Registry()
    registry.pin(0, b"there", Owner())
    registry.pin(0, b"not there", Owner())
    registry.announced(0, b"gone", 50)
    registry.pin(0, b"gone", Owner())
    registry.begin_load()
    registry.load(0, [(b"there", 70)])
    registry.end_load()
    assert set(registry.bounds) == {b"there", b"not there", b"gone"}
    _past_all_pins(registry)
    assert set(registry.bounds) == {b"there"}


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
    assert set(registry.bounds) == {b"k"}
    second.settled = True
    _past_all_pins(registry)
    assert not registry.bounds
    assert registry.databases() == []


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
    assert not registry.bounds
    assert registry.wants_barrier, "for it may rest"
    busy.settled = True
    registry.barrier()
    assert not registry.wants_barrier


def test_heartbeats_alone_end_no_pin() -> None:
    registry = Registry()
    registry.pin(0, b"k", Owner())
    for now_ms in range(100):
        registry.beat(now_ms)
    assert b"k" in registry.bounds
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
            assert set(registry.bounds) == {b"k"}
        busy.settled = True
        registry.barrier()
        assert not registry.bounds
        assert not registry.wants_barrier


def test_a_pin_that_was_confirmed_needs_no_rest() -> None:
    registry, busy = Registry(), _Connection(False)
    registry.pin(0, b"k", busy.owner)
    registry.announced(0, b"k", 100)
    _past_all_pins(registry)
    assert not registry.wants_barrier
    assert b"k" in registry.bounds


def test_a_connection_with_more_pins_than_are_kept_is_told_so_until_it_rests() -> None:
    registry, busy, other = Registry(), _Connection(False), _Connection(False)
    registry.pin(0, b"other", other.owner)
    for number in range(MOST_KEPT + 1):
        registry.pin(0, b"%d" % number, busy.owner)
    _past_all_pins(registry)
    assert (busy.calls, other.calls) == (["swamped"], [])
    assert busy.owner.is_swamped
    assert set(registry.bounds) == {b"other"}, "memory is bounded"
    registry.pin(0, b"another", busy.owner)
    _past_all_pins(registry)
    assert busy.owner.is_swamped, "few pins are no rest"
    assert set(registry.bounds) == {b"other"}
    assert registry.wants_barrier, "for it may rest"
    busy.settled = True
    registry.barrier()
    assert not busy.owner.is_swamped


def test_a_connection_that_has_ended_keeps_nothing() -> None:
    registry, busy = Registry(), _Connection(False)
    registry.pin(0, b"k", busy.owner)
    busy.owner.end()
    _past_all_pins(registry)
    assert not registry.bounds


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
            assert set(waiting) <= set(registry.bounds)
