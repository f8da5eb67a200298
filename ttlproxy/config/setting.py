"""Declares settings: a field of a dataclass with its possible values, and its description.

A value is read from text. A ValueError says what is wrong, without text that may contain a
password.
"""

from __future__ import annotations

import importlib.util
import math
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, field, fields
from pathlib import Path
from types import UnionType
from typing import Any, Final, Literal, NamedTuple, Union, get_args, get_origin

from ttlproxy.addresses import Listen, SecretFile, Upstream, line_of
from ttlproxy.core.keys import outbox_name, state_name


class Kind(NamedTuple):
    """The values that a setting may have.

    read: returns the value for text, or for what a TOML file has there; raises ValueError, which
    says what is wrong
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
        """The value unless it is set; for some settings it depends on the machine."""
        if self.declared.default_factory is not MISSING:
            return self.declared.default_factory()
        return self.declared.default

    @property
    def has_fixed_default(self) -> bool:
        """Whether its default is the same everywhere, and is a value."""
        return self.declared.default not in (MISSING, None)

    def value(self, given: Mapping[str, object]) -> object:
        """Returns the value that is given for it, or its default. Raises ValueError."""
        name = self.declared.name
        if name not in given or (given[name] is None and self.declared.default is None):
            return self.default
        return self.kind.read(given[name])


def setting(
    default: object,
    description: str,
    *,
    kind: Kind | None = None,
    at_once: bool = False,
    is_secret: bool = False,
) -> Any:
    """Returns a field of a dataclass of settings; `default` may be a function that returns the
    value. `kind`: unless it follows from the field's type."""
    metadata = {"kind": kind, "description": description, "at_once": at_once}
    if callable(default):
        return field(default_factory=default, metadata=metadata, repr=not is_secret)
    return field(default=default, metadata=metadata, repr=not is_secret)


def one_of(*choices: str) -> Kind:
    """Returns a kind with these words as its values."""

    def read(value: object) -> str:
        if value not in choices:
            raise ValueError(f"must be {' or '.join(choices)}")
        return str(value)

    return Kind(read, choices)


def whole(least: int, most: int | None = None) -> Kind:
    """Returns a kind whose values are whole numbers from `least` on, up to `most`."""
    bounds = f"of {least} or more" if most is None else f"from {least} to {most}"

    def read(value: object) -> int:
        is_whole = isinstance(value, int) and not isinstance(value, bool)
        if isinstance(value, str) and re.fullmatch(r"[+-]?\d{1,18}", value.strip()):
            value, is_whole = int(value), True
        if not is_whole or value < least or (most is not None and value > most):  # type: ignore[operator]
            raise ValueError(f"must be a whole number {bounds}")
        return value  # type: ignore[return-value]

    return Kind(read)


def _seconds(has_zero: bool) -> Kind:
    def read(value: object) -> float:
        try:
            if isinstance(value, bool):
                raise TypeError
            seconds = float(value)  # type: ignore[arg-type]
        except (TypeError, ValueError, OverflowError):
            seconds = math.nan
        if not (math.isfinite(seconds) and (seconds > 0 or (has_zero and seconds == 0))):
            raise ValueError(f"must be a number of seconds{', 0 or' if has_zero else ''} above 0")
        return seconds

    return Kind(read)


def _listen(value: object) -> Listen:
    if isinstance(value, int) and not isinstance(value, bool):  # `listen = 6380` in a file
        value = str(value)
    return value if isinstance(value, Listen) else Listen.parse(_text(value))


def _upstream(value: object) -> Upstream:
    return value if isinstance(value, Upstream) else Upstream.parse(_text(value))


def _text(value: object) -> str:
    """Returns the value if it is text; a TOML file may have others."""
    if not isinstance(value, str):
        raise ValueError("must be text, in quotation marks")
    return value


def _path(value: object) -> Path:
    return value if isinstance(value, Path) else Path(_text(value))


def _expanded(value: object) -> Path:
    try:
        return _path(value).expanduser().absolute()
    except RuntimeError as error:
        raise ValueError(str(error)) from None


def _secret_file(value: object) -> SecretFile:
    if isinstance(value, SecretFile):
        return value
    path = _path(value)
    return SecretFile(path, line_of(path))


def _readable(value: object) -> Path:
    path = _path(value)
    try:
        path.open("rb").close()
    except OSError as error:
        raise ValueError(f"cannot read the file: {error.strerror}") from None
    return path


def _folder(value: object) -> Path:
    path = _path(value)
    if not path.is_dir():
        raise ValueError("there is no such directory")
    return path


def _prefix(value: object) -> str:
    text = _text(value)
    if not text or any(letter in "{}" or letter.isspace() for letter in text):
        raise ValueError("a prefix must not be empty or contain {, } or white space")
    for name in (state_name, outbox_name):
        if name(text.encode()).startswith(text.encode()):
            raise ValueError(f"a prefix must not be a beginning of {name(b'').decode()}PREFIX")
    return text


def _permissions(value: object) -> str:
    text = _text(value)
    if not re.fullmatch("[0-7]{3,4}", text):
        raise ValueError(f"{text!r} is not three or four octal digits")
    return text


_LOOPS: Final = one_of("auto", "uvloop", "asyncio")


def _installed(value: object) -> object:
    loop = _LOOPS.read(value)
    if loop == "uvloop" and importlib.util.find_spec("uvloop") is None:
        raise ValueError("uvloop is not installed: pip install uvloop")
    return loop


def state_dir() -> Path:
    """Returns the directory for data that survives restarts, by the XDG base directory
    specification."""
    states = (os.environ.get("XDG_STATE_HOME", ""), os.path.expanduser("~/.local/state"))
    return Path(next(filter(os.path.isabs, states), "/var/lib"), "ttlproxy")


FOLDER: Final = Kind(_folder)
PATH: Final = Kind(_expanded)
PREFIX: Final = Kind(_prefix)
PERMISSIONS: Final = Kind(_permissions)
EVENT_LOOP: Final = Kind(_installed, _LOOPS.choices)
SECONDS_OR_NONE: Final = _seconds(has_zero=True)
_BY_TYPE: Final[Mapping[object, Kind]] = {
    Listen: Kind(_listen),
    Path: Kind(_readable),
    SecretFile: Kind(_secret_file),
    Upstream: Kind(_upstream),
    float: _seconds(has_zero=False),
    str: Kind(_text),
}


def settings_of(declaring: type[Any]) -> dict[str, Setting]:
    """Returns the settings that a dataclass declares, by name, in their order."""
    return {
        each.name: Setting(
            each.metadata["kind"] or _kind_of(each.type),
            each.metadata["description"],
            each.metadata["at_once"],
            each,
        )
        for each in fields(declaring)
        if each.metadata
    }


def _kind_of(declared: Any) -> Kind:
    """Returns the kind that follows from a type; from `X | None` that of X."""
    if get_origin(declared) in (Union, UnionType):
        declared, _ = get_args(declared)
    if get_origin(declared) is Literal:
        return one_of(*get_args(declared))
    return _BY_TYPE[declared]
