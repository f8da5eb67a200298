"""Measures round trips to Redis now and then, so that all others cost nothing.

What is sent next is measured, whoever sends it: the more a connection is used, the more often it
is.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from ttlproxy.core.counters import Counters
from ttlproxy.wire import whole

# Seconds from the beginning of one to that of the next.
_PAUSE_S: Final = 0.2
# Larger chunks are not read, to see which script they call.
_LARGEST: Final = 4096
_EVALSHA: Final = b"EVALSHA"

Over: TypeAlias = Callable[[bool], None]
"""Is called when a round trip has ended: whether the last reply was an error."""


class RoundTrips:
    """
    is_due: the next chunk that is sent is to be measured
    """

    def __init__(self, counters: Counters, names: Callable[[], Mapping[bytes, str]]) -> None:
        """`names()`: SHA -> name of the proxy's scripts."""
        self.is_due = True
        self._counters = counters
        self._names = names
        self._known: Mapping[bytes, str] = {}

    def begin(self, data: bytes) -> Over:
        """These requests are being sent; what it returns must be called at their last reply."""
        self.is_due = False
        asyncio.get_running_loop().call_later(_PAUSE_S, self._next)
        began_s, script = time.monotonic(), self._script(data)

        def over(is_error: bool) -> None:
            took_ms = (time.monotonic() - began_s) * 1000
            self._counters.round_trip_ms.observe(took_ms)
            if script is not None:
                self._counters.count_script_trip(script, took_ms, failed=is_error)

        return over

    def _next(self) -> None:
        self.is_due = True

    def _script(self, data: bytes) -> str | None:
        """The script of ours that is called, if that is all there is."""
        requests = whole(data) if len(data) <= _LARGEST else None
        if not requests or len(requests) > 1 or requests[0][0] != _EVALSHA:
            return None
        sha = requests[0][1]
        if sha not in self._known:
            self._known = self._names()
        return self._known.get(sha)
