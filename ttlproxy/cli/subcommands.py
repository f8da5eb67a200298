"""The subcommands of `ttlproxy`, which do not run a proxy. Each has flags of its own.

`ttlproxy.cli.main` reads the settings.
"""

import argparse
import os
import shutil
import sys
from collections.abc import Callable, Coroutine, Mapping, Sequence
from itertools import takewhile
from pathlib import Path
from textwrap import fill
from typing import Any, Final, NamedTuple

from ttlproxy.cli import adopt, inspect, migration, top
from ttlproxy.cli.completion import DESCRIPTION, SHELLS, words
from ttlproxy.cli.flags import URL, Parser, beginning, explained
from ttlproxy.cli.numbers import positive
from ttlproxy.cli.output import ADD_APPLY, say, tell
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
    if own.state and not own.apply:
        raise SettingsError(["doctor: --state is for --apply"])
    progress = Progress(tell if own.json else say)
    upstream, found = await app.doctor(
        settings, own.sample, progress, fixes=own.apply, state=own.state
    )
    coloured = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    say(
        as_json(upstream, found)
        if own.json
        else as_text(upstream, found, shutil.get_terminal_size((100, 24)).columns, coloured)
    )
    return exit_code(found)


def _purge(settings: Settings, own: argparse.Namespace) -> Coroutine[None, None, int]:
    return app.until_interrupted(_named_and_purged(settings, own))


async def _named_and_purged(settings: Settings, own: argparse.Namespace) -> int:
    """Raises SettingsError if it is not said what to purge."""
    if settings.upstream is None and "data_dir" not in settings.given:
        raise SettingsError([_NAME_IT])
    code = await app.purge(settings, How(own.force, is_dry=not own.apply), Progress(say))
    if not own.apply:
        say(ADD_APPLY)
    return code


async def _healthcheck(settings: Settings, own: argparse.Namespace) -> int:
    say(check(settings.admin, own.probe, settings.connect_timeout))
    return 0


async def _rights(settings: Settings, own: argparse.Namespace) -> int:
    """Of the settings it uses only the prefix."""
    keys = Keys(settings.prefix.encode(), clustered=own.cluster)
    try:
        typed = as_typed(keys, map(os.fsencode, own.match))
    except UnfitPatternError as unfit:
        raise SettingsError([str(unfit)]) from None
    say(typed.decode())
    return 0


async def _completion(settings: Settings, own: argparse.Namespace) -> int:
    """Raises SettingsError if no shell is named."""
    if len(own.words) != 1 or own.words[0] not in SHELLS:
        raise SettingsError([f"completion: say one of {', '.join(SHELLS)}"])
    say(completion_of(own.words[0]))
    return 0


def completion_of(shell: str) -> str:
    """What one of SHELLS reads."""
    known = {name: (each.flags, each.settings) for name, each in SUBCOMMANDS.items()}
    return "\n".join(SHELLS[shell](words(known)))


class Subcommand(NamedTuple):
    """A subcommand of `ttlproxy`.

    description: for its own --help; flags: flag -> arguments of add_argument; run: does the work,
    returns the exit code; settings: those that it uses; takes: describes the words before the
    flags, empty if there are none
    """

    description: str
    flags: Mapping[str, Mapping[str, Any]]
    run: Callable[[Settings, argparse.Namespace], Coroutine[None, None, int]]
    settings: Sequence[str]
    takes: str = ""

    def flagged(self, words: Sequence[str]) -> tuple[argparse.Namespace, list[str]]:
        """The values of its own flags, and the words left for the settings.

        `words` begins with its name. Raises SettingsError; ends the process for --help.
        """
        parser = Parser(
            f"ttlproxy {words[0]}",
            usage=" ".join(filter(None, ("ttlproxy", words[0], self.takes, "[flags]"))),
            description=f"{self.description}\n\n{EXIT_CODES}",
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
            urls = [word for word in taken[1:] if URL.match(word)]
            own.words = [word for word in taken if word not in urls]
            rest += urls
        return own, rest


# The same of all subcommands.
CODES: Final[Mapping[int, str]] = {
    0: "done, and all is well",
    1: "it failed, or the answer is no",
    2: "the settings are wrong",
    3: "there are warnings, or elements that are not as they should be",
    4: "there are errors",
    INTERRUPTED: "interrupted",
}
EXIT_CODES: Final = fill(
    f"Exit codes: {', '.join(f'{code} {what}' for code, what in CODES.items())}.", 100
)

_NAME_IT = (
    "purge: name the Redis with --upstream, or the directory of an embedded one with --data-dir"
)
_OF_UPSTREAM = (*beginning("upstream", "sentinel"), "connect_timeout", "prefix", "data_dir")
_OF_LOG = beginning("log_")

SUBCOMMANDS = {
    "adopt": Subcommand(
        adopt.DESCRIPTION,
        adopt.FLAGS,
        adopt.adopt,
        ("listen", "connect_timeout", *_OF_LOG),
    ),
    "completion": Subcommand(DESCRIPTION, {}, _completion, (), takes="|".join(SHELLS)),
    "doctor": Subcommand(
        """\
Checks the upstream, and prints what is wrong, why it matters, and the command that fixes it.
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
            "--apply": {
                "action": "store_true",
                "help": "first fix: drop deadlines of elements that no longer exist, and complete"
                " the schedule; proxies may keep running",
            },
            "--state": {
                "metavar": "FILE",
                "type": Path,
                "help": "with --apply: keeps how far it is, until it is over; the next run goes on"
                " there",
            },
        },
        _doctor,
        (*_OF_UPSTREAM, *_OF_LOG),
    ),
    "export": Subcommand(
        migration.described(
            "Gives deadlines of elements to what works without ttlproxy. The first word says what:",
            EXPORTS,
        ),
        migration.EXPORT_FLAGS,
        migration.run_export,
        ("connect_timeout", *_OF_LOG),
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
        takes="|".join(IMPORTS),
    ),
    "inspect": Subcommand(
        inspect.DESCRIPTION,
        inspect.FLAGS,
        inspect.inspect,
        (*_OF_UPSTREAM, *_OF_LOG),
        takes="[KEY]",
    ),
    "purge": Subcommand(
        """\
Removes everything that ttlproxy stores in the upstream, in every database. Your elements stay,
without their deadlines. Elements that wait for TAKE stay too. Without --apply it only looks. It
refuses while proxies are connected. If it is interrupted, start it again. Settings are given as to
ttlproxy itself: as flags, in the environment or in a file.""",
        {
            "--apply": {
                "action": "store_true",
                "help": "remove; otherwise it only says what it would remove",
            },
            "--force": {
                "action": "store_true",
                "help": "purge even while proxies are connected, and remove elements that wait"
                " for TAKE",
            },
        },
        _purge,
        (*_OF_UPSTREAM, *_OF_LOG),
    ),
    "rights": Subcommand(
        """\
Prints the ACL SETUSER command for a user who may use the keys that match --match, with their
deadlines, and no other keys. Type it into redis-cli, connected to the upstream. No server is asked;
--prefix must be that of the proxies.""",
        {
            "--match": {
                "metavar": "PATTERN",
                "action": "append",
                "required": True,
                "help": "the keys that the user may use; may be given again",
            },
            "--cluster": {"action": "store_true", "help": "the upstream is a Redis Cluster"},
        },
        _rights,
        ("prefix",),
    ),
    "top": Subcommand(top.DESCRIPTION, top.FLAGS, top.top, ("admin", "connect_timeout")),
}
