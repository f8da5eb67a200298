"""Patterns as Redis reads them (src/util.c, stringmatchlen). Knows no command and no key."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cached_property
from itertools import cycle
from typing import Final, NamedTuple

_ANYTHING: Final = b"."
_NOTHING: Final = b"(?!)"
_ESCAPE, _CLOSE = b"\\]"
# The parts of a pattern before its first and after its last wildcard.
_HEAD: Final = re.compile(rb"[^*?\[\\]*")
_TAIL: Final = re.compile(rb"[^*?\[\]\\]*\Z")
_SIMPLE: Final = re.compile(rb"[^\[\\]*")
_PLAIN: Final = re.compile(rb"[^*?]*")


class Glob:
    """A pattern, compiled at the first match.

    head, tail: each matching name begins and ends with these; if they differ, they do not overlap
    core: the longest string that is known to be in each matching name
    """

    def __init__(self, pattern: bytes) -> None:
        self._pattern = pattern
        self.head, self.tail = _HEAD.findall(pattern)[0], _TAIL.findall(pattern)[0]
        if b"[" in pattern and not all(
            atom.literal for atom in _between_stars(pattern)[-1][-len(self.tail) :]
        ):
            self.tail = b""  # it is in a group without an end
        is_simple = _SIMPLE.fullmatch(pattern)
        self.core = max(_PLAIN.findall(pattern), key=len) if is_simple else self.head

    def match(self, name: bytes) -> tuple[bytes, ...] | None:
        """The text that each run of stars matched, earlier ones as short as possible; else None.

        There is no backtracking. That changes no match, because the text between two stars has a
        fixed length, and it keeps the time linear in the name for any number of stars.
        """
        if self._literals is None:
            found = self._compiled.fullmatch(name)
            return found and found.groups()
        first, *rest = self._literals
        if not name.startswith(first):
            return None
        at = len(first)
        if not rest:
            return () if at == len(name) else None
        *between, last = rest
        captured = []
        for part in between:
            begin = name.find(part, at)
            if begin < 0:
                return None
            captured.append(name[at:begin])
            at = begin + len(part)
        end = len(name) - len(last)
        if end < at or not name.endswith(last):
            return None
        return (*captured, name[at:end])

    @cached_property
    def _literals(self) -> Sequence[bytes] | None:
        """The parts between the stars; None if there are other wildcards."""
        parts = _between_stars(self._pattern)
        if all(atom.literal for part in parts for atom in part):
            return [b"".join(atom.literal for atom in part) for part in parts]
        return None

    @cached_property
    def _compiled(self) -> re.Pattern[bytes]:
        return matching(self._pattern)


def matching(pattern: bytes, *, in_any_case: bool = False) -> re.Pattern[bytes]:
    """The pattern as a regular expression for fullmatch, with a group for each run of stars."""
    first, *rest = map(_source, _between_stars(pattern))
    found = first
    for number, part in enumerate(rest, 1):
        found += b"(.*)%s" % part if number == len(rest) else b"(?>(.*?)%s)" % part
    return re.compile(found, re.DOTALL | (re.IGNORECASE if in_any_case else 0))


def stars(pattern: bytes) -> int:
    """The number of runs of stars in the pattern."""
    return len(_between_stars(pattern)) - 1


def sample(pattern: bytes, *fillers: bytes) -> bytes:
    """A name with the fillers, in turn, for its runs of stars, and the first byte of the first for
    each other wildcard.

    To test whether an ACL pattern covers this one, take a filler that no ACL pattern contains.
    """
    of_stars, of_others = cycle(fillers), fillers[0][:1]
    first, *rest = (
        b"".join(atom.literal or of_others for atom in part) for part in _between_stars(pattern)
    )
    return first + b"".join(next(of_stars) + part for part in rest)


class _Atom(NamedTuple):
    """One byte of a name: a regular expression, and the byte itself if only that one matches, else
    b""."""

    source: bytes
    literal: bytes


def _source(atoms: Sequence[_Atom]) -> bytes:
    return b"".join(atom.source for atom in atoms)


def _group(pattern: bytes, at: int) -> tuple[_Atom, int]:
    """The group that begins behind a bracket, and where it ends: at the end of the pattern if
    nothing closes it. A range may be written from its end."""
    is_negated = pattern[at : at + 1] == b"^"
    at += is_negated
    named = set[int]()
    while at < len(pattern) and pattern[at] != _CLOSE:
        if pattern[at] == _ESCAPE and at + 1 < len(pattern):
            at += 1
            named.add(pattern[at])
        elif pattern[at + 1 : at + 2] == b"-" and at + 2 < len(pattern):
            first, last = sorted((pattern[at], pattern[at + 2]))
            named.update(range(first, last + 1))
            at += 2
        else:
            named.add(pattern[at])
        at += 1
    inside = b"".join(b"\\x%02x" % byte for byte in sorted(named))
    if not named:
        return _Atom(_ANYTHING if is_negated else _NOTHING, b""), at + 1
    return _Atom(b"[%s%s]" % (b"^" if is_negated else b"", inside), b""), at + 1


def _between_stars(pattern: bytes) -> list[list[_Atom]]:
    """The parts before, between and after the stars."""
    parts: list[list[_Atom]] = [[]]
    at = 0
    while at < len(pattern):
        head, at = pattern[at : at + 1], at + 1
        if head == b"*":
            if pattern[at : at + 1] != b"*":
                parts.append([])
        elif head == b"?":
            parts[-1].append(_Atom(_ANYTHING, b""))
        elif head == b"[":
            group, at = _group(pattern, at)
            parts[-1].append(group)
        else:
            if head == b"\\" and at < len(pattern):
                head, at = pattern[at : at + 1], at + 1
            parts[-1].append(_Atom(re.escape(head), head))
    return parts
