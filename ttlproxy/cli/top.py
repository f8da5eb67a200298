"""`ttlproxy top`: a running proxy, live in the terminal, with the data of its status page."""

from __future__ import annotations

import argparse
import asyncio
import json
import shutil
import sys
import termios
import tty
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import islice, zip_longest
from textwrap import wrap
from typing import Any, Final

from ttlproxy.addresses import Listen
from ttlproxy.cli.flags import positive, switch, value
from ttlproxy.cli.healthcheck import ask
from ttlproxy.cli.output import left, say
from ttlproxy.cli.subcommand import Subcommand
from ttlproxy.config import Settings
from ttlproxy.errors import HealthError

_DESCRIPTION: Final = """\
Shows a running proxy, live: throughput, latency, lag, keys with deadlines and the next of these,
clients, and what is parked. It asks the pages at --admin, by default those at 127.0.0.1:9380, and q
or Ctrl-C ends it. Without a terminal, or with --once, it prints one screen."""
_FLAGS: Final[Mapping[str, Mapping[str, Any]]] = {
    "--every": value("SECONDS", "seconds between two screens", positive, default=1),
    "--once": switch("print one screen, and end"),
}
_HERE: Final = Listen("127.0.0.1", 9380)
# Switches to another screen without a cursor, and back; the beginning of a screen, the end of a
# line, and the rest of a screen.
_ENTER: Final = "\x1b[?1049h\x1b[?25l"
_LEAVE: Final = "\x1b[?25h\x1b[?1049l"
_HOME, _LINE_END, _REST = "\x1b[H", "\x1b[K\n", "\x1b[J"
_BARS: Final = "▁▂▃▄▅▆▇█"
_BARS_SHOWN: Final = 30
# Shown in place of an unknown value.
_UNKNOWN: Final = "-"
_TITLES: Final = 16
# Rows of the next deadlines: clients need room, too.
_ROWS: Final = 12


async def _top(settings: Settings, own: argparse.Namespace) -> int:
    """Runs it. Raises HealthError if the first question is not answered."""
    admin, timeout_s = settings.admin or _HERE, settings.connect_timeout
    try:
        first = await asyncio.to_thread(_looked, admin, timeout_s)
    except HealthError as trouble:
        raise HealthError(f"{trouble}; name the --admin of the proxy") from trouble
    if own.once or not (sys.stdout.isatty() and sys.stdin.isatty()):
        await asyncio.sleep(2 * own.every)  # details that are gathered on demand are there by then
        first = await asyncio.to_thread(_looked, admin, timeout_s)
        say("\n".join(screen(admin, first, *shutil.get_terminal_size((100, 40)))))
        return 0
    with _terminal() as ended:
        while not ended.is_set():
            try:
                found = await asyncio.to_thread(_looked, admin, timeout_s)
                lines = screen(admin, found, *shutil.get_terminal_size())
            except HealthError as trouble:
                lines = [str(trouble), "It is asked again. q ends this."]
            sys.stdout.write(_HOME + "".join(line + _LINE_END for line in lines) + _REST)
            sys.stdout.flush()
            with suppress(TimeoutError):
                async with asyncio.timeout(own.every):
                    await ended.wait()
    return 0


def _looked(admin: Listen, timeout_s: float) -> dict[str, Any]:
    """Returns what the status page shows, with the keys that are due next as `due`, if they may be
    seen. Raises HealthError."""
    found = _json(admin, "/status.json", timeout_s)
    return {**found, "due": _json(admin, "/inspect.json", timeout_s) if found["inspector"] else {}}


def _json(admin: Listen, path: str, timeout_s: float) -> dict[str, Any]:
    status, text = ask(admin, path, timeout_s)
    if status != 200:
        raise HealthError(f"{admin} answers {status}: {text}")
    try:
        found: dict[str, Any] = json.loads(text)
    except ValueError:
        raise HealthError(f"{admin} is not the --admin of a ttlproxy") from None
    return found


@contextmanager
def _terminal() -> Iterator[asyncio.Event]:
    """Uses a screen of its own; the event is set when q is typed."""
    ended, loop, before = asyncio.Event(), asyncio.get_running_loop(), termios.tcgetattr(0)

    def typed() -> None:
        if sys.stdin.read(1).lower() in ("q", ""):
            ended.set()

    tty.setcbreak(0)
    loop.add_reader(0, typed)
    sys.stdout.write(_ENTER)
    try:
        yield ended
    finally:
        loop.remove_reader(0)
        termios.tcsetattr(0, termios.TCSADRAIN, before)
        sys.stdout.write(_LEAVE)
        sys.stdout.flush()


def screen(admin: Listen, found: Mapping[str, Any], width: int, height: int) -> list[str]:
    """Returns the lines of one screen; `found`: from `_looked`. An unknown figure is not shown as
    0."""
    series = found["series"]
    rows = [
        (f"ttlproxy {found['version']}", f"at {admin}, in front of {found['upstream']}"),
        ("state", found["why_not"] or f"ready, up {_age(found['uptime_s'])}"),
        ("", ""),
        ("requests/s", f"{_number(series['requests']):>10}  {_bars(series['requests'])}"),
        ("round trip", f"{_number(series['round_trip_ms'], 1):>10} ms to Redis"),
        ("bytes/s", f"{_number(series['bytes_in']):>10} in, {_number(series['bytes_out'])} out"),
        ("removed/s", f"{_number(series['reaped']):>10}  {_bars(series['reaped'])}"),
        (
            "removed late",
            f"{_number(series['lag_p50_ms'], 1):>10} ms (p50),"
            f" {_number(series['lag_p99_ms'], 1)} ms (p99)",
        ),
        (
            "managed keys",
            f"{_number(series['managed_keys']):>10}, of which {_number(series['overdue'])} overdue",
        ),
        ("clients", f"{_number(series['clients']):>10}{_states(found['clients'])}"),
        ("parked keys", f"{_parked(found['parked']):>10}"),
    ]
    room = max(width - _TITLES, 20)
    lines = [
        f"{title:<{_TITLES}}{part}".rstrip()
        for whole, text in rows
        for title, part in zip_longest([whole], wrap(text, room) or [""], fillvalue="")
    ]
    lines += ["", "next deadlines", *islice(_due(found["due"]), _ROWS)]
    if clients := [*_clients(found["clients"])]:
        lines += ["", "clients", *clients]
    return [line[:width] for line in lines[: height - 1]]


def _due(due: Mapping[str, Any]) -> Iterator[str]:
    if "keys" not in due:
        yield f"  {due.get('error', 'not shown: see --inspector')}"
        return
    for row in due["keys"]:
        yield f"  {left(row['ms_left']):<16}{row['name']}"
    if not due["keys"]:
        yield "  no key has any"


def _number(values: Sequence[float | None], digits: int = 0) -> str:
    """Returns the latest value."""
    last = values[-1] if values else None
    return _UNKNOWN if last is None else f"{last:,.{digits}f}"


def _bars(values: Sequence[float | None]) -> str:
    """Returns the latest values as bars, relative to the highest of them."""
    known = [value or 0 for value in values[-_BARS_SHOWN:]]
    most = max(known, default=0)
    steps = len(_BARS) - 1
    return "".join(_BARS[round(value / most * steps)] for value in known) if most else ""


def _states(clients: Mapping[str, Any]) -> str:
    states = ", ".join(f"{count} {state}" for state, count in clients.get("states", {}).items())
    return f"  ({states})" if states else ""


def _clients(clients: Mapping[str, Any]) -> Iterator[str]:
    """Yields the clients with the most that waits for them, then the oldest."""
    for row in clients.get("rows", []):
        buffered = f", {row['buffered']:,} bytes buffered" if row["buffered"] else ""
        yield f"  {row['address']:<24}{row['state']}, here for {_age(row['age_s'])}{buffered}"


def _parked(parked: Mapping[str, Any]) -> str:
    if "all" not in parked:
        return _UNKNOWN
    groups = ", ".join(f"{group['count']} {group['why']}" for group in parked["groups"])
    return f"{parked['all']:,}" + (f"  ({groups})" if groups else "")


def _age(seconds: int) -> str:
    return left(1000 * max(seconds, 1)).removeprefix("in ")


SUBCOMMANDS: Final = {"top": Subcommand(_DESCRIPTION, _FLAGS, _top, ("admin", "connect_timeout"))}
