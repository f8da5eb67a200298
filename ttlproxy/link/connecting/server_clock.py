"""The Redis server's clock, as seen from here: never behind it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

# By how much replies may disagree, beside the time that they took, if nobody sets the clock.
_SLACK_MS = 50
# How much faster than the local clock the server's may run while it is being corrected: NTP slews
# by 500 ppm at most. Seconds may pass between two replies.
_FASTEST = 1.0005


class ServerClock:
    """Estimates the server's clock from its replies; errs to the late side, which costs a reap.

    `on_jump` is called when somebody has set that clock, forward or back.
    """

    __slots__ = ("_earliest_ms", "_latest_ms", "_offset_ms", "_on_jump")

    def __init__(self, on_jump: Callable[[], None] = lambda: None) -> None:
        self._on_jump = on_jump
        self._offset_ms = 0.0  # to the local clock at its fastest
        self._latest_ms = 0.0  # to the local clock when the server last answered: at most, at least
        self._earliest_ms = 0.0

    @staticmethod
    def reading() -> float:
        """The local clock in ms, to be taken before a request is sent."""
        return time.monotonic() * 1000

    def now_ms(self) -> int:
        """The server's clock in ms: at least what it shows now."""
        return int(time.monotonic() * 1000 * _FASTEST + self._offset_ms)

    def learn_time(self, reply: Sequence[bytes], sent: float) -> None:
        """The server gave this reply to a TIME sent at `sent`."""
        seconds, microseconds = map(int, reply)
        self.learn(seconds * 1000 + microseconds // 1000, sent)

    def learn(self, server_ms: int, sent: float) -> None:
        """The server said `server_ms`, cut to a whole ms, to a request sent at `sent`."""
        latest_ms, earliest_ms = server_ms + 1 - sent, server_ms - self.reading()
        jumped = (
            earliest_ms > self._latest_ms + _SLACK_MS or latest_ms < self._earliest_ms - _SLACK_MS
        )
        self._latest_ms, self._earliest_ms = latest_ms, earliest_ms
        self._offset_ms = server_ms + 1 - sent * _FASTEST
        if jumped:
            self._on_jump()
