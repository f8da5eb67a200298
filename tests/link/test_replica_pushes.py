"""When a replica's pushes, and what its master's registry knows, make up all that it has."""

from __future__ import annotations

import pytest

from tests.link.conftest import KEYS
from ttlproxy.link.shared import replica_pushes as module
from ttlproxy.link.shared.replica_pushes import Checkpoint, ReplicaPushes


def _said(key: bytes, deadline_ms: int) -> list[object]:
    return [b"invalidate", [KEYS.announcement(0, deadline_ms, key)]]


def _state(offset: int, **others: str) -> dict[str, str]:
    said = {"role": "slave", "master_link_status": "up", "master_replid": "history"}
    return said | {"slave_repl_offset": str(offset)} | others


@pytest.fixture
async def pushes() -> ReplicaPushes:
    """Those of a replica whose master has just been asked for checkpoint 1."""
    pushes = ReplicaPushes(KEYS, "replica", "master")
    pushes.part_begins(1)
    return pushes


AT_10 = Checkpoint(1, "history", 10)


async def test_a_replica_is_ready_once_it_has_passed_a_checkpoint(pushes: ReplicaPushes) -> None:
    pushes.heard(1)
    for state in (
        _state(9),
        _state(99, master_replid="another"),
        _state(99, master_link_status="down"),
        _state(99, role="master"),
        {},
    ):
        pushes.update(state, [AT_10])
        assert not pushes.is_ready
    pushes.update(_state(10), [AT_10, Checkpoint(2, "history", 11)])
    assert (pushes.is_ready, pushes.since) == (True, 1)
    pushes.update(_state(11), [AT_10, Checkpoint(2, "history", 11)])
    assert (pushes.is_ready, pushes.since) == (True, 2)


async def test_what_was_pushed_since_the_last_checkpoint_is_kept(pushes: ReplicaPushes) -> None:
    pushes._pushed(_said(b"one", 100))
    pushes.heard(1)
    pushes.part_begins(2)
    pushes._pushed(_said(b"two", 200))
    assert list(pushes.announced()) == [(b"one", 100), (b"two", 200)]
    pushes.heard(2)
    assert list(pushes.announced()) == [(b"two", 200)]
    pushes.part_begins(3)
    pushes.fails(3)
    pushes._pushed([b"invalidate", [KEYS.hello]])
    assert list(pushes.announced()) == [(b"two", 200)]


async def test_a_checkpoint_that_failed_is_none_to_begin_with(pushes: ReplicaPushes) -> None:
    pushes.fails(1)
    assert pushes.since is None
    pushes.part_begins(2)
    assert pushes.since == 2


async def test_a_flush_and_new_data_of_a_master_end_all(pushes: ReplicaPushes) -> None:
    pushes.heard(1)
    pushes.update(_state(10), [AT_10])
    pushes._pushed([b"invalidate", None])
    assert (pushes.is_ready, pushes.since, list(pushes.announced())) == (False, None, [])
    pushes.update(_state(99), [AT_10])
    assert not pushes.is_ready


async def test_too_much_is_not_kept(pushes: ReplicaPushes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MOST", 3)
    pushes.heard(1)
    pushes.update(_state(10), [AT_10])
    for number in range(4):
        assert pushes.is_ready
        pushes._pushed(_said(b"%d" % number, 1))
    assert not pushes.is_ready
