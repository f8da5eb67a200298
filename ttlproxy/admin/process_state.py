"""What the pages are about."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Protocol

from aiohttp import web

from ttlproxy.telemetry.health import Worker
from ttlproxy.telemetry.metrics_catalogue import Report


class Subject(Protocol):
    """A proxy, be it one process or several. Each method may be called by any thread.

    A reason why it is not live, not started or not ready is empty where there is none.
    """

    def why_not_live(self) -> str: ...

    def why_not_started(self) -> str: ...

    def why_not_ready(self) -> str: ...

    def report(self) -> Report:
        """All figures, as of now or nearly."""

    def script_names(self) -> Mapping[bytes, str]:
        """Of the scripts, by what EVALSHA calls them; none where nobody here has made them."""

    def workers(self) -> Sequence[Worker]:
        """Of several processes each, else none."""


class Stop(Protocol):
    """Ends the proxy as SIGTERM does. May be called by any thread."""

    def __call__(self) -> None: ...


SUBJECT: Final = web.AppKey("subject", Subject)
