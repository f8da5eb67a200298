"""`ttlproxy healthcheck`: requests a probe of a running proxy, for machines without curl."""

from __future__ import annotations

import argparse
from typing import Final

from ttlproxy.cli.output import say
from ttlproxy.cli.subcommand import Subcommand
from ttlproxy.config import Settings
from ttlproxy.errors import HealthError
from ttlproxy.operations.admin_http import ask


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
