"""The Lua scripts: read from their files, with included pieces in place, ready to be called.

A script's first lines say what it does and name its KEYS, ARGV and RESULT. The loader makes locals
of the names in KEYS and ARGV. It puts them on the line of the first comment, so a line number in an
error of Redis is that of the file, up to the first include. Comments and unused functions are not
sent. A line `READS` says that a script writes nothing; from Redis 7.0 on, the server runs it even
while it takes no writes. `name...` stands for all words from there on; the local `first_name` is
the number of the first. Other locals are `class`, the letter of the type that the script's name
begins with, and what `traits` says of the server. Knows no Redis connection.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from ttlproxy.scripts.pieces import assembled
from ttlproxy.scripts.traits import Traits

__all__ = ["Script", "Scripts", "Traits"]

_HEADER = re.compile(r"-- (KEYS|ARGV):(.*)\n")
_READS = re.compile(r"^-- READS$", re.MULTILINE)
_CALLED = re.compile(r"\b(?:call|pcall|try)\(\s*'(\w+)'")
_READING = {
    *("COMMAND", "INFO", "TIME", "DBSIZE", "EXISTS", "PTTL", "RANDOMKEY", "SCAN", "TYPE", "GET"),
    *("HEXISTS", "HGET", "HKEYS", "HLEN", "HPEXPIRETIME", "HRANDFIELD", "SCARD", "SISMEMBER"),
    *("LLEN", "LPOS", "LRANGE", "ZCARD", "ZCOUNT", "ZRANDMEMBER", "ZRANGE", "ZRANGEBYLEX"),
    *("ZRANGEBYSCORE", "ZRANK", "ZSCORE"),
}
# The last two only keep what scripts may do without flags: run on a full server or on stale data.
_FLAGS = "#!lua flags=no-writes,allow-oom,allow-stale\n"
_TYPES = {"hash": "h", "set": "s", "zset": "z", "list": "l"}


@dataclass(frozen=True)
class Script:
    """One script as Redis gets it.

    name: its file's; text: its source; sha: its SHA-1 in hex, for EVALSHA; keys, argv: the names
    in its header, the last may end in `...`; reads: whether it writes nothing.
    """

    name: str
    text: bytes
    sha: bytes
    keys: tuple[str, ...]
    argv: tuple[str, ...]
    reads: bool


class Scripts(Mapping[str, Script]):
    """All scripts, made for one prefix of internal keys and one server.

    loaded: whether Redis is believed to know them by their SHA; if not, the text is sent.
    by_text: whether the server has no EVALSHA, so that loading them is of no use.
    doubts: how many requests have passed that may change `loaded` or the traits.
    """

    def __init__(self, prefix: bytes) -> None:
        self._prefix = prefix
        self._names = sorted(
            entry.name.removesuffix(".lua")
            for entry in files(__name__).iterdir()
            if entry.name.endswith(".lua")
        )
        self.by_text = False
        self.doubts = 0
        self._suit(Traits())

    def flushed(self) -> None:
        """Redis no longer knows them, or soon may not."""
        self.loaded = False
        self.doubts += 1

    def suit(self, traits: Traits) -> None:
        """Remakes them if the traits are new; the server does not know the new scripts yet."""
        if traits != self.traits:
            self._suit(traits)

    def ruled(self, ruled: bool, counting: bool) -> None:
        """`ruled`: whether there is a rule of ONEXPIRE; `counting`: whether one has a MAX."""
        self.suit(self.traits._replace(ruled=ruled, counting=counting))

    def _suit(self, traits: Traits) -> None:
        self.traits = traits
        self.loaded = False
        # A script is made when it is first asked for, so that changes of the traits cost little.
        self._scripts: dict[str, Script] = {}

    def __getitem__(self, name: str) -> Script:
        made = self._scripts  # read before the traits: another thread may read while they change
        script = made.get(name)
        if script is None:
            if name not in self._names:
                raise KeyError(name)
            script = made[name] = _script(name, self._prefix, self.traits)
        return script

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


def _script(name: str, prefix: bytes, traits: Traits) -> Script:
    keys, argv = _header(name, _read(name))
    given = _of_server(name, prefix, traits) | _of_call(keys, argv)
    prologue = "".join(f"local {local} = {value} " for local, value in given.items())
    source, reads = prologue + _body(name), _reads(name)
    if reads and traits.flags:  # replaces the file's first line, which is a comment
        source = _FLAGS + prologue + _body(name).removeprefix("\n")
    text = source.encode()
    return Script(name, text, hashlib.sha1(text).hexdigest().encode(), keys, argv, reads)


@cache
def _reads(name: str) -> bool:
    """Whether a script says that it writes nothing. ValueError if it calls a command that may."""
    if not _READS.search(_read(name)):
        return False
    if writes := {*_CALLED.findall(_body(name))} - _READING:
        raise ValueError(f"script {name}: it says that it reads, and calls {sorted(writes)}")
    return True


@cache
def _body(name: str) -> str:
    """The part of a script that is the same for all prefixes and servers."""
    given = _of_server(name, b"", Traits()) | _of_call(*_header(name, _read(name)))
    return assembled(name, {*given}, _read)


@cache
def _read(name: str) -> str:
    return files(__name__).joinpath(f"{name}.lua").read_text("utf-8")


def _header(name: str, source: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    found = {match[1]: tuple(match[2].split()) for match in _HEADER.finditer(source)}
    if set(found) != {"KEYS", "ARGV"}:
        raise ValueError(f"script {name}: its header must name KEYS and ARGV")
    return found["KEYS"], found["ARGV"]


def _of_server(name: str, prefix: bytes, traits: Traits) -> dict[str, str]:
    """The locals that every script has, and their values."""
    return {
        "prefix": _quoted(prefix),
        "class": f"'{_TYPES.get(name.partition('_')[0], '')}'",
        "events": f"'{traits.events}'",
        "field_ttls": str(traits.field_ttls).lower(),
        "counting": str(traits.counting).lower(),
        "ruled": str(traits.ruled).lower(),
    }


def _of_call(keys: tuple[str, ...], argv: tuple[str, ...]) -> dict[str, str]:
    """The locals for the words of a call, as the header names them, and their values."""
    found: dict[str, str] = {}
    for table, names in (("KEYS", keys), ("ARGV", argv)):
        for number, name in enumerate(names, 1):
            if name.endswith("..."):
                found[f"first_{name[:-3]}"] = str(number)
            else:
                found[name] = f"{table}[{number}]"
    return found


def _quoted(value: bytes) -> str:
    """A Lua string literal."""
    return "'" + "".join(f"\\{byte:03d}" for byte in value) + "'"
