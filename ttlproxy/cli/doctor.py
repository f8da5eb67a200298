"""`ttlproxy doctor` on the command line."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Final

from ttlproxy.cli.flags import JSON, positive, switch, value
from ttlproxy.cli.output import say, tell
from ttlproxy.cli.subcommand import OF_LOG, OF_UPSTREAM, Subcommand
from ttlproxy.config import Settings
from ttlproxy.errors import SettingsError
from ttlproxy.net.progress import Progress
from ttlproxy.operations.doctor import SAMPLE, as_json, as_text, examined, exit_code
from ttlproxy.process.app import find_upstream


async def _doctor(settings: Settings, own: argparse.Namespace) -> int:
    """Runs it; with --json, standard output has only the JSON."""
    if own.state and not own.apply:
        raise SettingsError(["doctor: --state is for --apply"])
    progress = Progress(tell if own.json else say)
    async with AsyncExitStack() as stack:
        upstream, _ = await find_upstream(settings, stack)
        found = await examined(
            settings, upstream, own.sample, progress, fixes=own.apply, state=own.state
        )
    coloured = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    say(
        as_json(upstream.shown, found)
        if own.json
        else as_text(upstream.shown, found, shutil.get_terminal_size((100, 24)).columns, coloured)
    )
    return exit_code(found)


SUBCOMMANDS: Final = {
    "doctor": Subcommand(
        """\
Checks the upstream, and prints what is wrong, why it matters, and the command that fixes it.
Commands that do not begin with ttlproxy are for redis-cli, connected to the upstream. Settings are
given as to ttlproxy itself: as flags, in the environment or in a file.""",
        {
            "--json": JSON,
            "--sample": value(
                "N", "how many deadlines and internal keys to check", positive, default=SAMPLE
            ),
            "--apply": switch(
                "first fix: drop deadlines of elements that no longer exist, and complete the"
                " schedule; proxies may keep running"
            ),
            "--state": value(
                "FILE",
                "with --apply: keeps how far it is, until it is over; the next run goes on there",
                Path,
            ),
        },
        _doctor,
        (*OF_UPSTREAM, *OF_LOG),
    )
}
