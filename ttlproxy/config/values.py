"""Types of single values: what a setting may be, and how it is read from text.

A ValueError says what is wrong, without text that may contain a password.
"""

import importlib.util
import os
import re
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, Field, InstanceOf
from pydantic_settings import NoDecode

from ttlproxy.addresses import Listen, SecretFile, Upstream, line_of
from ttlproxy.core.keys import outbox_name, state_name


def _listen(value: object) -> object:
    if isinstance(value, int) and not isinstance(value, bool):  # `listen = 6380` in a file
        return Listen.parse(str(value))
    return Listen.parse(_text(value)) if not isinstance(value, Listen | None) else value


def _upstream(value: object) -> object:
    return Upstream.parse(_text(value)) if not isinstance(value, Upstream | None) else value


def _secret_file(value: object) -> object:
    if isinstance(value, SecretFile | None):
        return value
    path = value if isinstance(value, Path) else Path(_text(value))
    return SecretFile(path, line_of(path))


def _text(value: object) -> str:
    """The value if it is text. A TOML file may have others."""
    if not isinstance(value, str):
        raise ValueError("must be text, in quotation marks")
    return value


def _readable(path: Path) -> Path:
    try:
        path.open("rb").close()
    except OSError as error:
        raise ValueError(f"cannot read the file: {error.strerror}") from None
    return path


def _folder(path: Path) -> Path:
    if not path.is_dir():
        raise ValueError("there is no such directory")
    return path


def _prefix(text: str) -> str:
    if not text or any(letter in "{}" or letter.isspace() for letter in text):
        raise ValueError("a prefix must not be empty or contain {, } or white space")
    for name in (state_name, outbox_name):
        if name(text.encode()).startswith(text.encode()):
            raise ValueError(f"a prefix must not be a beginning of {name(b'').decode()}PREFIX")
    return text


def _permissions(text: str) -> str:
    if not re.fullmatch("[0-7]{3,4}", text):
        raise ValueError(f"{text!r} is not three or four octal digits")
    return text


def _installed(loop: str) -> str:
    if loop == "uvloop" and importlib.util.find_spec("uvloop") is None:
        raise ValueError("uvloop is not installed: pip install uvloop")
    return loop


def _expanded(path: Path) -> Path:
    try:
        return path.expanduser().absolute()
    except RuntimeError as error:
        raise ValueError(str(error)) from None


def state_dir() -> Path:
    """The directory for data that survives restarts, by the XDG base directory specification."""
    states = (os.environ.get("XDG_STATE_HOME", ""), os.path.expanduser("~/.local/state"))
    return Path(next(filter(os.path.isabs, states), "/var/lib"), "ttlproxy")


ListenAddress = Annotated[InstanceOf[Listen], NoDecode, BeforeValidator(_listen)]
OptionalListen = Annotated[InstanceOf[Listen] | None, NoDecode, BeforeValidator(_listen)]
OptionalUpstream = Annotated[InstanceOf[Upstream] | None, NoDecode, BeforeValidator(_upstream)]
Secret = Annotated[InstanceOf[SecretFile], NoDecode, BeforeValidator(_secret_file)]
ReadableFile = Annotated[Path, AfterValidator(_readable)]
Folder = Annotated[Path, AfterValidator(_folder)]
DataDir = Annotated[Path, AfterValidator(_expanded)]
Prefix = Annotated[str, AfterValidator(_prefix)]
Permissions = Annotated[str, AfterValidator(_permissions)]
EventLoop = Annotated[Literal["auto", "uvloop", "asyncio"], AfterValidator(_installed)]
Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]
SecondsOrZero = Annotated[float, Field(ge=0, allow_inf_nan=False)]
