"""The flags of the settings, derived from what config declares, their form in --help, and guesses
at misspelt names.

Only the name of a misspelt word is looked at and repeated: its value may be a password.
"""

import argparse
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NoReturn

from ttlproxy.config import SETTINGS, Setting
from ttlproxy.errors import SettingsError

# The settings that most people change: --help and docs/settings.md show these first.
USUAL = ("upstream", "listen", "admin", "workers", "data_dir")

# A word that is the upstream. Its scheme may be wrong, which is reported later.
URL: Final = re.compile("[A-Za-z][A-Za-z+.-]*://")

PREFIX = "TTLPROXY_"
# A similarity from 0 to 1, as in difflib. 0.75 takes `upstraem` for `upstream` and not `port` for
# `prefix`.
_ALIKE = 0.75
# Kubernetes gives each container variables for each Service; a Service `ttlproxy-admin` makes
# TTLPROXY_ADMIN_SERVICE_HOST and TTLPROXY_ADMIN_PORT_9380_TCP_ADDR.
_OF_KUBERNETES = re.compile(
    r"TTLPROXY_(\w+_)?(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT(_\d+_(TCP|UDP|SCTP)(_\w+)?)?)"
)


class Parser(argparse.ArgumentParser):
    """Refuses a flag that is given twice with a value: argparse itself would silently drop the
    first one. `action="append"` keeps all values."""

    def __init__(self, prog: str, **how: Any) -> None:
        super().__init__(prog, **how, allow_abbrev=False, exit_on_error=False)
        self.register("action", None, _Once)  # the default action, which stores a value

    def error(self, message: str) -> NoReturn:
        """Raises SettingsError if a flag is missing."""
        raise SettingsError([f"{self.prog.removeprefix('ttlproxy ')}: {message}"])


class _Once(argparse.Action):
    _is_given = False

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: str | Sequence[Any] | None,
        option_string: str | None = None,
    ) -> None:
        if self._is_given:
            raise argparse.ArgumentError(self, "is given twice")
        self._is_given = True
        setattr(namespace, self.dest, values)


# The groups of --help and of docs/settings.md: a setting is in the first one with a matching
# beginning.
_GROUPS: Final = (
    ("Redis", ("upstream", "embedded", "data_dir", "connect_")),
    (
        "clients",
        ("listen", "max_", "share_", "timeout", "stall_", "tcp_", "protected_", "proxy_p", "unix_"),
    ),
    ("TLS for clients", ("tls_",)),
    ("deadlines", ("prefix", "signing_", "show_", "reap_", "lease_", "hold_")),
    ("clients of a Cluster", ("cluster_",)),
    ("Sentinels", ("sentinel_",)),
    ("the process", ("",)),
)


def groups(names: Iterable[str]) -> Iterator[tuple[str, list[str]]]:
    """Yields these settings in groups, each with its title."""
    found: dict[str, list[str]] = {title: [] for title, _ in _GROUPS}
    for name in names:
        found[next(title for title, begins in _GROUPS if name.startswith(begins))].append(name)
    yield from ((title, theirs) for title, theirs in found.items() if theirs)


def flag(name: str) -> str:
    """Returns the flag of a setting."""
    return f"--{name.replace('_', '-')}"


def add(group: argparse._ActionsContainer, names: Iterable[str]) -> None:
    """Adds the flags of these settings to a parser or to a group of one."""
    for name in names:
        setting = SETTINGS[name]
        group.add_argument(flag(name), metavar=metavar(name, setting), help=_help(setting))


def add_config(group: argparse._ActionsContainer) -> None:
    """Adds --config, which is no setting."""
    group.add_argument("--config", metavar="FILE", help="a TOML file with settings")


def beginning(*prefixes: str) -> tuple[str, ...]:
    """Returns the settings whose names begin with one of these, in the order of --help."""
    return tuple(name for name in SETTINGS if name.startswith(prefixes))


def explained(names: Iterable[str]) -> str:
    """Returns the lines of --help about these settings and --config, the most used ones first."""
    parser = argparse.ArgumentParser(usage=argparse.SUPPRESS, add_help=False)
    group = parser.add_argument_group("settings, as of ttlproxy itself")
    add(group, sorted(names, key=lambda name: name not in USUAL))
    add_config(group)
    return parser.format_help().strip()


def metavar(name: str, setting: Setting) -> str:
    """Returns the placeholder of the value of a setting."""
    return "|".join(setting.kind.choices) or name.rpartition("_")[2].upper()


def _help(setting: Setting) -> str:
    default = setting.default
    shown = "" if default is None else f" (default: {default})"
    return f"{setting.description}{shown}".replace("%", "%%")


def value(
    metavar: str, tells: str, kind: Callable[[str], Any] = str, default: object = None, **how: Any
) -> Mapping[str, Any]:
    """Returns the arguments of add_argument for a flag with a value; --help shows its default."""
    shown = tells if default is None else f"{tells} (default: {default})"
    return {"metavar": metavar, "help": shown, "type": kind, "default": default, **how}


def switch(tells: str) -> Mapping[str, Any]:
    """Returns the arguments of add_argument for a flag without a value."""
    return {"action": "store_true", "help": tells}


def positive(text: str) -> int:
    """Reads a positive number. Raises ArgumentTypeError, as argparse wants it."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError("must be a whole number of at least 1")
    return int(text)


def database(text: str) -> int:
    """Reads the number of a database. Raises ArgumentTypeError, as argparse wants it."""
    if not text.isdecimal():
        raise argparse.ArgumentTypeError("must be the number of a database")
    return int(text)


DATABASE: Final = value("N", "the database", database, 0)
JSON: Final = switch("print one JSON object, for programs")


def guess(word: str, names: Iterable[str]) -> str:
    """Returns `; did you mean NAME?` with the most similar of the names; empty if none is
    similar."""
    from difflib import get_close_matches  # rarely needed

    similar = get_close_matches(word, list(names), 1, _ALIKE)
    return f"; did you mean {similar[0]}?" if similar else ""


def misspelt_variables(environment: Iterable[str], settings: Iterable[str]) -> list[str]:
    """Returns a sentence for each variable whose name is nearly that of a setting."""
    known = {name.upper() for name in (*settings, "config")}
    sentences = []
    for name in sorted(environment):
        found, word = name.upper(), name.upper().removeprefix(PREFIX)
        if found == word or word in known or _OF_KUBERNETES.fullmatch(found):
            continue
        from difflib import get_close_matches  # rarely needed

        if meant := get_close_matches(word, known, 1, _ALIKE):
            sentences.append(f"{name} is not a setting; did you mean {PREFIX}{meant[0]}?")
    return sentences
