"""The checker of failovers: it finds what it must, and excuses only what Redis itself loses."""

from __future__ import annotations

import pytest

from tests.support.rewinds import Outcome, Write, judged

KEY = b"k"
NOW_MS = 1000
# Two sessions, each at its own master.
WRITES = [
    Write(session, number, KEY, b"e%d" % number, 500 if number == 1 else 2000)
    for session, number in ((0, 0), (0, 1), (0, 2), (1, 3), (1, 4))
]
DEADLINES_MS = {write.element: write.deadline_ms for write in WRITES if write.number != 1}


def _judged(
    arrived: set[int],
    gone: set[bytes] | None = None,
    elements: set[bytes] | None = None,
    **deadlines_ms: int,
) -> Outcome:
    """`gone`: with their deadlines; `elements`: those that are there, if not all with deadlines."""
    index = {name: at for name, at in DEADLINES_MS.items() if name not in (gone or set())}
    index |= {name.encode(): at for name, at in deadlines_ms.items()}
    there = {*index} if elements is None else elements
    return judged(WRITES, arrived, {KEY: there}, {KEY: index}, NOW_MS)


def test_all_is_there() -> None:
    assert _judged({0, 1, 2, 3, 4}) == Outcome(WRITES, rewound=0, checked=4, faults=[])


def test_the_last_writes_of_a_session_are_lost_by_redis() -> None:
    assert _judged({0, 3, 4}, gone={b"e2"})[1:] == (2, 3, [])


def test_an_element_may_have_arrived_without_its_number() -> None:
    assert _judged({0, 1, 3, 4})[1:] == (1, 3, [])


@pytest.mark.parametrize(
    ("outcome", "fault"),
    [
        (_judged({0, 2, 3, 4}), "write 1 is missing, and a later one"),
        (_judged({0, 1, 2, 3, 4}, gone={b"e3"}), "b'e3' of b'k' went early"),
        (_judged({0, 1, 2, 3, 4}, e4=1999), "has the deadline 1999"),
        (_judged({0, 1, 2, 3, 4}, gone={b"e2"}, elements={*DEADLINES_MS}), "has no deadline"),
        (_judged({0, 1, 2, 3, 4}, e9=2000, elements={*DEADLINES_MS}), "has no element"),
    ],
)
def test_losing_a_write_that_redis_kept_is_a_fault(outcome: Outcome, fault: str) -> None:
    assert any(fault in each for each in outcome.faults)
