"""`ttlproxy healthcheck`: asks a probe of a running proxy, for machines without curl."""

from __future__ import annotations

import socket
from http.client import HTTPConnection, HTTPException

from ttlproxy.addresses import Listen
from ttlproxy.errors import HealthError


class _Unix(HTTPConnection):
    """HTTP over a unix socket."""

    def __init__(self, path: str, timeout_s: float) -> None:
        super().__init__("localhost", timeout=timeout_s)
        self._path = path
        self._timeout_s = timeout_s

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self._timeout_s)
        self.sock.connect(self._path)


def check(admin: Listen | None, probe: str, timeout_s: float) -> str:
    """The probe's text; raises HealthError if its status is not 200, or nobody answers."""
    if admin is None:
        raise HealthError("there is no address to ask: set --admin")
    try:
        connection = _connection(admin, timeout_s)
        try:
            connection.request("GET", f"/{probe}", headers={"Host": "localhost"})
            response = connection.getresponse()
            said = response.read().decode(errors="replace").strip()
        finally:
            connection.close()
    except (OSError, HTTPException) as trouble:
        raise HealthError(f"no answer from {admin}: {trouble}") from trouble
    if response.status != 200:
        raise HealthError(f"{probe}: {said}")
    return said


def _connection(admin: Listen, timeout_s: float) -> HTTPConnection:
    if admin.path:
        return _Unix(admin.path, timeout_s)
    return HTTPConnection(admin.local.host, admin.port, timeout=timeout_s)
