"""The subcommands of `ttlproxy`, which do not run a proxy. Each has flags of its own.

`ttlproxy.cli.main` reads the settings.
"""

import argparse
import asyncio
import os
import shutil
import sys
from collections.abc import Callable, Coroutine, Mapping, Sequence
from itertools import takewhile
from pathlib import Path
from textwrap import fill
from typing import Any, NamedTuple

from ttlproxy.cli import adopt, migration
from ttlproxy.cli.adopt import positive
from ttlproxy.cli.flags import Parser, beginning, explained
from ttlproxy.cli.output import say, tell
from ttlproxy.config import Settings
from ttlproxy.core.keys import Keys
from ttlproxy.errors import SettingsError
from ttlproxy.net.progress import Progress
from ttlproxy.operations.client_rights import UnfitPatternError, as_typed
from ttlproxy.operations.doctor import SAMPLE, as_json, as_text, exit_code
from ttlproxy.operations.healthcheck import check
from ttlproxy.operations.migration.jobs import EXPORTS, IMPORTS
from ttlproxy.operations.purge import How
from ttlproxy.process import app
from ttlproxy.process.signals import INTERRUPTED


def _doctor(settings: Settings, own: argparse.Namespace) -> Coroutine[None, None, int]:
    return app.until_interrupted(_examine(settings, own))


async def _examine(settings: Settings, own: argparse.Namespace) -> int:
    """With --json, only the JSON is on standard output."""
    if own.state and not own.mend:
        raise SettingsError(["doctor: --state is for --mend"])
    progress = Progress(tell if own.json else say)
    upstream, found = await app.doctor(
        settings, own.sample, progress, mends=own.mend, state=own.state
    )
    coloured = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    say(
        as_json(upstream, found)
        if own.json
        else as_text(upstream, found, shutil.get_terminal_size((100, 24)).columns, coloured)
    )
    return exit_code(found)


def _purge(settings: Settings, own: argparse.Namespace) -> Coroutine[None, None, int]:
    return app.until_interrupted(_ask_and_purge(settings, own))


async def _ask_and_purge(settings: Settings, own: argparse.Namespace) -> int:
    """Raises SettingsError if nobody can be asked, or it is not said what to purge."""
    if settings.upstream is None and "data_dir" not in settings.given:
        raise SettingsError([_NAME_IT])
    if not (own.yes or own.dry_run):
        if not sys.stdin.isatty():
            raise SettingsError([_NOBODY_TO_ASK])
        upstream = settings.upstream
        where = upstream.shown if upstream else f"the Redis in {settings.data_dir}"
        tell(f"This removes all deadlines, rules and deferred commands from {where}.")
        if (await _answer("Remove them? [y/N] ")).lower() not in ("y", "yes"):
            say("nothing was removed")
            return 1
    return await app.purge(settings, How(own.force, own.dry_run), Progress(say))


async def _answer(question: str) -> str:
    """What is typed at the terminal, until Enter. Can be cancelled."""
    print(question, end="", file=sys.stderr, flush=True)
    loop, typed = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(sys.stdin, typed.set)
    try:
        await typed.wait()
    finally:
        loop.remove_reader(sys.stdin)
    return sys.stdin.readline().strip()


async def _healthcheck(settings: Settings, own: argparse.Namespace) -> int:
    say(check(settings.admin, own.probe, settings.connect_timeout))
    return 0


async def _rights(settings: Settings, own: argparse.Namespace) -> int:
    """Of the settings it uses only the prefix."""
    if not own.words:
        raise SettingsError(["give at least one key pattern"])
    keys = Keys(settings.prefix.encode(), clustered=own.cluster)
    try:
        typed = as_typed(keys, map(os.fsencode, own.words))
    except UnfitPatternError as unfit:
        raise SettingsError([str(unfit)]) from None
    say(typed.decode())
    return 0


class Subcommand(NamedTuple):
    """A subcommand of `ttlproxy`.

    description: for its own --help; flags: flag -> arguments
    of add_argument; run: does the work, returns the exit code; settings: those that it uses;
    codes: what its exit codes mean, besides those of all; takes: describes the words before the
    flags, empty if there are none
    """

    description: str
    flags: Mapping[str, Mapping[str, Any]]
    run: Callable[[Settings, argparse.Namespace], Coroutine[None, None, int]]
    settings: Sequence[str]
    codes: Mapping[int, str]
    takes: str = ""

    def flagged(self, words: Sequence[str]) -> tuple[argparse.Namespace, list[str]]:
        """The values of its own flags, and the words left for the settings.

        `words` begins with its name. Raises SettingsError; ends the process for --help.
        """
        parser = Parser(
            f"ttlproxy {words[0]}",
            usage=" ".join(filter(None, ("ttlproxy", words[0], self.takes, "[flags]"))),
            description=f"{self.description}\n\n{self._exit_codes()}",
            epilog=explained(self.settings),
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        for flag, how in self.flags.items():
            parser.add_argument(flag, **how)
        taken = list(takewhile(lambda word: not word.startswith("-"), words[1:]))
        flags = words[1 + len(taken) :] if self.takes else words[1:]
        try:
            own, rest = parser.parse_known_args(flags)
        except argparse.ArgumentError as error:
            raise SettingsError([f"{error.argument_name}: {error.message}"]) from None
        if self.takes:
            own.words = taken
        return own, rest

    def _exit_codes(self) -> str:
        codes = sorted({**_CODES_OF_ALL, **self.codes}.items())
        meant = ", ".join(f"{code} {meaning}" for code, meaning in codes)
        return fill(f"Exit codes: {meant}.", _WIDTH)


# Of the lines of a description.
_WIDTH = 100
_CODES_OF_ALL = {2: "the settings are wrong", INTERRUPTED: "interrupted"}

_NAME_IT = (
    "purge: name the Redis with --upstream, or the directory of an embedded one with --data-dir"
)
_NOBODY_TO_ASK = (
    "purge: nobody can be asked here: add --yes to remove everything, or --dry-run to see what"
    " would be removed"
)
_OF_UPSTREAM = (*beginning("upstream", "sentinel"), "connect_timeout", "prefix", "data_dir")
_OF_LOG = beginning("log_")

SUBCOMMANDS = {
    "adopt": Subcommand(
        adopt.DESCRIPTION,
        adopt.FLAGS,
        adopt.adopt,
        ("listen", "connect_timeout", *_OF_LOG),
        {0: "done", 1: "the proxy is away or refuses"},
        takes="PATTERN",
    ),
    "doctor": Subcommand(
        """\
Checks the upstream, and prints what is wrong, why it matters, and the command that mends it.
Commands that do not begin with ttlproxy are for redis-cli, connected to the upstream. Settings are
given as to ttlproxy itself: as flags, in the environment or in a file.""",
        {
            "--json": {"action": "store_true", "help": "print one JSON object, for programs"},
            "--sample": {
                "metavar": "N",
                "type": positive,
                "default": SAMPLE,
                "help": f"how many deadlines and internal keys to check (default: {SAMPLE})",
            },
            "--mend": {
                "action": "store_true",
                "help": "first drop deadlines of elements that no longer exist, and complete the"
                " schedule; proxies may keep running",
            },
            "--state": {
                "metavar": "FILE",
                "type": Path,
                "help": "with --mend: keeps how far it is, until it is over; the next run goes on"
                " there",
            },
        },
        _doctor,
        (*_OF_UPSTREAM, *_OF_LOG),
        {
            0: "all is well",
            1: "the check could not run",
            3: "there are warnings",
            4: "there are errors",
        },
    ),
    "export": Subcommand(
        migration.described(
            "Gives deadlines of elements to what works without ttlproxy. The first word says what:",
            EXPORTS,
        ),
        migration.EXPORT_FLAGS,
        migration.run_export,
        ("connect_timeout", *_OF_LOG),
        migration.CODES,
        takes="|".join(EXPORTS),
    ),
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
        {0: "the proxy is healthy", 1: "it is not, or does not answer, or --admin is not set"},
    ),
    "import": Subcommand(
        migration.described(
            "Takes over deadlines of elements through a running ttlproxy. The first word says from"
            " what:",
            IMPORTS,
        ),
        migration.IMPORT_FLAGS,
        migration.run_import,
        ("connect_timeout", *_OF_LOG),
        migration.CODES,
        takes="|".join(IMPORTS),
    ),
    "purge": Subcommand(
        """\
Removes everything that ttlproxy stores in the upstream, in every database. Your elements stay,
without their deadlines. Elements that wait for TAKE stay too. It refuses while proxies are
connected, and asks before it removes anything. If it is interrupted, start it again. Settings are
given as to ttlproxy itself: as flags, in the environment or in a file.""",
        {
            "--yes": {"action": "store_true", "help": "do not ask"},
            "--dry-run": {
                "action": "store_true",
                "help": "say what would be removed, and remove nothing",
            },
            "--force": {
                "action": "store_true",
                "help": "purge even while proxies are connected, and remove elements that wait"
                " for TAKE",
            },
        },
        _purge,
        (*_OF_UPSTREAM, *_OF_LOG),
        {0: "done", 1: "it was refused, failed, or you said no"},
    ),
    "rights": Subcommand(
        """\
Prints the ACL SETUSER command for a user who may use the keys that match the patterns, with their
deadlines, and no other keys. Type it into redis-cli, connected to the upstream. No server is asked;
--prefix must be that of the proxies.""",
        {"--cluster": {"action": "store_true", "help": "the upstream is a Redis Cluster"}},
        _rights,
        ("prefix",),
        {0: "printed", 2: "a pattern or the settings are wrong"},
        takes="PATTERN [PATTERN ...]",
    ),
}
