"""The Lua scripts: read from their files, with included pieces in place, ready to be called.

A script's first lines say what it does and name its KEYS, ARGV and RESULT; the loader makes locals
of those names, on the line of the first comment, so that the line numbers in Redis's errors are
those of the file where nothing is included before. `name...` stands for all that follow and becomes
`first_name`, where they begin. Knows no Redis connection.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.resources import files

_HEADER = re.compile(r"-- (KEYS|ARGV):(.*)\n")
_INCLUDE = re.compile(r"-- include (\w+)\n")


@dataclass(frozen=True)
class Script:
    """One script as Redis gets it.

    name: of its file; text: its source; sha: what EVALSHA calls it by; keys, argv: the names in
    its header, the last one of a kind may end in `...`.
    """

    name: str
    text: bytes
    sha: bytes
    keys: tuple[str, ...]
    argv: tuple[str, ...]


class Scripts(Mapping[str, Script]):
    """All scripts, made for one prefix of internal keys.

    loaded: whether Redis is believed to know them by their SHA; where not, the text is sent.
    """

    def __init__(self, prefix: bytes) -> None:
        folder = files(__name__)
        self._scripts = {
            name: _script(name, prefix)
            for name in sorted(
                entry.name.removesuffix(".lua")
                for entry in folder.iterdir()
                if entry.name.endswith(".lua")
            )
        }
        self.loaded = False

    def __getitem__(self, name: str) -> Script:
        return self._scripts[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._scripts)

    def __len__(self) -> int:
        return len(self._scripts)


def _script(name: str, prefix: bytes) -> Script:
    source = _read(name)
    keys, argv = _header(name, source)
    body = _INCLUDE.sub(lambda match: _read(f"lib/{match[1]}"), source)
    prologue = "".join(
        [f"local prefix = {_quoted(prefix)} ", *_locals("KEYS", keys), *_locals("ARGV", argv)]
    )
    text = (prologue + body).encode()
    return Script(name, text, hashlib.sha1(text).hexdigest().encode(), keys, argv)


def _read(name: str) -> str:
    return files(__name__).joinpath(f"{name}.lua").read_text("utf-8")


def _header(name: str, source: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    found = {match[1]: tuple(match[2].split()) for match in _HEADER.finditer(source)}
    if set(found) != {"KEYS", "ARGV"}:
        raise ValueError(f"script {name}: its header must name KEYS and ARGV")
    return found["KEYS"], found["ARGV"]


def _locals(table: str, names: tuple[str, ...]) -> Iterator[str]:
    for number, name in enumerate(names, 1):
        if name.endswith("..."):
            yield f"local first_{name[:-3]} = {number} "
        else:
            yield f"local {name} = {table}[{number}] "


def _quoted(value: bytes) -> str:
    """A Lua string literal."""
    return "'" + "".join(f"\\{byte:03d}" for byte in value) + "'"
