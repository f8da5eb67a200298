"""What Redis refuses the proxy: counted each time, and logged once a minute for each cause."""

from __future__ import annotations

import logging

import pytest
from redis.exceptions import (
    MasterDownError,
    NoPermissionError,
    OutOfMemoryError,
    ReadOnlyError,
    ResponseError,
)

from ttlproxy.core.counters import Counters, NodeCounts
from ttlproxy.link.connecting.failures import (
    Refusals,
    UnreachableError,
    is_wrong_type,
    passes,
    reason,
)
from ttlproxy.link.connecting.known_server import ServerClock

MINUTE_MS = 60_000


@pytest.fixture
def now_ms(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The local clock, which the test sets: its only element."""
    now = [1000.0]
    monkeypatch.setattr(ServerClock, "reading", staticmethod(lambda: now[0]))
    return now


@pytest.mark.parametrize(
    ("refusal", "why"),
    [
        (NoPermissionError("no"), "noperm"),
        (ResponseError("NOPERM x"), "noperm"),
        (ResponseError("ERR The user executing the script can't run this command"), "noperm"),
        (ResponseError("ERR can't access the key"), "noperm"),
        (OutOfMemoryError("command not allowed"), "oom"),
        (ResponseError("Error running script: WRONGTYPE Operation"), "wrongtype"),
        (ResponseError("ERR no idea"), "other"),
    ],
)
def test_why_a_key_cannot_be_reaped(refusal: ResponseError, why: str) -> None:
    assert reason(refusal) == why


def test_only_a_busy_server_passes_by_itself() -> None:
    assert passes(ResponseError("BUSY Redis is busy"))
    assert not passes(ResponseError("BUSYKEY Target key name already exists"))
    assert not passes(ResponseError("ERR BUSY "))


def test_a_wrong_type_is_one_of_the_key_that_was_asked_for() -> None:
    assert is_wrong_type(ResponseError("WRONGTYPE Operation against a key"))
    assert not is_wrong_type(ResponseError("ERR Error running script: WRONGTYPE Operation"))


@pytest.mark.parametrize(
    ("refusal", "said"),
    [
        (
            ResponseError("BUSY Redis is busy running a script."),
            "is busy with a script of a client",
        ),
        (ReadOnlyError("You can't write against a read only replica."), "is a replica"),
        (ResponseError("ERR Error running script: -READONLY You can't write"), "is a replica"),
        (MasterDownError("Link with MASTER is down"), "is a replica that has lost its master"),
        (
            ResponseError("NOREPLICAS Not enough good replicas to write."),
            "has too few replicas that are up to date",
        ),
        (
            UnreachableError("no master that is served has the rules"),
            "has no connection to another master",
        ),
    ],
)
def test_a_passing_error_is_no_refusal_but_asked_again(
    refusal: ResponseError, said: str, now_ms: list[float], caplog: pytest.LogCaptureFixture
) -> None:
    counters = Counters()
    Refusals(counters, NodeCounts()).note("to reap in database 0", refusal)
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    words = f"Redis {said}, and is asked again to reap in database 0: {refusal}"
    assert record.getMessage() == words
    assert counters.refusals == 1


@pytest.mark.parametrize(
    "refusal",
    [
        OutOfMemoryError("command not allowed when used memory > 'maxmemory'."),
        ResponseError("MISCONF Redis is configured to save RDB snapshots, but it cannot"),
        NoPermissionError("this user has no permissions"),
    ],
)
def test_a_refusal_that_an_operator_must_fix_is_an_error(
    refusal: ResponseError, now_ms: list[float], caplog: pytest.LogCaptureFixture
) -> None:
    Refusals(Counters(), NodeCounts()).note("to reap in database 0", refusal)
    (record,) = caplog.records
    assert record.levelno == logging.ERROR
    assert record.getMessage() == f"Redis refuses to reap in database 0: {refusal}"


def test_each_cause_is_logged_once_a_minute_and_counted_each_time(
    now_ms: list[float], caplog: pytest.LogCaptureFixture
) -> None:
    counters = Counters()
    refusals = Refusals(counters, NodeCounts())

    def lines() -> list[str]:
        found = [record.getMessage() for record in caplog.records]
        assert all(record.levelno == logging.ERROR for record in caplog.records)
        caplog.clear()
        return found

    one, other = ResponseError("one"), ResponseError("other")
    refusals.note("to reap", one)
    assert lines() == ["Redis refuses to reap: one"]
    now_ms[0] += MINUTE_MS - 1
    refusals.note("to reap", one)
    assert lines() == []
    refusals.note("to reap", other)
    refusals.note("to sweep", one)
    assert lines() == ["Redis refuses to reap: other", "Redis refuses to sweep: one"]
    now_ms[0] += 1
    for _ in range(2):
        refusals.note("to reap", one)
        refusals.note("to reap", other)
    assert lines() == ["Redis refuses to reap: one"]
    assert counters.refusals == 8
    refusals.unsigned("rule", 3, 2)
    refusals.unsigned("rule", 3, 1)
    (line,) = lines()
    assert line.startswith("a rule of ONEXPIRE in database 3 was not signed")
    assert counters.unsigned == {"rule": 3}
    assert counters.refusals == 8
