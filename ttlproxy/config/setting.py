"""How a setting is declared: a field of a dataclass with what its value may be, and its words."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, field, fields
from typing import Any, NamedTuple


class Kind(NamedTuple):
    """What a setting may be.

    read: gives the value of text, or of what a TOML file has there; raises ValueError, which says
      what is wrong
    choices: all values, if these are few words
    """

    read: Callable[[Any], object]
    choices: tuple[str, ...] = ()


class Setting(NamedTuple):
    """description: a line of --help; at_once: whether it may change while the proxy runs, because
    it is read at each use (`ttlproxy.process.reload`)"""

    kind: Kind
    description: str
    at_once: bool
    declared: Field[Any]

    @property
    def default(self) -> object:
        """The value unless it is set; of some it depends on the machine."""
        if self.declared.default_factory is not MISSING:
            return self.declared.default_factory()
        return self.declared.default

    @property
    def has_fixed_default(self) -> bool:
        """Whether its default is the same everywhere, and is a value."""
        return self.declared.default not in (MISSING, None)

    def value(self, given: Mapping[str, object]) -> object:
        """What is given for it, or its default. Raises ValueError."""
        name = self.declared.name
        if name not in given or (given[name] is None and self.declared.default is None):
            return self.default
        return self.kind.read(given[name])


def setting(
    kind: Kind,
    default: object,
    description: str,
    *,
    at_once: bool = False,
    is_secret: bool = False,
) -> Any:
    """A field of a dataclass of settings; `default` may be a function that gives the value."""
    metadata = {"kind": kind, "description": description, "at_once": at_once}
    if callable(default):
        return field(default_factory=default, metadata=metadata, repr=not is_secret)
    return field(default=default, metadata=metadata, repr=not is_secret)


def settings_of(declaring: type[Any]) -> dict[str, Setting]:
    """All settings that a dataclass declares, by name, in their order."""
    found = {each.name: each for each in fields(declaring) if each.metadata}
    return {name: Setting(**each.metadata, declared=each) for name, each in found.items()}
