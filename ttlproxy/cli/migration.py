"""`ttlproxy import` and `ttlproxy export`: their flags, and checks of these."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final

from ttlproxy.addresses import SecretFile, Upstream, line_of
from ttlproxy.cli.flags import flag, guess, switch, value
from ttlproxy.cli.output import say
from ttlproxy.cli.subcommand import OF_LOG, Subcommand
from ttlproxy.config import Settings
from ttlproxy.errors import SettingsError
from ttlproxy.net.progress import Progress
from ttlproxy.operations.migration.jobs import EXPORTS, IMPORTS, Job, Options
from ttlproxy.operations.migration.migration import Migration
from ttlproxy.operations.migration.pairs import UNITS

# All jobs take these.
_OF_ALL: Final = {"proxy", "proxy_password_file", "db", "rate", "apply", "state", "words"}
# Two calls of the same job may differ in these.
_OF_A_CALL: Final = {"rate", "apply", "state", "proxy_password_file"}

_FLAGS: Final = {
    "--proxy": value("URL", "the running ttlproxy", default="redis://127.0.0.1:6380"),
    "--proxy-password-file": value("FILE", "a file with the password for it"),
    "--db": value("N", "the logical database", default="0"),
    "--rate": value("N", "at most so many elements a second", default="10000"),
    "--apply": switch("write; otherwise it only says what it would do"),
}
_FILE_TELLS: Final = "keeps how far it is, until it is over"
_MATCH: Final = value("PATTERN", "only keys whose names match (default: all)")
_COPY: Final = switch(
    "add keys and elements that are not there, too, also those without a deadline"
)
_UNIT: Final = value("s|ms", "pairs: the scores are Unix times in this unit")
_IMPORT_FLAGS: Final[Mapping[str, Mapping[str, Any]]] = {
    **_FLAGS,
    "--state": value("FILE", _FILE_TELLS, default="ttlproxy-import.json"),
    "--source": value("URL", "the server that has the deadlines now"),
    "--source-password-file": value("FILE", "a file with the password for it"),
    "--match": _MATCH,
    "--copy": _COPY,
    "--delete-expired": switch(
        "delete elements whose deadline has passed (default: leave them alone)"
    ),
    "--deadlines": value("PATTERN", "pairs: the names of the sorted sets"),
    "--data": value(
        "NAME",
        "pairs: the key with the elements; %%1 is what the first * of --deadlines matched",
    ),
    "--unit": _UNIT,
    "--maps": value(
        "PATTERN", "redisson: the names of RMapCaches; may be given again", action="append"
    ),
    "--sets": value(
        "PATTERN", "redisson: the names of RSetCaches; may be given again", action="append"
    ),
    "--into": value("NAME", "redisson: the name of the copy; %%K is the name of the original"),
}
_EXPORT_FLAGS: Final[Mapping[str, Mapping[str, Any]]] = {
    **_FLAGS,
    "--state": value("FILE", _FILE_TELLS, default="ttlproxy-export.json"),
    "--to": value("URL", "the server that gets the deadlines"),
    "--to-password-file": value("FILE", "a file with the password for it"),
    "--match": _MATCH,
    "--copy": _COPY,
    "--beside": value(
        "NAME", "pairs: the sorted set; %%K is the name of the key with the elements"
    ),
    "--unit": _UNIT,
}


def _described(does: str, jobs: Mapping[str, Job]) -> str:
    """Returns the description for --help; `does`: its first sentences."""
    kinds = "\n".join(f"  {name:<10} {job.summary}" for name, job in jobs.items())
    return f"""\
{does}

{kinds}

Without --apply it only looks, and says what it would write. With --apply it writes, and then checks
what is there. If it is interrupted, start it again with the same words: it goes on. Proxies and
programs may keep running: a deadline that is set already stays. docs/migration.md has examples."""


async def _run(
    command: str,
    side: str,
    jobs: Mapping[str, Job],
    settings: Settings,
    own: argparse.Namespace,
) -> int:
    """Runs a job; `side`: the option with the URL of the other side. Raises TtlproxyError."""
    problems: list[str] = []
    job = jobs.get(own.words[0]) if len(own.words) == 1 else None
    given = {name: value for name, value in vars(own).items() if value not in (None, False)}
    if job is None:
        meant = guess(own.words[0], jobs) if own.words else ""
        problems.append(f"{command}: say one of {', '.join(jobs)}{meant}")
    else:
        called, may = f"{command} {own.words[0]}", {*_OF_ALL, *job.needs, *job.takes}
        if side in may:
            may.add(f"{side}_password_file")
        problems += [f"{flag(name)}: {called} needs it" for name in job.needs if name not in given]
        problems += [
            f"{flag(name)}: {called} does not take it" for name in given if name not in may
        ]
    options = _options(side, own, problems)
    if problems or job is None or options is None:
        raise SettingsError(problems)
    identity = {
        name: str(value)
        for name, value in given.items()
        if name not in _OF_A_CALL and not name.endswith("_file")
    }
    identity |= {"words": f"{command} {own.words[0]}", "proxy": options.proxy.shown}
    if options.other is not None:
        identity[side] = options.other.shown
    migration = Migration(job, options, identity, settings.connect_timeout)
    try:
        return await migration.run(Progress(say))
    except asyncio.CancelledError:
        if options.is_applied:
            print("interrupted: the same words go on", file=sys.stderr, flush=True)
        raise


def _options(side: str, own: argparse.Namespace, problems: list[str]) -> Options | None:
    """Returns the options of a job; None if there are problems."""
    names = vars(own)
    proxy = _upstream("proxy", names, problems)
    other = _upstream(side, names, problems) if names[side] else None
    if not own.db.isascii() or not own.db.isdigit():
        problems.append("--db: must be a number of a logical database")
    if not own.rate.isascii() or not own.rate.isdigit() or int(own.rate) < 1:
        problems.append("--rate: must be a whole number of at least 1")
    if own.unit is not None and own.unit not in UNITS:
        problems.append("--unit: must be s or ms")
    if problems or proxy is None:
        return None
    return Options(
        proxy,
        other,
        int(own.db),
        int(own.rate),
        Path(own.state),
        own.apply,
        match=os.fsencode(own.match or "*"),
        unit=own.unit or "",
        copies=own.copy,
        deletes=names.get("delete_expired", False),
        maps=[os.fsencode(pattern) for pattern in names.get("maps") or ()],
        sets=[os.fsencode(pattern) for pattern in names.get("sets") or ()],
        **{name: os.fsencode(names.get(name) or "") for name in _NAMES},
    )


_NAMES: Final = ("deadlines", "data", "beside", "into")


def _upstream(name: str, names: Mapping[str, Any], problems: list[str]) -> Upstream | None:
    try:
        found = Upstream.parse(names[name])
        if found.wants_master:
            raise ValueError("must name one server")
        if path := names[f"{name}_password_file"]:
            file = SecretFile(Path(path), line_of(Path(path)))
            found = replace(found, password=file.at_start, password_file=file)
    except ValueError as wrong:
        problems.append(f"{flag(name)}: {wrong}")
        return None
    return found


SUBCOMMANDS: Final = {
    "export": Subcommand(
        _described(
            "Gives deadlines of elements to what works without ttlproxy. The first word says what:",
            EXPORTS,
        ),
        _EXPORT_FLAGS,
        partial(_run, "export", "to", EXPORTS),
        ("connect_timeout", *OF_LOG),
        takes="|".join(EXPORTS),
    ),
    "import": Subcommand(
        _described(
            "Takes over deadlines of elements through a running ttlproxy. The first word says from"
            " what:",
            IMPORTS,
        ),
        _IMPORT_FLAGS,
        partial(_run, "import", "source", IMPORTS),
        ("connect_timeout", *OF_LOG),
        takes="|".join(IMPORTS),
    ),
}
