"""The types whose elements may have deadlines: one table for what differs only by type.

Knows no script, and none of our commands by name.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final


@dataclass(frozen=True)
class ElementType:
    """A type, and the noun for its elements: in command names, as keyword, in Redis's errors.

    name: as TYPE returns it; letter: of its events, as in `notify-keyspace-events`
    find, remove, count: the commands that look for an element, remove some, and count all
    scan: the command that reads a page, empty for lists; width: words of its reply per element
    walks: whether a search for an element walks along the key
    """

    name: str
    letter: str
    prefix: str
    one: str
    many: str
    find: str
    remove: str
    count: str
    scan: str = ""
    width: int = 1
    walks: bool = False

    @property
    def group(self) -> str:
        """Redis's name for the group of the type's commands."""
        return "sorted-set" if self.name == "zset" else self.name

    @cached_property
    def keyword(self) -> bytes:
        return self.many.upper().encode()

    def elements_at(self, args: Sequence[bytes]) -> int:
        """Returns the index of the first element in a request with a keyword and a number before
        them.

        Raises ValueError if the keyword is not there in upper case, as it nearly always is.
        """
        return args.index(self.keyword, 2) + 2

    def named(self, *elements: str) -> str:
        """Returns these elements as a request names them: `FIELDS 2 a b`."""
        return " ".join((self.many.upper(), str(len(elements)), *elements))

    def command(self, verb: str) -> bytes:
        """Returns the name of our command that does `verb` to elements: HTTLFIELD."""
        return f"{self.prefix}{verb}{self.one.upper()}".encode()


HASH: Final = ElementType(
    "hash", "h", "H", "field", "fields", "HEXISTS", "HDEL", "HLEN", "HSCAN", width=2
)
SET: Final = ElementType(
    "set", "s", "S", "member", "members", "SISMEMBER", "SREM", "SCARD", "SSCAN"
)
ZSET: Final = ElementType(
    "zset", "z", "Z", "member", "members", "ZSCORE", "ZREM", "ZCARD", "ZSCAN", width=2
)
LIST: Final = ElementType(
    "list", "l", "L", "element", "elements", "LPOS", "LREM", "LLEN", walks=True
)
TYPES: Final = {each.name.encode(): each for each in (HASH, SET, ZSET, LIST)}
