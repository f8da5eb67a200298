"""The interface of the proxy that the pages show."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Protocol

from aiohttp import web

from ttlproxy.telemetry.health import Details, Worker
from ttlproxy.telemetry.metric_spec import Report


class Subject(Protocol):
    """A proxy of one process or several. Any thread may call each method.

    Each `why_not_` returns the reason; empty if the proxy is live, started or ready.
    """

    def why_not_live(self) -> str: ...

    def why_not_started(self) -> str: ...

    def why_not_ready(self) -> str: ...

    def nodes(self) -> Mapping[str, str]:
        """Why each server is not served; empty if it is. By address; several masters have one
        each."""

    def trouble(self) -> str:
        """Why some requests have to wait, even if the proxy is ready."""

    def report(self) -> Report:
        """All metrics, as of now or nearly."""

    def look(self) -> None:
        """Somebody looks: `details` are gathered anew, for a later call. Returns at once."""

    def details(self) -> Sequence[Details]:
        """The details that each process gathered at the last look; a worker's name its pid as
        `worker`."""

    def script_names(self) -> Mapping[bytes, str]:
        """SHA -> name of the scripts; empty if this process has none."""

    def address(self) -> str:
        """The server that is served now, or was last; empty if none has been found."""

    def workers(self) -> Sequence[Worker]:
        """The workers; empty if there is only one process."""


class Stop(Protocol):
    """Ends the proxy as SIGTERM does. Any thread may call it."""

    def __call__(self) -> None: ...


SUBJECT: Final = web.AppKey("subject", Subject)
