"""Keys that are reserved: which, for how long, and how many."""

from __future__ import annotations

from ttlproxy.core import reservations as module
from ttlproxy.core.reservations import MARGIN_MS, RESERVED_MS, Reservations

NOW_MS = 1_000_000
UNTIL_MS = NOW_MS + RESERVED_MS
PLACE, OTHER = (0, b"k"), (1, b"k")


def test_a_place_that_is_claimed_a_second_time_is_to_be_reserved() -> None:
    reservations = Reservations()
    assert [reservations.is_wanted(place) for place in (PLACE, OTHER, PLACE, PLACE)] == [
        False,
        False,
        True,
        True,
    ]


def test_a_reservation_holds_until_a_request_could_come_too_late() -> None:
    reservations = Reservations()
    reservations.made([PLACE], UNTIL_MS, 0)
    assert reservations.holds(PLACE, UNTIL_MS - MARGIN_MS)
    assert not reservations.holds(PLACE, UNTIL_MS - MARGIN_MS + 1)
    assert not reservations.holds(OTHER, NOW_MS)


def test_in_its_second_half_it_is_to_be_renewed_if_it_is_used() -> None:
    reservations, told = Reservations(), []
    reservations.on_waning = lambda: told.append(True)
    reservations.made([PLACE, OTHER], UNTIL_MS, 0)
    half_ms = NOW_MS + RESERVED_MS // 2
    assert reservations.holds(PLACE, half_ms)
    assert reservations.take_waning() == set()
    for place in (PLACE, PLACE, OTHER):
        assert reservations.holds(place, half_ms + 1)
    assert told == [True]
    assert reservations.take_waning() == {PLACE, OTHER}
    reservations.renewed([PLACE], UNTIL_MS + 10, 0, UNTIL_MS - MARGIN_MS)
    assert reservations.holds(PLACE, UNTIL_MS + 10 - MARGIN_MS)


def test_one_that_was_over_before_it_was_renewed_is_to_be_made_anew() -> None:
    reservations = Reservations()
    reservations.made([PLACE], UNTIL_MS, 0)
    reservations.renewed([PLACE, OTHER], UNTIL_MS + RESERVED_MS, 0, UNTIL_MS - MARGIN_MS + 1)
    assert not reservations.holds(PLACE, UNTIL_MS)
    assert not reservations.holds(OTHER, UNTIL_MS)


def test_what_was_made_before_all_was_lost_does_not_count() -> None:
    reservations = Reservations()
    reservations.made([PLACE], UNTIL_MS, reservations.losses)
    losses = reservations.losses
    reservations.lose()
    assert not reservations.holds(PLACE, NOW_MS)
    reservations.made([PLACE], UNTIL_MS, losses)
    assert not reservations.holds(PLACE, NOW_MS)
    reservations.made([PLACE], UNTIL_MS, reservations.losses)
    assert reservations.holds(PLACE, NOW_MS)


def test_there_are_never_too_many() -> None:
    reservations, most = Reservations(), module._MOST
    places = [(0, b"%d" % number) for number in range(3 * most)]
    for place in places:
        assert not reservations.is_wanted(place)
        reservations.made([place], UNTIL_MS, 0)
    held = [place for place in places if reservations.holds(place, NOW_MS)]
    assert most // 2 < len(held) <= most
    assert held[-1] == places[-1]
    assert reservations.is_wanted(places[-1])
    assert not reservations.is_wanted(places[0])
