"""What the oracle stores, and a command's view of it. Knows no command and no clock.

The whole oracle follows docs/semantics.md alone; it must never import ttlproxy.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

MAX_DEADLINE_MS = 2**46 - 1  # Redis 8, t_hash.c: HFE_MAX_ABS_TIME_MSEC
INT64 = 2**63

_INTEGER = re.compile(rb"0|-?[1-9][0-9]*")  # Redis's string2ll: no plus, blank or leading zero


class Error(NamedTuple):
    """An error reply; the text has no leading minus."""

    text: str


Reply: TypeAlias = "int | bytes | Error | list[Reply] | None"

OK = b"OK"
WRONGTYPE = Error("WRONGTYPE Operation against a key holding the wrong kind of value")
NOT_AN_INTEGER = Error("ERR value is not an integer or out of range")
NOT_A_FLOAT = Error("ERR value is not a valid float")
NO_SUCH_KEY = Error("ERR no such key")
SYNTAX = Error("ERR syntax error")


def wrong_number(command: str) -> Error:
    return Error(f"ERR wrong number of arguments for '{command}' command")


def integer(word: bytes) -> int | None:
    """The number that Redis's own parser reads, or None."""
    if _INTEGER.fullmatch(word) is None:
        return None
    number = int(word)
    return number if -INT64 <= number < INT64 else None


def score_of(word: bytes) -> float | None:
    """What Redis accepts as a score: a number, inf or infinity with or without a sign."""
    try:
        score = float(word.decode())
    except ValueError:
        return None
    return None if score != score or word != word.strip() else score


def score_text(score: float) -> bytes:
    """As Redis writes a double under RESP2: %.17g."""
    return f"{score + 0.0:.17g}".encode()


@dataclass(slots=True)
class Value:
    """The content of a key: field to value; member to b"" or to its score; b"" to a string's value.

    The values of a list are in `items`; equal values share one deadline. Models share values: only
    the command that made a copy changes it, before it is frozen.
    """

    type: str
    elements: dict[bytes, bytes] = field(default_factory=dict)
    deadlines: dict[bytes, int] = field(default_factory=dict)
    expires_ms: int | None = None
    items: list[bytes] = field(default_factory=list)
    _frozen: frozenset[Hashable] | None = field(default=None, compare=False, repr=False)

    def __contains__(self, element: bytes) -> bool:
        return element in self.elements or element in self.items

    def __len__(self) -> int:
        return len(self.elements) + len(self.items)

    def remove(self, element: bytes) -> None:
        """Removes the element and its deadline; of a list every copy."""
        self.elements.pop(element, None)
        if self.items:
            self.items = [item for item in self.items if item != element]
        self.deadlines.pop(element, None)

    def forget_absent(self) -> None:
        """Drops the deadlines of list values that have no copy left."""
        for element in self.deadlines.keys() - set(self.items):
            del self.deadlines[element]

    def copy(self) -> Value:
        return Value(
            self.type,
            dict(self.elements),
            dict(self.deadlines),
            self.expires_ms,
            list(self.items),
        )

    def frozen(self) -> Hashable:
        """Equal for equal values; a frozenset, because it caches its hash."""
        if self._frozen is None:
            parts = (
                self.type,
                self.expires_ms,
                frozenset(self.elements.items()),
                frozenset(self.deadlines.items()),
                tuple(self.items),
            )
            self._frozen = frozenset({parts})
        return self._frozen

    def as_of(self, now_ms: int) -> Value | None:
        """What is left at `now_ms`; None: nothing is. Expired means strictly past, as in Redis."""
        if self.expires_ms is not None and now_ms > self.expires_ms:
            return None
        gone = {element for element, deadline in self.deadlines.items() if now_ms > deadline}
        if not gone:
            return self
        left = self.copy()
        for element in gone:
            left.remove(element)
        return left if len(left) else None


Database: TypeAlias = dict[bytes, Value]


@dataclass(slots=True)
class Call:
    """One running command: its words (name included), and its database as the reaper sees it.

    `now_ms` is the clock that a script reads. `reaped_ms` is when the request's keys were reaped:
    an element that falls due between the two still exists. `seen` is the server's own reply, read
    only where Redis picks at random; it is None if there is no server.
    """

    name: str
    words: list[bytes]
    databases: list[Database]
    db: int
    now_ms: int
    reaped_ms: int
    seen: Reply
    version: tuple[int, int]
    _own: set[tuple[int, bytes]] = field(default_factory=set)

    @property
    def database(self) -> Database:
        return self.databases[self.db]

    def find(self, key: bytes, db: int | None = None) -> Value | None:
        """The live value of `key`, after removing for good what is past its deadline.

        This command may change the value; a second call returns the same one.
        """
        db = self.db if db is None else db
        database = self.databases[db]
        value = database.get(key)
        left = value.as_of(self.reaped_ms) if value is not None else None
        if left is None:
            database.pop(key, None)
            return None
        if (db, key) not in self._own:
            self._own.add((db, key))
            left = left.copy()
        database[key] = left
        return left

    def typed(self, key: bytes, type_: str) -> Value | Error:
        """The live value of `key`, an unstored empty one if it does not exist, or WRONGTYPE."""
        value = self.find(key)
        if value is None:
            return Value(type_)
        return value if value.type == type_ else WRONGTYPE

    def first_filled(self, keys: Iterable[bytes], type_: str) -> tuple[bytes, Value] | Error | None:
        """The first of `keys` that exists, and its value; WRONGTYPE if another type comes first."""
        for key in keys:
            value = self.typed(key, type_)
            if isinstance(value, Error):
                return value
            if len(value):
                return key, value
        return None

    def store(self, key: bytes, value: Value) -> None:
        """Puts `value` at `key`; an empty value deletes the key (R5)."""
        if len(value):
            self.database[key] = value
        else:
            self.database.pop(key, None)


Command: TypeAlias = Callable[[Call], Reply]


class Row(NamedTuple):
    """`arity` as in Redis's table: exact if positive, a minimum if negative, name included.

    `gap` is a number of words above the minimum that no form of the command has.
    """

    run: Command
    arity: int
    gap: int = 0

    def accepts(self, words: int) -> bool:
        if self.arity > 0:
            return words == self.arity
        return words >= -self.arity and words != self.gap
