"""When heartbeats are regular, and when they are thorough."""

from __future__ import annotations

import asyncio

import pytest

from ttlproxy.link.life.heartbeat import EVERY_S, Beats
from ttlproxy.link.shared.fleet import Fleet


@pytest.fixture
def time_s(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The loop's clock, which the test sets: its only element."""
    now = [1000.0]

    class Loop:
        @staticmethod
        def time() -> float:
            return now[0]

    monkeypatch.setattr(asyncio, "get_running_loop", Loop)
    return now


def _begin(beats: Beats) -> tuple[bool, bool]:
    beats.begin()
    return beats.regular, beats.thorough


def test_one_a_second_is_regular_and_those_between_are_not(time_s: list[float]) -> None:
    beats = Beats(Fleet())
    assert _begin(beats)[0]
    assert beats.left_s == EVERY_S
    time_s[0] += EVERY_S / 4
    assert not _begin(beats)[0]
    assert beats.left_s == EVERY_S * 3 / 4
    time_s[0] += EVERY_S * 3 / 4
    assert _begin(beats)[0]
    time_s[0] += 10
    assert _begin(beats)[0]
    assert beats.left_s == EVERY_S, "those that were missed are not made up for"


def test_one_that_a_timer_begins_early_is_regular(time_s: list[float]) -> None:
    """Timers have whole ms. Else it would come a second time at once."""
    beats = Beats(Fleet())
    _begin(beats)
    time_s[0] += EVERY_S - 0.0009
    assert _begin(beats)[0]
    assert beats.left_s == EVERY_S


def test_with_many_proxies_regular_ones_come_less_often_and_not_together(
    time_s: list[float],
) -> None:
    fleet = Fleet()
    for attached, most_s in ((2, 1), (10, 1), (21, 3), (70, 10), (1000, 15)):
        fleet.attached = attached
        pauses_s = set()
        for _ in range(20):
            beats = Beats(fleet)
            beats.begin()
            pauses_s.add(beats.left_s)
        assert most_s * EVERY_S * 0.8 <= min(pauses_s) < max(pauses_s) <= most_s * EVERY_S


def test_a_proxy_that_walks_for_all_keeps_its_pace(time_s: list[float]) -> None:
    fleet = Fleet()
    fleet.attached = 1000
    beats = Beats(fleet)
    beats.walks = True
    beats.begin()
    assert beats.left_s <= EVERY_S


def test_the_first_is_thorough_and_every_tenth_then(time_s: list[float]) -> None:
    beats, thorough = Beats(Fleet()), list[bool]()
    for _ in range(32):
        thorough.append(_begin(beats)[1])
        time_s[0] += EVERY_S
    assert [number for number, each in enumerate(thorough) if each] == [0, 10, 20, 30]


def test_after_a_reason_the_next_two_are_thorough_however_soon(time_s: list[float]) -> None:
    beats = Beats(Fleet())
    for _ in range(3):
        _begin(beats)
        time_s[0] += EVERY_S
    beats.be_thorough()
    time_s[0] -= EVERY_S / 2
    assert [_begin(beats) for _ in range(3)] == [(False, True), (False, True), (False, False)]
