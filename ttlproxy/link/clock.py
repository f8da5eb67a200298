"""The Redis server's clock, as seen from here: never behind it."""

from __future__ import annotations

import time


class ServerClock:
    """Estimates the server's clock from its replies; errs to the late side, which costs a reap."""

    __slots__ = ("_offset_ms",)

    def __init__(self) -> None:
        self._offset_ms = 0.0

    @staticmethod
    def reading() -> float:
        """The local clock in ms, to be taken before a request is sent."""
        return time.monotonic() * 1000

    def now_ms(self) -> int:
        """The server's clock in ms: at least what it shows now."""
        return int(time.monotonic() * 1000 + self._offset_ms)

    def learn(self, server_ms: int, sent: float) -> None:
        """The server said `server_ms`, cut to a whole ms, in reply to what was sent at `sent`."""
        self._offset_ms = server_ms + 1 - sent
