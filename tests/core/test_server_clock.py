"""The server's clock as seen from here: never behind it, and a jump is noticed."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from ttlproxy.link.connecting import known_server
from ttlproxy.link.connecting.known_server import ServerClock

# By how much replies may disagree.
SLACK_MS = 50


@pytest.fixture
def local_s(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The local clock, which the test sets: its only element."""
    now = [100.0]
    monkeypatch.setattr(known_server, "time", SimpleNamespace(monotonic=lambda: now[0]))
    return now


class Watched(ServerClock):
    """A clock; jumps: how often it was set, as far as it noticed."""

    def __init__(self) -> None:
        self.jumps = 0
        super().__init__(self._jump)

    def _jump(self) -> None:
        self.jumps += 1


def test_it_is_not_behind_the_servers_however_long_a_reply_took(local_s: list[float]) -> None:
    clock = Watched()
    sent = clock.reading()
    assert sent == 100_000
    local_s[0] += 0.03
    clock.adjust(5_000_000, sent)  # it may have been said just after it was sent
    assert clock.now_ms() == 5_000_031
    local_s[0] += 1
    assert clock.now_ms() == 5_001_031


def test_it_is_not_behind_a_clock_that_is_being_corrected(local_s: list[float]) -> None:
    clock = Watched()
    clock.adjust(5_000_000, clock.reading())
    for passed_s in (1, 2, 5, 10):
        local_s[0] = 100.0 + passed_s
        server_ms = 5_000_000.999 + passed_s * 1000 * 1.0004
        assert server_ms - 1 < clock.now_ms() < server_ms + 3


def test_the_reply_to_time_counts_in_microseconds(local_s: list[float]) -> None:
    clock = Watched()
    clock.adjust_by([b"5000", b"999999"], clock.reading())
    assert clock.now_ms() == 5_001_000


@pytest.mark.parametrize(
    ("by_ms", "jumps"),
    [
        (0, 0),
        (SLACK_MS + 1, 0),
        (SLACK_MS + 2, 1),
        (3_600_000, 1),
        (-SLACK_MS - 1, 0),
        (-SLACK_MS - 2, 1),
        (-3_600_000, 1),
    ],
)
def test_a_clock_that_was_set_is_noticed(local_s: list[float], by_ms: int, jumps: int) -> None:
    clock = Watched()
    clock.adjust(5_000_000, clock.reading())
    clock.jumps = 0
    local_s[0] += 10
    clock.adjust(5_010_000 + by_ms, clock.reading())
    assert clock.jumps == jumps
    assert clock.now_ms() == 5_010_001 + by_ms


def test_a_slow_reply_is_no_jump(local_s: list[float]) -> None:
    clock = Watched()
    clock.adjust(5_000_000, clock.reading())
    clock.jumps = 0
    for said_after_s in (0, 3):
        sent = clock.reading()
        local_s[0] += said_after_s
        said_ms = 5_000_000 + round(clock.reading() - 100_000)
        local_s[0] += 3 - said_after_s
        clock.adjust(said_ms, sent)
    assert clock.jumps == 0
    clock.adjust(5_000_000 + round(clock.reading() - 100_000), clock.reading())
    assert clock.jumps == 0
