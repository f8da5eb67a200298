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


def ask(admin: Listen, path: str, timeout_s: float) -> tuple[int, str]:
    """Returns the status and the text of a page. Raises HealthError if there is no answer."""
    connection = HTTPConnection(admin.local.host, admin.port, timeout=timeout_s)
    try:
        if admin.path:
            connection.sock = socket.socket(socket.AF_UNIX)
            connection.sock.settimeout(timeout_s)
            connection.sock.connect(admin.path)
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
