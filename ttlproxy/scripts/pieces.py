"""Puts the pieces that scripts share (lib/*.lua) in their place, and leaves out what is not used.

The header of a piece says what it needs and what it gives:

    -- NEEDS: try.lua clock.lua data index
    -- GIVES: deadlines_changed

`try.lua` is a piece, which is included before this one if it is not there yet; the other words are
locals that must be declared before, by the script, its header or another piece. Names that only
unused functions of a piece need may be missing. A piece that stands in a function or a branch gives
its names only there.

`const.PAGE` becomes the value of that constant. Knows no connection and no prefix.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from typing import NamedTuple, TypeAlias

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


class _Chunk(NamedTuple):
    """A function of its own, or text between such ones.

    function: its name, empty for other text; names: the words in it
    """

    function: str
    text: str
    names: frozenset[str]


def assembled(script: str, given: set[str], read: Read) -> tuple[str, ...]:
    """The parts of the script with its pieces, without comments and unused functions.

    given: the names that the loader declares. ValueError if a piece stands before a local that it
    needs, or if a constant is not known.
    Many scripts have the same parts.
    """
    assembly = _Assembly(script, given, read)
    chunks = _pruned(assembly.chunks)
    for piece, needed in assembly.missing:
        if any(needed in chunk.names for chunk in chunks):
            raise ValueError(f"script {script}: {needed} is missing before lib/{piece}.lua")
    return tuple(chunk.text for chunk in chunks)


@cache
def said(source: str, what: str) -> tuple[str, ...]:
    """The words behind NEEDS or GIVES in the header of a piece."""
    lines = (match[2] for match in _SAYS.finditer(source) if match[1] == what)
    return tuple(word for line in lines for word in line.split())


def forget() -> None:
    """Many scripts have been assembled: frees what is kept for the next ones, 0.7 MB."""
    for kept in (said, _stripped, _chunks, _declared):
        kept.cache_clear()


class _Assembly:
    """One script with its pieces in place.

    missing: (piece, a local of its NEEDS that is not there)
    """

    def __init__(self, script: str, given: set[str], read: Read) -> None:
        self._read = read
        self._included: set[str] = set()
        self._names = set(given)
        self.missing: list[tuple[str, str]] = []
        self.chunks: list[_Chunk] = []
        self._add(_COMMENT.sub("", read(script)))

    def _add(self, source: str) -> None:
        """Adds the source, each piece in the place where it is first needed."""
        begin = 0
        for match in _INCLUDE.finditer(source):
            self._add_chunks(source[begin : match.start()])
            if match[2] not in self._included:
                self._add_inner(match[2]) if match[1] else self._add_piece(match[2])
            begin = match.end()
        self._add_chunks(source[begin:])

    def _add_chunks(self, text: str) -> None:
        self._names.update(_declared(text))
        self.chunks += _chunks(text)

    def _add_inner(self, name: str) -> None:
        """A piece in a function or a branch: behind that, its names are not there."""
        before = self._included, self._names
        self._included, self._names = set(self._included), set(self._names)
        self._add_piece(name)
        self._included, self._names = before

    def _add_piece(self, name: str) -> None:
        source = self._read(f"lib/{name}")
        for needed in said(source, "NEEDS"):
            piece = needed.removesuffix(".lua")
            if needed == piece and needed not in self._names:
                self.missing.append((name, needed))
            elif needed != piece and piece not in self._included:
                self._add_piece(piece)
        self._included.add(name)
        self._add(_stripped(source))
        self._names.update(said(source, "GIVES"))


@cache
def _stripped(text: str) -> str:
    """The text of a piece without empty lines, and without comments but those that include others.

    Comments of a script itself leave empty lines, so that Redis's errors tell the line in its file.
    """
    return _EMPTY.sub("", _COMMENT.sub("", text))


@cache
def _declared(text: str) -> frozenset[str]:
    """The locals that it declares."""
    return frozenset(name for names in _DECLARED.findall(text) for name in _NAME.findall(names))


@cache
def _chunks(text: str) -> tuple[_Chunk, ...]:
    """The functions, and what is between them; constants become their values."""
    found: list[_Chunk] = []

    def add(part: str, function: str) -> None:
        if part:
            valued = _CONSTANT.sub(lambda constant: literal(constant[1]), part)
            found.append(_Chunk(function, valued, frozenset(_NAME.findall(part))))

    begin = 0
    for match in _FUNCTION.finditer(text):
        add(text[begin : match.start()], "")
        add(match[0], match[1])
        begin = match.end()
    add(text[begin:], "")
    return tuple(found)


def _pruned(chunks: list[_Chunk]) -> list[_Chunk]:
    """Returns these without the functions that nothing in them calls.

    Redis makes each function of a script again for each call, in 0.1 us: the unused functions of a
    piece would cost as much as a write.
    """
    functions = {chunk.function: chunk for chunk in chunks if chunk.function}
    used, left = {""}, [chunk for chunk in chunks if not chunk.function]
    while left:
        for name in left.pop().names & functions.keys() - used:
            used.add(name)
            left.append(functions[name])
    return [chunk for chunk in chunks if chunk.function in used]
