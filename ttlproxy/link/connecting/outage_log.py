"""Logs that Redis is away, or back: once a minute for each reason, however often it changes."""

from __future__ import annotations

import logging
from typing import Final

from redis.exceptions import RedisError

from ttlproxy.core.counted import counted
from ttlproxy.errors import ServerChanged, UpstreamError
from ttlproxy.link.connecting.causes import REDIS, Asked, cause
from ttlproxy.link.connecting.server_clock import ServerClock

log = logging.getLogger(__name__)

_SILENCE_MS = 60_000
# In errors of redis-py, and in those alone.
_UNREACHED: Final = "connecting to"


class OutageLog:
    """reason: why Redis is away; empty while it is there."""

    def __init__(self, shown: str, advice: str = "", asked: Asked = REDIS) -> None:
        """`shown`: the URL, without its password; `advice`: if it was never reached."""
        self.reason = ""
        self._asked = asked
        self._advice = advice
        self._url = self._shown = shown
        self._said: dict[str, float] = {}  # when each line was written, by the local clock
        self._unsaid = 0

    def at(self, address: str) -> None:
        """The URL leads to this server now."""
        self._shown = f"{self._url} ({address})"

    def lost(self, trouble: RedisError | OSError | UpstreamError, known: str = "") -> None:
        """Redis is away, or still is; `known`: why, if that is known better."""
        is_new = not self.reason
        self.reason = known or str(cause(trouble, self._asked))
        if self._advice and _UNREACHED in str(trouble):
            self.reason += f" ({self._advice})"
        if isinstance(trouble, ServerChanged):
            self._say(logging.WARNING, f": {self.reason}; all clients are closed", is_new)
        else:
            self._say(logging.WARNING, f" is unavailable: {self.reason}", is_new)

    def over(self, managed: int) -> None:
        """The link serves; `managed`: how many keys are managed."""
        if self.reason or not self._said:
            self._say(logging.INFO, ":", True, f" {counted(managed, 'key')} managed")
        self.reason = self._advice = ""

    def _say(self, level: int, what: str, is_event: bool, more: str = "") -> None:
        """Writes a line at most once a minute; the next line counts those left out."""
        now_ms, line = ServerClock.reading(), f"{self._shown}{what}"
        self._said = {said: at for said, at in self._said.items() if now_ms - at < _SILENCE_MS}
        if line in self._said:
            self._unsaid += is_event
            return
        self._said[line] = now_ms
        unsaid = counted(self._unsaid, "line like this was", "lines like this were")
        times = f" ({unsaid} left out)" if self._unsaid else ""
        self._unsaid = 0
        log.log(level, "Redis at %s%s%s", line, more, times)
