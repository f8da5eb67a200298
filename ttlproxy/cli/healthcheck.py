"""`ttlproxy healthcheck`: requests a probe from the admin pages of a running proxy, for machines
without curl."""

from __future__ import annotations

import argparse
import socket
from http.client import HTTPConnection, HTTPException
from typing import Final

from ttlproxy.addresses import Listen
from ttlproxy.cli.output import say
from ttlproxy.cli.subcommand import Subcommand
from ttlproxy.config import Settings
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


async def _healthcheck(settings: Settings, own: argparse.Namespace) -> int:
    """Raises HealthError if the answer's status is not 200, or there is no answer."""
    if settings.admin is None:
        raise HealthError("there is no address to ask: set --admin")
    status, said = ask(settings.admin, f"/{own.probe}", settings.connect_timeout)
    if status != 200:
        raise HealthError(f"{own.probe}: {said}")
    say(said)
    return 0


SUBCOMMANDS: Final = {
    "healthcheck": Subcommand(
        "Asks a probe of a running proxy, at its --admin, and prints the answer.",
        {
            "--probe": {
                "choices": ("startup", "livez", "readyz"),
                "default": "readyz",
                "help": "which probe (default: readyz)",
            }
        },
        _healthcheck,
        ("admin", "connect_timeout"),
        blocks=True,
    )
}
