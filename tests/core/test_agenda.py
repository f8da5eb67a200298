"""What the reaper does next, and when: nothing that is due is forgotten, nothing is done twice."""

from __future__ import annotations

from ttlproxy.link.shared.agenda import NEVER, SWEEP_AFTER_MS, Agenda, Parked

H, S = (0, b"h"), (3, b"s")


def test_a_later_deadline_does_not_put_off_an_earlier_one() -> None:
    agenda = Agenda()
    agenda.leads = True
    assert agenda.next_ms == NEVER
    agenda.announced(0, 100)
    assert agenda.next_ms == 100
    assert agenda.woken.is_set()
    agenda.woken.clear()
    agenda.announced(0, 100)
    agenda.look_at(200)
    assert agenda.next_ms == 100
    assert not agenda.woken.is_set(), "nothing has become earlier"
    agenda.look_at(99)
    assert agenda.next_ms == 99
    assert agenda.woken.is_set()


def test_only_the_one_that_leads_is_woken_by_deadlines() -> None:
    agenda = Agenda()
    agenda.announced(0, 100)
    assert agenda.next_ms == NEVER
    assert not agenda.woken.is_set()
    agenda.sweep([H], 1000)
    assert agenda.next_ms == 1000 + SWEEP_AFTER_MS, "requests here have left that"
    agenda.lead()
    assert agenda.next_ms == 0
    agenda.stand_in(5)
    assert agenda.stands_in_ms == NEVER, "it leads already"


def test_a_late_deadline_or_a_clock_that_was_set_makes_another_one_try() -> None:
    agenda = Agenda()
    agenda.stand_in(500)
    assert (agenda.next_ms, agenda.stands_in_ms) == (500, 500)
    assert agenda.woken.is_set()
    agenda.stand_in(700)
    assert (agenda.next_ms, agenda.stands_in_ms) == (500, 500)
    agenda.look_now()
    assert (agenda.next_ms, agenda.stands_in_ms) == (0, 0)


def test_a_sweep_is_due_once_requests_of_its_time_are_carried_out() -> None:
    agenda = Agenda()
    agenda.sweep([H], 1000)
    assert agenda.next_ms == 1000 + SWEEP_AFTER_MS
    agenda.sweep([H, S], 1001)  # the first keeps its time
    due_ms = 1000 + SWEEP_AFTER_MS
    assert agenda.take_sweeps(due_ms) == {}
    assert agenda.take_sweeps(due_ms + 1) == {H: due_ms}
    assert agenda.take_sweeps(due_ms + 1) == {}, "it was taken"
    assert agenda.take_sweeps(due_ms + 2) == {S: due_ms + 1}


def test_a_request_that_leaves_nothing_to_sweep_plans_no_look() -> None:
    agenda = Agenda()
    agenda.sweep([], 1000)
    assert agenda.next_ms == NEVER
    assert not agenda.woken.is_set()


def test_a_sweep_that_was_put_back_is_due_as_before_unless_a_request_came_since() -> None:
    agenda = Agenda()
    agenda.sweep([H, S], 1000)
    taken = agenda.take_sweeps(5000)
    agenda.sweep([S], 2000)
    agenda.put_back(taken, ())
    assert agenda.take_sweeps(5000) == {H: 1000 + SWEEP_AFTER_MS, S: 2000 + SWEEP_AFTER_MS}


def test_a_write_just_before_the_sweep_gets_another_one() -> None:
    """It may be carried out after the sweep that the first one caused."""
    agenda = Agenda()
    agenda.apply_ttl([H], 1000)
    agenda.apply_ttl([H], 1100)
    first_ms, second_ms = 1000 + SWEEP_AFTER_MS, 1100 + SWEEP_AFTER_MS
    taken = agenda.take_sweeps(first_ms + 1)
    assert agenda.take_awaiting_ttl(taken) == {H}
    taken = agenda.take_sweeps(second_ms + 1)
    assert taken == {H: second_ms}
    assert agenda.take_awaiting_ttl(taken) == {H}
    assert agenda.take_sweeps(NEVER) == {}


def test_deadlines_by_rule_that_were_not_given_are_given_later_or_by_another_server() -> None:
    agenda = Agenda()
    agenda.apply_ttl([H, S], 1000)
    taken = agenda.take_sweeps(5000)
    dates = agenda.take_awaiting_ttl(taken)
    agenda.put_back(taken, dates)
    assert agenda.take_awaiting_ttl(agenda.take_sweeps(5000)) == {H, S}
    agenda.apply_ttl([H, S], 2000)
    assert agenda.drop(lambda key: key == b"h") == {H}
    taken = agenda.take_sweeps(5000)
    assert agenda.take_awaiting_ttl(taken) == {S}


def test_what_is_planned_follows_its_key_into_another_database() -> None:
    agenda = Agenda()
    agenda.sweep([H, S], 1000)
    agenda.apply_ttl([(0, b"x")], 1000)
    agenda.parked.park(S, 10**9)
    agenda.next_ms = NEVER
    agenda.swapped(0, 7)
    assert not agenda.parked.holds(S, 1), "another key may have that name now"
    assert agenda.next_ms == 1000 + SWEEP_AFTER_MS
    taken = agenda.take_sweeps(5000)
    assert taken.keys() == {H, (7, b"h"), S, (0, b"x"), (7, b"x")}
    assert agenda.take_awaiting_ttl(taken) == {(0, b"x"), (7, b"x")}


def test_what_was_just_done_is_done_again_where_its_key_may_be_now() -> None:
    """Redis may have swapped the databases first, and the news come last."""
    agenda = Agenda()
    agenda.sweep([H, S], 1000)
    agenda.apply_ttl([(0, b"x")], 1000)
    for _ in range(2):  # nothing is due the second time
        agenda.take_awaiting_ttl(agenda.take_sweeps(5000))
    agenda.swapped(7, 0)
    taken = agenda.take_sweeps(5000)
    assert taken.keys() == {(7, b"h"), (7, b"x")}
    assert agenda.take_awaiting_ttl(taken) == {(7, b"x")}


def test_each_sweep_that_is_left_gets_a_look() -> None:
    agenda = Agenda()
    agenda.sweep([S], 2000)
    agenda.sweep([H], 1000)
    agenda.next_ms = NEVER
    agenda.look_at_sweeps()
    assert agenda.next_ms == 1000 + SWEEP_AFTER_MS


def test_work_that_was_put_off_by_another_clock_is_done_now() -> None:
    agenda = Agenda()
    agenda.sweep([H], 10**9)
    agenda.parked.park(S, 10**9)
    agenda.next_ms = NEVER
    agenda.look_now()
    assert agenda.next_ms == 0
    assert agenda.take_sweeps(1) == {H: 0}
    assert not agenda.parked.holds(S, 1)


def test_a_key_that_is_refused_again_is_parked_for_longer() -> None:
    parked = Parked()
    assert parked.first_ms() == NEVER
    assert not parked.holds(H, 0)
    pauses = []
    for _ in range(40):
        parked.park(H, 0)
        pauses.append(parked.first_ms())
    assert 0 < pauses[0] <= 100, "50 ms at first, or less by chance, doubled for each failure"
    assert max(pauses) <= 30_000
    assert max(pauses[-20:]) > 2000
    assert parked.holds(H, parked.first_ms() - 1)
    assert not parked.holds(H, parked.first_ms())
    assert not parked.holds(S, 0)


def test_a_passing_refusal_is_tried_again_soon() -> None:
    parked = Parked()
    for _ in range(40):
        parked.park(H, 0, passes=True)
        assert parked.first_ms() <= 500


def test_parked_keys_are_counted_by_reason_until_they_are_tried_and_not_refused() -> None:
    parked = Parked()
    parked.park(H, 0, "oom")
    parked.park(S, 10**6, "noperm")
    assert len(parked) == 2
    assert parked.reasons == {"oom": 1, "noperm": 1}
    assert parked.first_ms() < 10**6
    parked.forget(parked.first_ms())
    assert parked.reasons == {"noperm": 1}
    assert len(parked) == 1
    parked.park(S, 10**6)
    assert parked.reasons == {"other": 1}
    parked.put_off_no_more()
    assert (len(parked), parked.first_ms()) == (1, 0)


def test_keys_that_are_still_being_tried_count_their_failures_on() -> None:
    parked = Parked()
    parked.park(H, 0)
    parked.forget(10**6, lambda place: place == H)
    assert len(parked) == 1
    assert parked.first_ms(10**6) == NEVER
    parked.forget(10**6)
    assert len(parked) == 0


def test_keys_whose_pauses_end_at_about_the_same_time_are_tried_together() -> None:
    parked = Parked()
    parked.park(H, 1001, together_ms=1000)
    assert parked.first_ms() == 2000
    parked.park(S, 1002, together_ms=1000)
    assert not parked.holds(S, 2000)
    assert not parked.holds(H, 2000)


def test_a_key_that_was_put_off_no_more_counts_its_failures_on() -> None:
    """Its next pause is as long as if it had been tried at its time."""
    longest = 0
    for _ in range(10):
        parked = Parked()
        for _ in range(40):
            parked.park(H, 0)
        parked.put_off_no_more()
        parked.park(H, 0)
        longest = max(longest, parked.first_ms())
    assert longest > 200
