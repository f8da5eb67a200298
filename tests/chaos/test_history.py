"""The checker of a chaos run, on histories written by hand: it finds what is impossible, and
nothing else."""

from __future__ import annotations

import math

import pytest

from tests.chaos.history import GONE, Excuses, Key, Read, ServersClock, State, Write
from tests.chaos.trial import delivered_ms

DUE = 1000.0


def _dated(value: str = "v", due_ms: float = DUE) -> State:
    return State(value, due_ms, due_ms)


def _write(begun_ms: float, *states: State, ended_ms: float | None = None) -> Write:
    return Write(begun_ms, begun_ms + 10 if ended_ms is None else ended_ms, states, "a request")


def _doubted(begun_ms: float, *states: State) -> Write:
    return _write(begun_ms, *states, ended_ms=math.inf)


def _look(begun_ms: float, value: str | None, took_ms: float = 5) -> Read:
    shown = {} if value is None else {"e": value}
    return Read(begun_ms, begun_ms + took_ms, shown, "a client")


def _found(
    writes: list[Write],
    reads: list[Read],
    clock: ServersClock | None = None,
    excuses: Excuses | None = None,
) -> list[str]:
    key = Key("k", {"e": writes}, reads)
    faults = key.faults(clock or ServersClock(), excuses or Excuses())
    return [fault.what.rpartition(",")[0] for fault in faults]


LATE = "shown to a client 500 ms after its deadline"
LOST = "not shown to a client"


@pytest.mark.parametrize(
    ("reads", "expected"),
    [
        ([_look(100, "v"), _look(990, "v")], []),
        ([_look(100, None)], [LOST]),
        ([_look(994, None)], [LOST]),
        ([_look(996, None)], []),
        ([_look(1500, None)], []),
        ([_look(1500, "v")], [LATE]),
        ([_look(1500, None), _look(1500, "v")], [LATE]),
        ([_look(1000.9, "v")], []),
        ([_look(900, "v", took_ms=800)], []),
        ([_look(900, None, took_ms=800)], []),
        ([_look(100, "w")], ["'w' shown to a client"]),
        ([_look(-20, "v")], ["'v' shown to a client"]),
        ([_look(-20, None)], []),
        ([_look(-4, None), _look(2, None), _look(3, "v")], []),
    ],
)
def test_an_element_is_there_until_its_deadline_and_no_longer(
    reads: list[Read], expected: list[str]
) -> None:
    assert _found([_write(0, _dated())], reads) == expected


def test_a_deadline_that_is_past_when_it_comes_counts_from_then() -> None:
    writes = [_write(900, _dated(), ended_ms=1400)]
    assert _found(writes, [_look(1350, "v", took_ms=100)]) == []
    assert _found(writes, [_look(1350, None)]) == []
    assert _found(writes, [_look(1500, "v")]) == [], "the news of it are on their way"
    assert _found(writes, [_look(1502, "v")]) == ["shown to a client 2 ms after its deadline"]
    assert _found([_write(900, _dated())], [_look(1402, "v")]) != []


def test_one_that_is_written_anew_without_a_deadline_stays() -> None:
    writes = [_write(0, _dated()), _write(500, State("w"))]
    assert _found(writes, [_look(400, "v"), _look(505, "v"), _look(5000, "w")]) == []
    assert _found(writes, [_look(5000, None)]) == [LOST]
    assert _found(writes, [_look(5000, "v")]) == ["'v' shown to a client"]


def test_of_requests_that_were_sent_together_the_last_one_stays() -> None:
    writes = [_write(0, _dated(due_ms=20), State("v"), ended_ms=100)]
    assert _found(writes, [_look(50, None), _look(60, "v"), _look(200, "v")]) == []
    assert _found(writes, [_look(200, None)]) == [LOST]


def test_one_that_was_removed_does_not_come_back() -> None:
    writes = [_write(0, _dated()), _write(200, GONE)]
    assert _found(writes, [_look(100, "v"), _look(205, "v"), _look(205, None)]) == []
    assert _found(writes, [_look(300, "v")]) == ["'v' shown to a client"]
    assert _found(writes, [_look(300, None), _look(400, "v")]) == ["'v' shown to a client"]


def test_a_request_in_doubt_counts_or_does_not() -> None:
    for reads in ([_look(900, "w")], [_look(900, "v")], [_look(990, "v"), _look(5000, "w")]):
        assert _found([_write(0, _dated()), _doubted(500, State("w"))], reads) == []
    writes = [_write(0, State("v")), _doubted(500, GONE)]
    assert _found(writes, [_look(900, None), _look(900, "v")]) == []
    assert _found(writes, [_look(400, None)]) == [LOST]
    assert _found([_doubted(0, _dated())], [_look(100, None)]) == []
    assert _found([_doubted(0, _dated())], [_look(1500, "v")]) == [LATE]


@pytest.mark.parametrize(("given_up_ms", "expected"), [(1390, [LATE]), (1600, [])])
def test_a_request_in_doubt_may_be_carried_out_after_its_deadline_until_it_is_given_up(
    given_up_ms: float, expected: list[str]
) -> None:
    write = Write(0, math.inf, (_dated(),), "a request", given_up_ms=given_up_ms)
    found = _found([write], [_look(1500, "v")])
    assert [what.replace("10 ms", "500 ms") for what in found] == expected


def test_a_value_that_nobody_wrote_is_a_fault_once() -> None:
    key = Key("k", {}, [_look(100, "v"), _look(200, "v")])
    (fault,) = key.faults(ServersClock(), Excuses())
    assert (fault.element, fault.what) == ("e", "shown to a client, and never written")


def test_a_clock_that_jumped_forward_makes_due_and_one_that_jumped_back_undoes_nothing() -> None:
    clock = ServersClock()
    clock.jumped(100, 101, 5000)
    clock.jumped(200, 201, 0)
    writes = [_write(0, _dated())]
    assert _found(writes, [_look(50, None)], clock) == [LOST]
    assert _found(writes, [_look(150, None)], clock) == []
    assert _found(writes, [_look(150, "v")], clock) != []
    assert _found(writes, [_look(300, None)], clock) == [], "it went while the clock was ahead"
    assert _found(writes, [_look(300, "v")], clock) == []
    assert _found([_write(250, _dated())], [_look(300, None)], clock) == [LOST]
    assert _found(writes, [_look(99, "v", took_ms=50)], clock) == []


def test_a_clock_that_is_behind_keeps_for_longer() -> None:
    clock = ServersClock()
    clock.jumped(100, 101, -5000)
    assert _found([_write(0, _dated())], [_look(1500, "v")], clock) == []
    assert _found([_write(0, _dated())], [_look(1500, None)], clock) == [LOST]
    assert _found([_write(0, _dated())], [_look(6500, "v")], clock) == [LATE]


def test_a_time_to_live_counts_from_some_time_while_it_was_asked_for() -> None:
    writes = [_write(0, State("v", 900, 1000))]
    assert _found(writes, [_look(950, None), _look(1000, "v")]) == []
    assert _found(writes, [_look(890, None)]) == [LOST]
    assert _found(writes, [_look(1500, "v")]) == [LATE]


def test_a_paused_server_may_show_what_is_due_and_may_lose_nothing() -> None:
    excuses = Excuses(late=[(1400, 1600)])
    writes = [_write(0, _dated())]
    assert _found(writes, [_look(1500, "v")], excuses=excuses) == []
    assert _found(writes, [_look(1700, "v")], excuses=excuses) != []
    assert _found([_write(0, State("v"))], [_look(1500, None)], excuses=excuses) == [LOST]


def test_one_that_is_not_the_master_any_more_may_lag() -> None:
    excuses = Excuses(lagging=[(100, 200)])
    writes = [_write(0, State("v"))]
    assert _found(writes, [_look(150, None)], excuses=excuses) == []
    assert _found(writes, [_look(250, None)], excuses=excuses) == [LOST]
    (fault,) = Key("k", {"e": writes}, [_look(250, None)]).faults(ServersClock(), excuses)
    assert "a request" in str(fault)
    assert "a client is shown 'nothing'" in str(fault)


ENDS = "shown to a client 1000 ms after its deadline"


def _expiry(begun_ms: float, due_ms: float | None, *, lost: bool = False) -> Write:
    state = GONE if due_ms is None else _dated("", due_ms)
    return Write(begun_ms, begun_ms + 10, (state,), "EXPIRE", may_be_lost=lost)


@pytest.mark.parametrize(
    ("expiry", "written_ms", "read", "fault"),
    [
        ([_expiry(50, 1000)], 0, _look(990, None), LOST),
        ([_expiry(50, 1000)], 0, _look(999, None), ""),
        ([_expiry(50, 1000)], 0, _look(2000, None), ""),
        ([_expiry(50, 1000)], 0, _look(2000, "v"), ENDS),
        ([_expiry(50, 1000)], 100, _look(2000, "v"), ENDS),
        # It may have been written after the end, and was so for certain.
        ([_expiry(50, 1000)], 995, _look(2000, "v"), ""),
        ([_expiry(50, 1000)], 995, _look(2000, None), ""),
        ([_expiry(50, 1000)], 1010, _look(2000, "v"), ""),
        ([_expiry(50, 1000)], 1010, _look(2000, None), LOST),
        # Changed before the end, at about that time, and after it.
        ([_expiry(50, 1000), _expiry(500, None)], 0, _look(2000, "v"), ""),
        ([_expiry(50, 1000), _expiry(500, None)], 0, _look(2000, None), LOST),
        ([_expiry(50, 1000), _expiry(995, None)], 0, _look(2000, "v"), ""),
        ([_expiry(50, 1000), _expiry(995, None)], 0, _look(2000, None), ""),
        ([_expiry(50, 1000), _expiry(1500, None)], 0, _look(2000, "v"), ENDS),
        ([_expiry(50, 1000), _expiry(1500, 9000)], 0, _look(2000, None), ""),
        # In doubt: the client has no reply, or the key may have ended before.
        ([_doubted(50, _dated("", 1000))], 0, _look(2000, "v"), ""),
        ([_doubted(50, _dated("", 1000))], 0, _look(2000, None), ""),
        ([_doubted(50, _dated("", 1000))], 0, _look(900, None), LOST),
        ([_expiry(50, 1000, lost=True)], 0, _look(2000, "v"), ""),
        ([_expiry(50, 1000), _expiry(500, None, lost=True)], 0, _look(2000, None), ""),
    ],
)
def test_a_key_ends_with_all_that_was_in_it(
    expiry: list[Write], written_ms: float, read: Read, fault: str
) -> None:
    key = Key("k", {"e": [_write(written_ms, State("v"))]}, [read], expiry)
    found = [each.what for each in key.faults(ServersClock(), Excuses())]
    assert [fault in what for what in found] == [True] * bool(fault)


def test_only_a_key_with_an_expiry_may_be_evicted_and_only_while_memory_is_short() -> None:
    excuses, far = Excuses(evicting=[(400, 500)]), [_expiry(50, 9000)]
    for expiry, at_ms, shown, faults in (
        (far, 450, None, 0),
        (far, 350, None, 1),
        ([_expiry(50, 450)], 2000, "v", 0),  # evicted, and written again: it has no expiry
        ([_expiry(50, 300)], 2000, "v", 1),
        ([], 450, None, 1),
        ([_expiry(50, 9000), _expiry(200, None)], 450, None, 1),
    ):
        key = Key("k", {"e": [_write(0, State("v"))]}, [_look(at_ms, shown)], expiry)
        assert len(list(key.faults(ServersClock(), excuses))) == faults


def test_a_clock_that_jumps_back_at_once_may_keep_a_key_that_had_ended() -> None:
    clock, expiry = ServersClock(), [_expiry(50, 1000)]
    clock.jumped(1100, 1101, -5000)
    key = Key("k", {"e": [_write(1050, State("v"))]}, [_look(9000, None)], expiry)
    assert list(key.faults(clock, Excuses())) == []
    key = Key("k", {"e": [_write(1050, State("v"))]}, [_look(9000, None)], expiry)
    assert len(list(key.faults(ServersClock(), Excuses()))) == 1


def test_what_is_written_after_a_jump_forward_goes_with_a_key_that_ends_by_that() -> None:
    """Until the proxies have seen it; a PERSIST too comes too late."""
    clock, excuses = ServersClock(), Excuses()
    clock.jumped(1000, 1001, 5000)
    excuses.set_forward(1000, 4000)
    for changed_ms, written_ms, known, faults in (
        (1100, 1200, excuses, 0),
        (1100, 1200, Excuses(), 1),
        (900, 1200, excuses, 1),  # before the jump
        (1100, 4100, excuses, 1),
    ):
        expiry = [_expiry(50, 2000), _expiry(changed_ms, None)]
        key = Key("k", {"e": [_write(written_ms, State("v"))]}, [_look(5000, None)], expiry)
        assert len(list(key.faults(clock, known))) == faults


def test_the_clocks_bounds_are_known_between_any_two_moments() -> None:
    clock = ServersClock()
    clock.jumped(100, 110, 50)
    assert (clock.least(0, 90), clock.most(0, 90)) == (0, 90)
    assert (clock.least(105, 106), clock.most(105, 106)) == (105, 156)
    assert (clock.least(0, 200), clock.most(0, 200)) == (0, 250)
    assert clock.first_past(120, 0) == 100
    assert clock.first_past(155, 0) == 105
    assert clock.first_past(1000, 0) == 950
    assert clock.first_past(10, 500) == 500
    assert clock.most_before(90, 1000) == 90
    assert clock.most_before(155, 1000) == 155
    clock.jumped(300, 301, 0)
    assert clock.most_before(310, 20) == 351, "it jumped back just before"
    assert clock.most_before(330, 20) == 330
    assert [clock.most_since(shown_ms) for shown_ms in (90, 155, 310, 350)] == [351, 351, 351, 351]
    assert clock.most_since(360) == 360
    clock.forget_before(111)
    assert clock.least(120, 130) == 170


def test_ids_of_streams_do_not_go_back_with_the_clock() -> None:
    """So a later entry may have the time of one before the jump."""
    clock = ServersClock()
    assert (delivered_ms(clock, b"90-0"), delivered_ms(clock, b"90-1")) == (90, 90)
    clock.jumped(100, 101, -5000)
    assert (delivered_ms(clock, b"90-0"), delivered_ms(clock, b"90-1")) == (90, 101)
    assert delivered_ms(clock, b"200-1") == 200


def test_excuses_of_before_are_forgotten_and_those_that_last_are_not() -> None:
    excuses = Excuses(late=[(0, 100), (50, 300)], lagging=[(0, 200)])
    excuses.forget_before(150)
    assert (excuses.late, excuses.lagging) == ([(50, 300)], [(0, 200)])
