"""Inline commands: one line of words, split as Redis splits them."""

from __future__ import annotations

import re

_BLANKS = re.compile(rb"[ \t\n\v\f\r]*")
_PLAIN = re.compile(rb"[^ \t\n\r\0\"']+")
_DOUBLE_QUOTED = re.compile(rb'"((?:\\x[0-9a-fA-F]{2}|\\.|[^"\\])*)"', re.DOTALL)
_SINGLE_QUOTED = re.compile(rb"'((?:\\'|[^'])*)'", re.DOTALL)
_ESCAPE = re.compile(rb"\\(x[0-9a-fA-F]{2}|.)", re.DOTALL)
_ESCAPED = {b"n": b"\n", b"r": b"\r", b"t": b"\t", b"b": b"\b", b"a": b"\a"}
_WORD_ENDS = b" \t\n\v\f\r"


def split(line: bytes) -> list[bytes] | None:
    """The words of a line, none for an empty one; None where its quotes are unbalanced.

    The grammar is Valkey 9.1's (src/sds.c, sdssplitargs), where a word may go on behind its quotes;
    such a line, when it is forwarded, Redis refuses.
    """
    words: list[bytes] = []
    at = _skip_blanks(line, 0)
    while at < len(line):
        word, at = _word(line, at)
        if word is None:
            return None
        words.append(word)
        at = _skip_blanks(line, at)
    return words


def _skip_blanks(line: bytes, at: int) -> int:
    match = _BLANKS.match(line, at)
    return match.end() if match else at


def _word(line: bytes, at: int) -> tuple[bytes | None, int]:
    """One word from `at` on, and where it ends."""
    parts: list[bytes] = []
    while at < len(line) and line[at] not in _WORD_ENDS:
        if plain := _PLAIN.match(line, at):
            parts.append(plain[0])
            at = plain.end()
            continue
        double, single = _DOUBLE_QUOTED.match(line, at), _SINGLE_QUOTED.match(line, at)
        quoted = double or single
        if quoted is None:
            return None, at
        parts.append(
            _ESCAPE.sub(_unescape, double[1]) if double else quoted[1].replace(b"\\'", b"'")
        )
        at = quoted.end()
    return b"".join(parts), at


def _unescape(match: re.Match[bytes]) -> bytes:
    escape = match[1]
    if len(escape) == 3:
        return bytes.fromhex(escape[1:].decode())
    return _ESCAPED.get(escape, escape)
