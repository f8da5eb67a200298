"""The flags of the settings, derived from the fields of Settings, and how --help shows them."""

import argparse
from collections.abc import Iterable
from typing import Literal, get_args, get_origin

from pydantic.fields import FieldInfo

from ttlproxy.config import Settings

# What most people set: --help shows these first.
USUAL = ("upstream", "listen", "admin", "workers", "data_dir")


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
