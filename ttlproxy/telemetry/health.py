"""How a proxy does, in words and in figures. Waits for nobody: any thread may ask it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from ttlproxy.telemetry.metrics_catalogue import Report, Source, report

# An event loop that has not turned for so long is taken to be stuck. The longest that it may take
# for one thing is to parse a request of max_request_bytes.
STUCK_S: Final = 3.0


class Worker(NamedTuple):
    """One of several processes. why_not_ready: empty where it is."""

    pid: int
    clients: float
    why_not_ready: str


class Health:
    """Of one process that serves. Each reason is empty where there is none.

    accepts: clients may come; drains: those that are here are let go
    """

    def __init__(self, source: Source) -> None:
        self._source = source
        self.accepts = False
        self.drains = False

    def why_not_live(self) -> str:
        return self._source.heartbeat.why_not_live(STUCK_S)

    def why_not_started(self) -> str:
        return "" if self.accepts else "starting: clients are not accepted yet"

    def why_not_ready(self) -> str:
        """While the link serves, its scripts are loaded, and it knows every managed key."""
        if self.drains:
            return "draining: the proxy is about to end"
        if not self._source.link.serving:
            trouble = self._source.link.trouble
            return f"the link to Redis is down{trouble and f': {trouble}'}"
        return self.why_not_started()

    def report(self) -> Report:
        return report(self._source)

    def script_names(self) -> Mapping[bytes, str]:
        """Of the scripts that the link has loaded, by what EVALSHA calls them."""
        return {script.sha: script.name for script in self._source.link.scripts.values()}

    def workers(self) -> Sequence[Worker]:
        return ()
