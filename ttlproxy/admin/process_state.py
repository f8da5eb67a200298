"""The interface of the proxy that the pages show."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Protocol

from aiohttp import web

from ttlproxy.telemetry.health import Details, WorkerHealth
from ttlproxy.telemetry.metric_spec import Report


class Subject(Protocol):
    """A proxy of one process or several. Any thread may call each method.

    Each `why_not_` returns the reason; empty if the proxy is live, started or ready.
    """

    def why_not_live(self) -> str: ...

    def why_not_started(self) -> str: ...

    def why_not_ready(self) -> str: ...

    def nodes(self) -> Mapping[str, str]:
        """Returns why each server is not served, by address; empty if it is. Several masters have
        one each."""

    def trouble(self) -> str:
        """Returns why some requests have to wait, even if the proxy is ready."""

    def report(self) -> Report:
        """Returns all metrics, as of now or nearly."""

    def look(self) -> None:
        """Has `details` gathered anew, for a later call, because somebody looks. Returns at
        once."""

    def details(self) -> Sequence[Details]:
        """Returns the details that each process gathered at the last look; a worker's has its pid
        as `worker`."""

    def script_names(self) -> Mapping[bytes, str]:
        """Returns SHA -> name of the scripts; empty if this process has none."""

    def address(self) -> str:
        """Returns the server that is served now, or was last; empty if none has been found."""

    def workers(self) -> Sequence[WorkerHealth]:
        """Returns the workers; empty if there is only one process."""


class Stop(Protocol):
    """Ends the proxy as SIGTERM does. Any thread may call it."""

    def __call__(self) -> None: ...


SUBJECT: Final = web.AppKey("subject", Subject)
