"""`ttlproxy healthcheck`: asks a probe of a running proxy, for machines without curl."""

from __future__ import annotations

from ttlproxy.addresses import Listen
from ttlproxy.errors import HealthError
from ttlproxy.operations.admin_http import ask


def check(admin: Listen | None, probe: str, timeout_s: float) -> str:
    """The probe's text; raises HealthError if its status is not 200, or nobody answers."""
    if admin is None:
        raise HealthError("there is no address to ask: set --admin")
    status, said = ask(admin, f"/{probe}", timeout_s)
    if status != 200:
        raise HealthError(f"{probe}: {said}")
    return said
