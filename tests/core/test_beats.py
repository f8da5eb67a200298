"""When heartbeats are regular, and when they are thorough."""

from __future__ import annotations

import asyncio

import pytest

from ttlproxy.link.beats import EVERY_S, Beats


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
    beats = Beats()
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


def test_the_first_two_are_thorough_and_every_tenth_then(time_s: list[float]) -> None:
    beats, thorough = Beats(), list[bool]()
    for _ in range(32):
        thorough.append(_begin(beats)[1])
        time_s[0] += EVERY_S
    assert [number for number, each in enumerate(thorough) if each] == [0, 1, 11, 21, 31]


def test_after_a_reason_the_next_two_are_thorough_however_soon(time_s: list[float]) -> None:
    beats = Beats()
    for _ in range(3):
        _begin(beats)
        time_s[0] += EVERY_S
    beats.be_thorough()
    time_s[0] -= EVERY_S / 2
    assert [_begin(beats) for _ in range(3)] == [(False, True), (False, True), (False, False)]
