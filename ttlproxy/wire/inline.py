"""Inline commands: one line of words, split as Redis splits them."""

from __future__ import annotations

import re

# The characters of C's isspace(). Fewer of them end a word in Redis: `a\vb` is one word.
_BLANKS = re.compile(rb"[ \t\n\v\f\r]*")
_PLAIN = re.compile(rb"[^ \t\n\r\"']*")
# After a closing quote there must be a blank or the end of the line.
_DOUBLE_QUOTED = re.compile(rb'"((?:\\.|[^"\\])*)"(?![^ \t\n\v\f\r])', re.DOTALL)
_SINGLE_QUOTED = re.compile(rb"'((?:\\'|[^'])*+)'(?![^ \t\n\v\f\r])", re.DOTALL)
_ESCAPE = re.compile(rb"\\(x[0-9a-fA-F]{2}|.)", re.DOTALL)
_ESCAPED = {b"n": b"\n", b"r": b"\r", b"t": b"\t", b"b": b"\b", b"a": b"\a"}

# A line that every server refuses because of unbalanced quotes.
UNBALANCED = b'"\r\n'


def split(line: bytes) -> list[bytes] | None:
    """The words of a line, [] for an empty one; None if its quotes are unbalanced.

    The grammar is Redis's (src/sds.c, sdssplitargs). Valkey 9.1 allows more of a word after its
    closing quote; such a line is unbalanced here, as in Redis.
    """
    words: list[bytes] = []
    at = _end(_BLANKS, line, 0)
    while at < len(line):
        word, at = _word(line, at)
        if word is None:
            return None
        words.append(word)
        at = _end(_BLANKS, line, at)
    return words


def _end(pattern: re.Pattern[bytes], line: bytes, at: int) -> int:
    match = pattern.match(line, at)
    return match.end() if match else at


def _word(line: bytes, at: int) -> tuple[bytes | None, int]:
    """The word that begins at `at`, and where it ends. A quote may begin inside it."""
    end = _end(_PLAIN, line, at)
    plain, quote = line[at:end], line[end : end + 1]
    if quote == b'"':
        quoted = _DOUBLE_QUOTED.match(line, end)
        return (plain + _ESCAPE.sub(_unescape, quoted[1]), quoted.end()) if quoted else (None, end)
    if quote == b"'":
        quoted = _SINGLE_QUOTED.match(line, end)
        return (plain + quoted[1].replace(b"\\'", b"'"), quoted.end()) if quoted else (None, end)
    return plain, end


def _unescape(match: re.Match[bytes]) -> bytes:
    escape = match[1]
    if len(escape) == 3:
        return bytes.fromhex(escape[1:].decode())
    return _ESCAPED.get(escape, escape)
