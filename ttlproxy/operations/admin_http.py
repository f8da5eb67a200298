"""Requests the admin pages of a running proxy, for programs on machines without curl."""

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


def ask(admin: Listen, path: str, timeout_s: float) -> tuple[int, str]:
    """Returns the status and the text of a page. Raises HealthError if there is no answer."""
    connection = (
        _Unix(admin.path, timeout_s)
        if admin.path
        else HTTPConnection(admin.local.host, admin.port, timeout=timeout_s)
    )
    try:
        connection.request("GET", path, headers={"Host": "localhost"})
        response = connection.getresponse()
        return response.status, response.read().decode(errors="replace").strip()
    except (OSError, HTTPException) as trouble:
        why = getattr(trouble, "strerror", None) or trouble
        raise HealthError(f"no answer from {admin}: {why}") from trouble
    finally:
        connection.close()
