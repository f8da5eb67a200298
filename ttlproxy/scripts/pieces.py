"""Puts the pieces that scripts share (lib/*.lua) in their place, and leaves out what is not used.

The header of a piece says what it needs and what it gives:

    -- NEEDS: try.lua clock.lua data index
    -- GIVES: deadlines_changed

`try.lua` is a piece that must be included before; the other words are locals that must be declared
before, by the script, its header or another piece. What only unused functions of a piece need may
be missing. A piece that stands in a function or a branch gives its names only there.

`const.PAGE` becomes the value of that constant. Knows no connection and no prefix.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cache
from typing import TypeAlias

from ttlproxy.scripts.constants import literal

Read: TypeAlias = Callable[[str], str]
"""The source of `name` or `lib/name`."""

_INCLUDE = re.compile(r"^( *)-- include (\w+)\n", re.MULTILINE)
_SAYS = re.compile(r"^-- (NEEDS|GIVES): (.*)$", re.MULTILINE)
_DECLARED = re.compile(r"^local (?:function )?(\w+(?:, \w+)*)", re.MULTILINE)
_COMMENT = re.compile(r"^ *--(?! include \w+$).*$", re.MULTILINE)
_CONSTANT = re.compile(r"\bconst\.(\w+)")
_EMPTY = re.compile(r"^ *\n", re.MULTILINE)
_NAME = re.compile(r"\w+")
_FUNCTION = re.compile(r"^local function (\w+)\(.*?^end\n", re.MULTILINE | re.DOTALL)


def assembled(script: str, given: set[str], read: Read) -> str:
    """The script with its pieces, without comments and unused functions.

    given: the names that the loader declares. ValueError if a piece stands before what it needs,
    or if a constant is not known.
    """
    assembly = _Assembly(script, given, read)
    text = _pruned(assembly.text)
    mentioned = {*_NAME.findall(text)} if assembly.missing else set[str]()
    for piece, needed, names in assembly.missing:
        if mentioned & names:
            raise ValueError(f"script {script}: {needed} is missing before lib/{piece}.lua")
    return _CONSTANT.sub(lambda found: literal(found[1]), text)


@cache
def said(source: str, what: str) -> tuple[str, ...]:
    """The words behind NEEDS or GIVES in the header of a piece."""
    lines = (match[2] for match in _SAYS.finditer(source) if match[1] == what)
    return tuple(word for line in lines for word in line.split())


def forget() -> None:
    """Many scripts have been assembled: frees what is kept for the next ones, 0.7 MB."""
    for kept in (said, _stripped, _names):
        kept.cache_clear()


class _Assembly:
    """One script with its pieces in place.

    missing: (piece, a word of its NEEDS that is not there, the names which that word stands for)
    """

    def __init__(self, script: str, given: set[str], read: Read) -> None:
        self._read = read
        self._included: set[str] = set()
        self._names = set(given)
        self.missing: list[tuple[str, str, set[str]]] = []
        self.text = "".join(self._parts(read(script)))

    def _parts(self, source: str) -> Iterator[str]:
        """The source, each piece in the place of its first include."""
        begin = 0
        for match in _INCLUDE.finditer(source):
            yield self._declaring(source[begin : match.start()])
            if match[2] not in self._included:
                yield from self._inner(match[2]) if match[1] else self._piece(match[2])
            begin = match.end()
        yield self._declaring(source[begin:])

    def _declaring(self, text: str) -> str:
        self._names.update(*(_NAME.findall(names) for names in _DECLARED.findall(text)))
        return text

    def _inner(self, name: str) -> Iterator[str]:
        """A piece in a function or a branch: behind that, its names are not there."""
        before = self._included, self._names
        self._included, self._names = set(self._included), set(self._names)
        yield from self._piece(name)
        self._included, self._names = before

    def _piece(self, name: str) -> Iterator[str]:
        source = self._read(f"lib/{name}")
        for needed in said(source, "NEEDS"):
            piece = needed.removesuffix(".lua")
            if needed != piece and piece not in self._included:
                names = {*said(self._read(f"lib/{piece}"), "GIVES")}
                self.missing.append((name, needed, names))
            elif needed == piece and needed not in self._names:
                self.missing.append((name, needed, {needed}))
        self._included.add(name)
        yield from self._parts(_stripped(source))
        self._names.update(said(source, "GIVES"))


@cache
def _stripped(text: str) -> str:
    """The text of a piece without empty lines, and without comments but those that include others.

    Those of a script itself stay, so that Redis's errors tell the line in its file.
    """
    return _EMPTY.sub("", _COMMENT.sub("", text))


def _pruned(source: str) -> str:
    """The source without comments and without functions that nothing in it calls.

    Redis makes each function of a script again for each call, in 0.1 us: the unused functions of a
    piece would cost as much as a write.
    """
    source = _COMMENT.sub("", source)
    functions = {found[1]: found[0] for found in _FUNCTION.finditer(source)}
    mentioned = frozenset(_NAME.findall(_FUNCTION.sub("", source)))
    used: set[str] = set()
    while new := (mentioned & functions.keys()) - used:
        used |= new
        mentioned = mentioned.union(*(_names(functions[name]) for name in new))
    return _FUNCTION.sub(lambda found: found[0] if found[1] in used else "", source)


@cache
def _names(function: str) -> frozenset[str]:
    """The names in a function: many scripts have the same functions."""
    return frozenset(_NAME.findall(function))
