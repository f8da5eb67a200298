"""Slots without a master are logged once for each state."""

from __future__ import annotations

import pytest

from ttlproxy.link.masters.slots import SlotLog, shown


def _logged(caplog: pytest.LogCaptureFixture, *looks: list[int]) -> list[str]:
    caplog.set_level("INFO")
    slot_log = SlotLog()
    for lacking in looks:
        slot_log.log(lacking)
    return caplog.messages


def test_each_state_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    said = _logged(caplog, [], [], [7], [7], [7], [7, 8, 9], [7, 8, 9], [], [], [])
    assert said == [
        "1 slot of the Cluster has no master (7): redis-cli --cluster fix gives them masters",
        "3 slots of the Cluster have no master (7-9): redis-cli --cluster fix gives them masters",
        "each slot of the Cluster has a master again",
    ]


def test_a_slot_that_moves_is_not_mentioned(caplog: pytest.LogCaptureFixture) -> None:
    assert _logged(caplog, [], [7], [8], [], []) == []


def test_slots_are_shown_as_ranges() -> None:
    assert shown([0, 1, 2, 7, 9, 10]) == "0-2, 7, 9-10"
    assert shown(range(0, 100, 2)) == "0, 2, 4, 6, 8, 10, 12, 14 and 42 other ranges"
