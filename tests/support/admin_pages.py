"""The admin pages as an HTTP client sees them."""

from __future__ import annotations

import re
import socket
from http.client import HTTPConnection
from pathlib import Path
from typing import NamedTuple

from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

from tests.support.processes import wait_until
from tests.support.servers import Proxy

FLAGS = ("--admin", "127.0.0.1:0")
TOKEN = "a token"
QUIT = "/quitquitquit"
_ADDRESS = re.compile(r"admin pages at http://[\d.]+:(\d+)")


class Page(NamedTuple):
    """The response to a request."""

    status: int
    text: str
    headers: dict[str, str]


class _Unix(HTTPConnection):
    """host: the path of a unix socket"""

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.host)


class Pages:
    """The pages at an address: a port of 127.0.0.1, or the path of a unix socket."""

    def __init__(self, where: int | str) -> None:
        self.where = where

    def ask(self, method: str, path: str, headers: dict[str, str] | None = None) -> Page:
        where = self.where
        http = (
            HTTPConnection("127.0.0.1", where, timeout=30)
            if isinstance(where, int)
            else _Unix(where, timeout=30)
        )
        try:
            http.request(method, path, headers=headers or {})
            answer = http.getresponse()
            return Page(answer.status, answer.read().decode(), dict(answer.getheaders()))
        finally:
            http.close()

    def get(self, path: str) -> Page:
        return self.ask("GET", path)

    def end(self, token: str = "") -> Page:
        """POST /quitquitquit with this token."""
        return self.ask("POST", QUIT, {"Authorization": f"Bearer {token}"} if token else None)

    def until(self, path: str, status: int) -> Page:
        """Asks until an answer fits, and returns the first that does."""
        wait_until(lambda: self.get(path).status == status, f"{path} says {status}")
        return self.get(path)


def with_token(folder: Path) -> tuple[str, ...]:
    """FLAGS, and the flags that let TOKEN end the proxy."""
    file = folder / "token"
    file.write_text(f"{TOKEN}\n")
    return *FLAGS, "--quit-token-file", str(file)


def pages(proxy: Proxy) -> Pages:
    """The pages of a proxy that was started with FLAGS."""
    found = _ADDRESS.findall(proxy.stderr)
    return Pages(int(found[-1]))


def families(admin: Pages) -> dict[str, Metric]:
    """/metrics by metric family, as Prometheus names it."""
    text = admin.get("/metrics").text
    return {family.name: family for family in text_string_to_metric_families(text)}


def metric(admin: Pages, series: str, **labels: str) -> float:
    """The value of one series."""
    found = metric_if_there(admin, series, **labels)
    assert found is not None, f"{series} {labels}"
    return found


def metric_if_there(admin: Pages, series: str, **labels: str) -> float | None:
    """The same; None before it was measured for the first time."""
    found = [
        sample.value
        for family in families(admin).values()
        for sample in family.samples
        if (sample.name, sample.labels) == (series, labels)
    ]
    assert len(found) <= 1, f"{series} {labels}"
    return found[0] if found else None


def becomes(admin: Pages, value: float, series: str, **labels: str) -> None:
    wait_until(
        lambda: metric_if_there(admin, series, **labels) == value, f"{series} {labels} = {value}"
    )
