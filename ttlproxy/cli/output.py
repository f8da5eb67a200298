"""Prints for the command line: lines, times until deadlines, and the address of a new proxy."""

from __future__ import annotations

import logging
import sys
from typing import TYPE_CHECKING, Final

from ttlproxy import __version__

if TYPE_CHECKING:
    from ttlproxy.process.app import Serves

log = logging.getLogger(__name__)

# The last line of a subcommand that has changed nothing.
ADD_APPLY: Final = "nothing was changed; --apply does it"
# The units and their ms; at most two of them are shown.
_UNITS: Final = (("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1000))
_FIRST: Final = ("HSET h a 1 b 2", "HEXPIREFIELD h a 1", "HTTLFIELD h a", "HGETALL h")
_AWAY: Final = (
    "Redis is unavailable, and the log says why. Until it is there, clients get an error."
)


def say(line: str) -> None:
    """Prints a line on standard output, and flushes."""
    print(line, flush=True)


def tell(line: str) -> None:
    """Prints a line on standard error, and flushes."""
    print(line, file=sys.stderr, flush=True)


def left(ms: int) -> str:
    """Returns `in 2 h 5 min`, or `due` for a time that has passed."""
    if ms <= 0:
        return "due"
    if ms < 10_000:
        return f"in {ms / 1000:.1f} s"
    whole = [(unit, ms // length, ms % length) for unit, length in _UNITS]
    at = next(number for number, (_, count, _) in enumerate(whole) if count)
    unit, count, rest = whole[at]
    words = [f"{count} {unit}"]
    if at + 1 < len(_UNITS) and (fewer := rest // _UNITS[at + 1][1]):
        words.append(f"{fewer} {_UNITS[at + 1][0]}")
    return f"in {' '.join(words)}"


def note(serves: Serves) -> None:
    """Logs that clients may connect."""
    listen, upstream = serves.listen, serves.upstream.shown
    log.info("ttlproxy %s listens on %s, in front of %s", __version__, listen, upstream)


def greeting(serves: Serves, *, tls: bool = False) -> str:
    """Returns the greeting. Programs that start the proxy read its address in the first line.
    `tls`: whether clients connect with TLS."""
    lines = [f"ttlproxy {__version__} listens on {serves.listen}"]
    if serves.embedded:
        lines += serves.embedded.description
    else:
        lines.append(f"in front of {serves.upstream.shown}")
    if serves.page and not serves.page.path:
        lines.append(f"status page: http://{serves.page.local}")
    if serves.trouble:
        return "\n".join([*lines, _AWAY])
    listen, host = serves.listen, serves.listen.local.host
    where = "" if host == "127.0.0.1" else f"-h {host} "  # redis-cli's default
    client = f"redis-cli {f'-s {listen.path}' if listen.path else f'{where}-p {listen.port}'}"
    client += " --tls" if tls else ""
    return "\n".join([*lines, "try:", *(f"  {client} {command}" for command in _FIRST)])
