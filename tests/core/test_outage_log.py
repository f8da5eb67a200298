"""What the log tells when Redis is away or back, however often that changes."""

from __future__ import annotations

import logging

import pytest
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import NoPermissionError, ResponseError

from ttlproxy.errors import ServerChanged, UpstreamError
from ttlproxy.link.connecting.failures import Asked, OutageLog, cause
from ttlproxy.link.connecting.known_server import ServerClock

MINUTE_MS = 60_000


@pytest.fixture
def now_ms(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The local clock, which the test sets: its only element."""
    now = [1000.0]
    monkeypatch.setattr(ServerClock, "reading", staticmethod(lambda: now[0]))
    return now


class Lines:
    """What was logged since the last look: (level, text)."""

    def __init__(self, caplog: pytest.LogCaptureFixture) -> None:
        caplog.set_level(logging.DEBUG, logger="ttlproxy")
        self._caplog = caplog

    def new(self) -> list[tuple[str, str]]:
        found = [(record.levelname, record.getMessage()) for record in self._caplog.records]
        self._caplog.clear()
        return found


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture) -> Lines:
    return Lines(caplog)


@pytest.mark.parametrize(
    ("trouble", "told"),
    [
        (ResponseError("NOAUTH Authentication required."), "requires a password"),
        (ResponseError("AUTH called without any password configured"), "has no password for"),
        (ResponseError("WRONGPASS invalid username-password pair"), "refuses the user or the"),
        (
            NoPermissionError("no right"),
            "refuses requests of the proxy's own user (up_user): NOPERM no",
        ),
        (ResponseError("NOPERM no"), "refuses requests of the proxy's own user (up_user): NOPERM"),
    ],
)
def test_errors_are_explained_to_who_runs_the_proxy(trouble: ResponseError, told: str) -> None:
    assert str(cause(trouble, Asked("It", "up"))).startswith(f"It {told}")


def test_any_other_error_speaks_for_itself() -> None:
    assert str(cause(OSError("no route"))) == "no route"
    assert str(cause(TimeoutError())) == "TimeoutError"


def test_redis_is_away_once_and_back_once(lines: Lines, now_ms: list[float]) -> None:
    log = OutageLog("redis://r")
    log.over(3)
    assert lines.new() == [("INFO", "Redis at redis://r: 3 keys managed")]
    for _ in range(3):
        log.lost(RedisConnectionError("refused"))
    assert log.reason == "refused"
    assert lines.new() == [("WARNING", "Redis at redis://r is unavailable: refused")]
    now_ms[0] += MINUTE_MS
    log.over(4)
    assert log.reason == ""
    assert lines.new() == [("INFO", "Redis at redis://r: 4 keys managed")]
    now_ms[0] += MINUTE_MS
    log.over(4)
    assert lines.new() == [], "it was not away"


def test_lines_that_are_left_out_are_counted(lines: Lines, now_ms: list[float]) -> None:
    log = OutageLog("redis://r")
    for _ in range(3):
        log.lost(RedisConnectionError("refused"))
        log.lost(RedisConnectionError("refused"))  # still away: no event
        log.over(4)
    assert len(lines.new()) == 2
    now_ms[0] += MINUTE_MS - 1
    log.lost(RedisConnectionError("refused"))
    assert lines.new() == []
    now_ms[0] += 1
    log.lost(RedisConnectionError("refused"))
    assert lines.new() == [
        (
            "WARNING",
            "Redis at redis://r is unavailable: refused (5 lines like this were left out)",
        )
    ]
    now_ms[0] += MINUTE_MS
    log.over(4)
    assert lines.new() == [("INFO", "Redis at redis://r: 4 keys managed")], "none since"


def test_another_server_closes_all_clients_and_has_its_address_told(
    lines: Lines, now_ms: list[float]
) -> None:
    log = OutageLog("redis-sentinel://s")
    log.at("10.0.0.7:6379")
    log.lost(ServerChanged("moved"))
    log.lost(UpstreamError("gone"))
    assert lines.new() == [
        ("WARNING", "Redis at redis-sentinel://s (10.0.0.7:6379): moved; all clients are closed"),
        ("WARNING", "Redis at redis-sentinel://s (10.0.0.7:6379) is unavailable: gone"),
    ]
    log.at("10.0.0.8:6379")
    log.over(0)
    assert lines.new() == [("INFO", "Redis at redis-sentinel://s (10.0.0.8:6379): 0 keys managed")]
