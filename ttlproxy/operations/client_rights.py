"""The rights of a client's ACL user who may use some keys, with deadlines, and no others.

Knows how internal names follow from those of data keys, and no server.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from ttlproxy.core.keys import Keys, escaped

# All commands on data. Dangerous ones, and those about scripts, are left out, but for how a proxy
# calls its scripts, and for what those ask of the server.
COMMANDS: Final = (
    "+@all",
    "-@admin",
    "-@dangerous",
    "-@scripting",
    "+eval",
    "+evalsha",
    "+info",
)
_WILDCARD = re.compile(rb"[*?\[\\]")
# Of such a pattern each longer pattern matches some of its names, and no other.
_BEGINNING = re.compile(rb"[^*?\[\]\\^]+\*?")


class UnfitPatternError(ValueError):
    """A pattern for which there are no narrow rights; says why."""


def rules(keys: Keys, patterns: Iterable[bytes]) -> list[bytes]:
    """The rules for ACL SETUSER, but for name and password. Raises UnfitPatternError."""
    found = [word.encode() for word in COMMANDS]
    channels = []
    for pattern in patterns:
        _check(keys, pattern)
        channels.append(b"&" + pattern)
        found += [b"~" + name for name in (pattern, *keys.of_keys(pattern), _rule(keys, pattern))]
    found += [b"~" + name for name in keys.shared]
    return [b"resetkeys", b"resetchannels", *found, *channels]


def as_typed(keys: Keys, patterns: Iterable[bytes]) -> bytes:
    """ACL SETUSER as it is typed into redis-cli. Raises UnfitPatternError."""
    return b" ".join((b"ACL SETUSER USER on >PASSWORD", *map(_quoted, rules(keys, patterns))))


def _check(keys: Keys, pattern: bytes) -> None:
    shown = pattern.decode(errors="backslashreplace")
    if not pattern or any(byte in b" \t\r\n" for byte in pattern):
        raise UnfitPatternError(f"{shown!r} is no pattern that an ACL can have")
    wildcard = _WILDCARD.search(pattern)
    head = pattern[: wildcard.start()] if wildcard else pattern
    for internal in (keys.prefix, keys.state):
        if head.startswith(internal) or internal.startswith(head):
            raise UnfitPatternError(
                f"{shown!r} may match names of ttlproxy's own: it has to begin otherwise than"
                f" {internal.decode()!r}"
            )


def _rule(keys: Keys, pattern: bytes) -> bytes:
    """The glob of the rules of ONEXPIRE that say something of keys that match, and of no others."""
    if _BEGINNING.fullmatch(pattern):
        return escaped(keys.rule(b"")) + pattern
    return escaped(keys.rule(pattern))


def _quoted(rule: bytes) -> bytes:
    """As redis-cli reads it."""
    plain = all(33 <= byte < 127 for byte in rule) and not set(rule) & set(b"\"'\\")
    if plain:
        return rule
    shown = (
        b"\\" + bytes([byte])
        if byte in b'"\\'
        else bytes([byte])
        if 32 <= byte < 127
        else b"\\x%02x" % byte
        for byte in rule
    )
    return b'"' + b"".join(shown) + b'"'
