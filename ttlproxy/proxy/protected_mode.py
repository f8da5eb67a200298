"""Protected mode, as in Redis: while Redis asks for no password, clients on this machine only.

Redis's own protected mode takes the proxy's connections for clients on the proxy's machine. A
client that must show a certificate is let in by the operator's authority, as if by a password.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress

from ttlproxy.addresses import is_loopback
from ttlproxy.config import Settings
from ttlproxy.errors import Denied
from ttlproxy.link import Link, Masters

log = logging.getLogger(__name__)


async def check(
    settings: Settings, transport: asyncio.BaseTransport, source: str, link: Link
) -> None:
    """Raises Denied if the client may not be connected to this server; OSError if the server does
    not answer. `source`: the address in its PROXY header, or empty."""
    if settings.protected_mode == "no" or not settings.is_open_to_other_machines:
        return
    is_local = _is_local(transport.get_extra_info("peername"), source)
    if not (is_local or await link.login_check.asks_login()):
        raise Denied("it is not on this machine, and Redis asks for no password (protected_mode)")


async def warn(settings: Settings, link: Link | Masters) -> None:
    """Logs once, when Redis is served, that clients of other machines are refused, if they are."""
    if settings.protected_mode == "no" or not settings.is_open_to_other_machines:
        return
    await link.serving.ready.wait()
    served = [each for each in link.all if each.serving.now]
    with suppress(OSError):  # then each client's refusal is logged
        if not all([await each.login_check.asks_login() for each in served[:1]]):
            log.warning(
                "only clients on this machine are served, because Redis asks for no password: set"
                " one, or protected_mode to no if only trusted clients can reach %s",
                settings.listen,
            )


def _is_local(peername: object, source: str) -> bool:
    """Whether the client is on this machine. Any client may send a PROXY header, so the peer itself
    must be local, too."""
    if peername is None:  # it has gone
        return False
    hosts = [str(peername[0])] if isinstance(peername, tuple) else []  # else a unix socket
    hosts.append(source.rpartition(":")[0].strip("[]"))  # empty if it is a path
    return all(is_loopback(host) for host in hosts if host)
