"""Pages of a key's elements: the requests that read them, and those that date them.

Knows Redis's commands and those of ttlproxy for each type. Sends nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

Words = tuple[bytes, ...]

# How many elements a page has. For each request about a list, Redis walks through all of it.
_PAGE: Final = 500
_LIST_PAGE: Final = 5_000


class _Type(NamedTuple):
    """scan: the command that reads a page, empty for lists; step: its words for each element;
    letter, noun: of ttlproxy's commands"""

    scan: bytes
    step: int
    letter: bytes
    noun: bytes


TYPES: Final[Mapping[bytes, _Type]] = {
    b"hash": _Type(b"HSCAN", 2, b"H", b"FIELD"),
    b"set": _Type(b"SSCAN", 1, b"S", b"MEMBER"),
    b"zset": _Type(b"ZSCAN", 2, b"Z", b"MEMBER"),
    b"list": _Type(b"", 1, b"L", b"ELEMENT"),
}


class Page(NamedTuple):
    """A page of a key's elements.

    A list is read from its head, then, if it has several pages, from its tail: what a pop at one
    end has moved past the reader is found from the other end.
    at: the cursor, or how many elements lie before the page; from_tail: of a list
    """

    key: bytes
    type: _Type
    at: int = 0
    from_tail: bool = False

    @property
    def request(self) -> Words:
        """Reads the page."""
        if self.type.scan:
            return (self.type.scan, self.key, b"%d" % self.at, b"COUNT", b"%d" % _PAGE)
        first, last = self.at, self.at + _LIST_PAGE - 1
        if self.from_tail:
            first, last = -last - 1, -first - 1
        return (b"LRANGE", self.key, b"%d" % first, b"%d" % last)

    def read(self, reply: Any) -> tuple[Sequence[bytes], list[Page]]:
        """(elements, the pages behind this one): what the request's reply says."""
        if self.type.scan:
            cursor, words = reply
            rest = [self._replace(at=int(cursor))] if cursor != b"0" else []
            return list(dict.fromkeys(words[:: self.type.step])), rest
        if len(reply) == _LIST_PAGE:
            rest = [self._replace(at=self.at + _LIST_PAGE)]
        else:
            is_half = self.at and not self.from_tail
            rest = [self._replace(at=0, from_tail=True)] if is_half else []
        return list(dict.fromkeys(reply)), rest

    def order(self, elements: Sequence[bytes], ttl_ms: int) -> Words:
        """Gives those of the elements a deadline that have none; replies with 1 for each that got
        one."""
        name = b"%bPEXPIRE%b" % (self.type.letter, self.type.noun)
        return (name, self.key, b"%d" % ttl_ms, b"NX", *self._named(elements))

    def question(self, elements: Sequence[bytes]) -> Words:
        """Replies with -1 for each that has none."""
        name = b"%bPTTL%b" % (self.type.letter, self.type.noun)
        return (name, self.key, *self._named(elements))

    def _named(self, elements: Sequence[bytes]) -> Words:
        return (b"%bS" % self.type.noun, b"%d" % len(elements), *elements)
