"""Whether a proxy lives and is ready, in words. Asks nobody: any thread may ask it at any time."""

from __future__ import annotations

from typing import Final

from ttlproxy.link import Link
from ttlproxy.pulse import Pulse

# An event loop that has not turned for so long is taken to be stuck. The longest that it may take
# for one thing is to parse a request of max_request_bytes.
STUCK_S: Final = 3.0


class Health:
    """Of one process that serves. Each answer is a reason, empty where there is none.

    accepts: clients may come; drains: those that are here are let go
    """

    def __init__(self, link: Link, pulse: Pulse) -> None:
        self._link = link
        self._pulse = pulse
        self.accepts = False
        self.drains = False

    def why_not_live(self) -> str:
        age_s = self._pulse.age_s()
        return f"the event loop has been stuck for {age_s:.1f} s" if age_s > STUCK_S else ""

    def why_not_started(self) -> str:
        return "" if self.accepts else "starting: clients are not accepted yet"

    def why_not_ready(self) -> str:
        """While the link serves, its scripts are loaded, and it knows every managed key."""
        if self.drains:
            return "draining: the proxy is about to end"
        if not self._link.serving:
            return "the link to Redis is down"
        return self.why_not_started()
