"""What the oracle stores, and one command's view of it. Knows no command and no clock.

The whole oracle (model*.py) is written from SEMANTICS.md alone; it must never import ttlproxy.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

MAX_DEADLINE_MS = 2**46 - 1  # Redis 8, t_hash.c: HFE_MAX_ABS_TIME_MSEC
INT64 = 2**63

_INTEGER = re.compile(rb"0|-?[1-9][0-9]*")  # Redis's string2ll: no plus, blank or leading zero


class Error(NamedTuple):
    """An error reply; the text stands without the leading minus."""

    text: str


Reply: TypeAlias = "int | bytes | Error | list[Reply] | None"

OK = b"OK"
WRONGTYPE = Error("WRONGTYPE Operation against a key holding the wrong kind of value")
NOT_AN_INTEGER = Error("ERR value is not an integer or out of range")
SYNTAX = Error("ERR syntax error")


def wrong_number(command: str) -> Error:
    return Error(f"ERR wrong number of arguments for '{command}' command")


def integer(word: bytes) -> int | None:
    """The number Redis's own parser reads, or None."""
    if _INTEGER.fullmatch(word) is None:
        return None
    number = int(word)
    return number if -INT64 <= number < INT64 else None


@dataclass(slots=True)
class Value:
    """What one key holds: field to value; member to b""; for a string b"" to it."""

    type: str
    elements: dict[bytes, bytes] = field(default_factory=dict)
    deadlines: dict[bytes, int] = field(default_factory=dict)
    expires_ms: int | None = None

    def remove(self, element: bytes) -> None:
        del self.elements[element]
        self.deadlines.pop(element, None)

    def copy(self) -> Value:
        return Value(self.type, dict(self.elements), dict(self.deadlines), self.expires_ms)

    def as_of(self, now_ms: int) -> Value | None:
        """What is left at `now_ms`; None when nothing is. Expired means strictly past, as Redis."""
        if self.expires_ms is not None and now_ms > self.expires_ms:
            return None
        gone = {element for element, deadline in self.deadlines.items() if now_ms > deadline}
        if not gone:
            return self
        left = self.copy()
        for element in gone:
            left.remove(element)
        return left if left.elements else None


Database: TypeAlias = dict[bytes, Value]


@dataclass(slots=True)
class Call:
    """One command being run: its words (name included), and its database through the reaper's eyes.

    `now_ms` is the clock a script reads. `reaped_ms` is when the request's keys were reaped: what
    fell due between the two counts as still there. `seen` is the server's own reply, consulted
    only where Redis picks at random; it is None where there is no server.
    """

    name: str
    words: list[bytes]
    database: Database
    now_ms: int
    reaped_ms: int
    seen: Reply
    version: tuple[int, int]

    def find(self, key: bytes) -> Value | None:
        """The live value of `key`, after dropping what is past its deadline for good."""
        value = self.database.get(key)
        left = value.as_of(self.reaped_ms) if value is not None else None
        if left is None:
            self.database.pop(key, None)
        elif left is not value:
            self.database[key] = left
        return left

    def typed(self, key: bytes, type_: str) -> Value | Error:
        """The live value of `key`, an unstored empty one if there is none, or WRONGTYPE."""
        value = self.find(key)
        if value is None:
            return Value(type_)
        return value if value.type == type_ else WRONGTYPE

    def store(self, key: bytes, value: Value) -> None:
        """Puts `value` at `key`; an empty one takes the key away (R5)."""
        if value.elements:
            self.database[key] = value
        else:
            self.database.pop(key, None)


Command: TypeAlias = Callable[[Call], Reply]


class Row(NamedTuple):
    """`arity` as in Redis's table: exact when positive, a minimum when negative, name included.

    `gap` is a number of words above the minimum that no form of the command has.
    """

    run: Command
    arity: int
    gap: int = 0

    def accepts(self, words: int) -> bool:
        if self.arity > 0:
            return words == self.arity
        return words >= -self.arity and words != self.gap
