"""The subcommands of `ttlproxy`, which do not run a proxy: what each has, and its module.

A subcommand's module is imported when it is called: `ttlproxy --help` and a proxy do not need it.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Coroutine, Mapping, Sequence
from importlib import import_module
from itertools import takewhile
from typing import Any, Final, NamedTuple

from ttlproxy.cli.flags import URL, Parser, beginning, explained
from ttlproxy.config import Settings
from ttlproxy.errors import INTERRUPTED, SettingsError

SUMMARIES: Final = {
    "adopt": "gives a deadline to elements that are there and have none",
    "completion": "prints the completion for bash, zsh or fish",
    "doctor": "checks the upstream, and prints how to fix what is wrong",
    "export": "gives deadlines to a server or a layout without ttlproxy",
    "healthcheck": "asks a running proxy whether it is healthy",
    "import": "takes over deadlines from another server, Redisson, or sorted sets",
    "inspect": "shows deadlines of keys, the rules that match, and what waits",
    "purge": "removes everything that ttlproxy stores in the upstream",
    "rights": "prints the ACL rules for a user who may use some keys only",
    "top": "shows a running proxy, live in the terminal",
}
# These two share a module; each of the others has the module of its name.
_MODULES: Final = {"export": "migration", "import": "migration"}
# All subcommands have the same exit codes.
CODES: Final[Mapping[int, str]] = {
    0: "done, and all is well",
    1: "it failed, or the answer is no",
    2: "the settings are wrong",
    3: "there are warnings, or elements that are not as they should be",
    4: "there are errors",
    INTERRUPTED: "interrupted",
}
# The settings that subcommands share.
OF_UPSTREAM: Final = (
    *(*beginning("upstream", "sentinel"), "connect_timeout", "prefix", "data_dir"),
)
OF_LOG: Final = beginning("log_")


class Subcommand(NamedTuple):
    """A subcommand of `ttlproxy`.

    description: for its own --help; flags: flag -> arguments of add_argument
    run: does the work, returns the exit code; settings: those that it uses
    takes: describes the words before the flags, empty if there are none
    blocks: whether its one question blocks the event loop
    """

    description: str
    flags: Mapping[str, Mapping[str, Any]]
    run: Callable[[Settings, argparse.Namespace], Coroutine[None, None, int]]
    settings: Sequence[str]
    takes: str = ""
    blocks: bool = False

    def flagged(self, words: Sequence[str]) -> tuple[argparse.Namespace, list[str]]:
        """Returns the values of its own flags, and the words left for the settings.

        `words` begins with its name. Raises SettingsError; ends the process for --help.
        """
        from textwrap import fill

        codes = ", ".join(f"{code} {what}" for code, what in CODES.items())
        parser = Parser(
            f"ttlproxy {words[0]}",
            usage=" ".join(filter(None, ("ttlproxy", words[0], self.takes, "[flags]"))),
            description=f"{self.description}\n\n{fill(f'Exit codes: {codes}.', 100)}",
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


def find_subcommand(name: str) -> Subcommand:
    """Returns one of SUMMARIES."""
    found: Subcommand = import_module(f"ttlproxy.cli.{_MODULES.get(name, name)}").SUBCOMMANDS[name]
    return found
