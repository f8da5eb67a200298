"""The deep run over outboxes: its checker finds what it must, and a short run finds nothing."""

from __future__ import annotations

import pytest

from tests.chaos.outbox import faults, trial
from tests.support.servers import Binary

EXPECTED = {b"a": 3, b"b": 2}


def _arrived(*names: str) -> list[str]:
    return faults(EXPECTED, [name.encode() for name in names])


def test_keys_may_be_mixed_but_each_is_in_order() -> None:
    assert _arrived("a/0", "b/0", "a/1", "b/1", "a/2") == []


@pytest.mark.parametrize(
    ("arrived", "fault"),
    [
        ("a/0 a/2 b/0 b/1", "a: 1 missing [1], 0 doubled [], sorted"),
        ("a/0 a/1 a/1 a/2 b/0 b/1", "a: 0 missing [], 1 doubled [1], sorted"),
        ("a/1 a/0 a/2 b/0 b/1", "a: 0 missing [], 0 doubled [], not in order"),
        ("a/0 a/1 a/2 b/0 b/1 c/7", "c: 0 missing [], 0 doubled [], sorted"),
        ("a/0 a/1 a/2", "b: 2 missing [0, 1], 0 doubled [], sorted"),
    ],
)
def test_an_element_that_is_missing_doubled_or_out_of_order_is_a_fault(
    arrived: str, fault: str
) -> None:
    assert _arrived(*arrived.split()) == [fault]


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.any_server
def test_proxies_that_are_killed_lose_and_double_nothing(binary: Binary) -> None:
    figures = trial(binary, firings=2000, kills=6, seed=1, forked=True)
    assert (figures.firings, figures.kills, figures.faults) == (2000, 6, [])
