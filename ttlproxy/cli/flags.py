"""The flags of the settings, derived from the fields of Settings, and how --help shows them."""

import argparse
from collections.abc import Iterable, Sequence
from typing import Any, Literal, get_args, get_origin

from pydantic.fields import FieldInfo

from ttlproxy.config import Settings

# What most people set: --help shows these first.
USUAL = ("upstream", "listen", "admin", "workers", "data_dir")


class Parser(argparse.ArgumentParser):
    """Refuses a flag that is given twice with a value: argparse's own drops the first one unseen.
    `action="append"` keeps all values."""

    def __init__(self, prog: str, **how: Any) -> None:
        super().__init__(prog, **how, allow_abbrev=False, exit_on_error=False)
        self.register("action", None, _Once)  # what stores a value


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


def flag(name: str) -> str:
    """The flag of a setting."""
    return f"--{name.replace('_', '-')}"


def add(group: argparse._ActionsContainer, names: Iterable[str]) -> None:
    """Adds the flags of these settings to a parser or to a group of one."""
    for name in names:
        field = Settings.model_fields[name]
        group.add_argument(flag(name), metavar=metavar(name, field), help=_help(field))


def add_config(group: argparse._ActionsContainer) -> None:
    """Adds --config, which is no setting."""
    group.add_argument("--config", metavar="FILE", help="a TOML file with settings")


def beginning(*prefixes: str) -> tuple[str, ...]:
    """The settings whose names begin so, in the order of --help."""
    return tuple(name for name in Settings.model_fields if name.startswith(prefixes))


def explained(names: Iterable[str]) -> str:
    """The lines of --help about these settings and --config, what most people set first."""
    parser = argparse.ArgumentParser(usage=argparse.SUPPRESS, add_help=False)
    group = parser.add_argument_group("settings, as of ttlproxy itself")
    add(group, sorted(names, key=lambda name: name not in USUAL))
    add_config(group)
    return parser.format_help().strip()


def metavar(name: str, field: FieldInfo) -> str:
    """The word that stands for the value of a setting."""
    if get_origin(field.annotation) is Literal:
        return "|".join(get_args(field.annotation))
    return name.rpartition("_")[2].upper()


def _help(field: FieldInfo) -> str:
    default = field.get_default(call_default_factory=True)
    shown = "" if default is None else f" (default: {default})"
    return f"{field.description}{shown}".replace("%", "%%")
