"""A proxy's health in words, its metrics, and details that are gathered only when somebody looks.

Never blocks: any thread may ask. Details that take the event loop some work are gathered on demand:
a reader starts it, and sees the result at one of the next looks.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

from ttlproxy.net import tasks
from ttlproxy.telemetry.metric_spec import MetricSource, Report
from ttlproxy.telemetry.metrics_catalogue import report

Details: TypeAlias = Mapping[str, Any]
"""A JSON object: `clients` and `parked`; empty before the first look."""
Gather: TypeAlias = Callable[[], Awaitable[Details]]


# The event loop is called stuck if it has not turned for this long. The longest legal step is to
# parse a request of max_request_bytes.
STUCK_S: Final = 3.0


class WorkerHealth(NamedTuple):
    """One of several processes. why_not_ready: the reason; empty if it is ready"""

    pid: int
    clients: float
    why_not_ready: str


class Health:
    """The health of one process that serves. Each `why_not_` is empty if all is well.

    accepts: whether clients may connect; drains: whether the process is ending
    on_details: called in the event loop with the details that were gathered
    """

    def __init__(self, source: MetricSource, gather: Gather) -> None:
        self._source = source
        self._gather = gather
        self._gathering: asyncio.Task[None] | None = None
        self._latest: Details = {}
        self.on_details: Callable[[Details], None] = lambda details: None
        self.accepts = False
        self.drains = False

    def why_not_live(self) -> str:
        return self._source.heartbeat.why_not_live(STUCK_S)

    def why_not_started(self) -> str:
        return "" if self.accepts else "starting: clients are not accepted yet"

    def why_not_ready(self) -> str:
        """Returns why it is not ready. It is while the link serves: then its scripts are loaded and
        all managed keys known.

        One of several masters is enough: a proxy that took itself out of service because of one
        would take all others out as well, and so would every other proxy.
        """
        if self.drains:
            return "draining: the proxy is shutting down"
        if not self._source.link.serving.now:
            trouble = self._source.link.trouble
            return f"the link to Redis is down{trouble and f': {trouble}'}"
        return self.why_not_started()

    def nodes(self) -> Mapping[str, str]:
        """Returns why each server is not served, by address; empty if it is."""
        return {name: node.why_not for name, node in self._source.link.nodes.items()}

    def trouble(self) -> str:
        """Returns why some requests have to wait, even if the proxy is ready."""
        return self._source.link.trouble

    def report(self) -> Report:
        return report(self._source)

    def look(self) -> None:
        """Has the details gathered anew, for a later call of `details`, unless that is being
        done."""
        self._source.loop.call_soon_threadsafe(self._begin)

    def _begin(self) -> None:
        if self._gathering is None:
            self._gathering = self._source.loop.create_task(self._renew(), name="details")
            self._gathering.add_done_callback(tasks.report)

    async def _renew(self) -> None:
        try:
            self._latest = await self._gather()
            self.on_details(self._latest)
        finally:
            self._gathering = None

    def details(self) -> Sequence[Details]:
        """Returns what each process has gathered at the last look."""
        return [self._latest] if self._latest else []

    def script_names(self) -> Mapping[bytes, str]:
        """Returns SHA -> name of the scripts that the link has loaded."""
        links = self._source.link.all
        scripts = (script for link in links for script in link.context.scripts.all())
        return {script.sha: script.name for script in scripts}

    def address(self) -> str:
        """Returns the server that is served now, or was last; empty if none has been found."""
        return self._source.link.shown

    def workers(self) -> Sequence[WorkerHealth]:
        return ()
