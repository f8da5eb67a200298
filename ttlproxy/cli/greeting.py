"""What a proxy says when clients may connect: where it is, and what to type first."""

import logging
from typing import Final

from ttlproxy import __version__
from ttlproxy.addresses import Listen
from ttlproxy.cli.output import say
from ttlproxy.process.app import Serves

log = logging.getLogger(__name__)

_FIRST: Final = ("HSET h a 1 b 2", "HEXPIREFIELD h a 1", "HTTLFIELD h a", "HGETALL h")
_AWAY: Final = (
    "Redis is unavailable, and the log says why. Until it is there, clients get an error."
)


def greet(serves: Serves, *, tls: bool = False) -> None:
    """Prints the greeting; `tls`: clients connect with TLS."""
    say(greeting(serves, tls=tls))


def note(serves: Serves) -> None:
    """Logs that clients may connect."""
    listen, upstream = serves.listen, serves.upstream.shown
    log.info("ttlproxy %s listens on %s, in front of %s", __version__, listen, upstream)


def greeting(serves: Serves, *, tls: bool = False) -> str:
    """The greeting. Programs that start the proxy read its address in the first line."""
    lines = [f"ttlproxy {__version__} listens on {serves.listen}"]
    if serves.embedded:
        lines += serves.embedded.description
    else:
        lines.append(f"in front of {serves.upstream.shown}")
    if serves.page and not serves.page.path:
        lines.append(f"status page: http://{serves.page.local}")
    if serves.trouble:
        return "\n".join([*lines, _AWAY])
    client = _redis_cli(serves.listen) + (" --tls" if tls else "")
    return "\n".join([*lines, "try:", *(f"  {client} {command}" for command in _FIRST)])


def _redis_cli(listen: Listen) -> str:
    """The redis-cli call that connects here; its default host is 127.0.0.1."""
    if listen.path:
        return f"redis-cli -s {listen.path}"
    host = listen.local.host
    where = "" if host == "127.0.0.1" else f"-h {host} "
    return f"redis-cli {where}-p {listen.port}"
