"""The ACL rules of a client's user who may use some keys, their deadlines included, and no others.

Knows how internal names follow from those of data keys. Knows no server.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from ttlproxy.core.keys import Keys, escaped
from ttlproxy.core.write_rules import MARK

# All commands on data, none that are dangerous or about scripts, except EVAL and EVALSHA, with
# which a proxy calls its scripts, and INFO, which these call.
COMMANDS: Final = (
    "+@all",
    "-@admin",
    "-@dangerous",
    "-@scripting",
    "+eval",
    "+evalsha",
    "+info",
)
# A client of a Cluster sends these; before 7.0 they are among the dangerous commands.
_IN_CLUSTER: Final = (
    "+asking",
    *(f"+cluster|{word}" for word in ("myid", "nodes", "shards", "slots")),
)
_WILDCARD = re.compile(rb"[*?\[\\]")
# Plain text, then a star or nothing: any longer pattern that it matches is narrower.
_BEGINNING = re.compile(rb"[^*?\[\]\\^]+\*?")


class UnfitPatternError(ValueError):
    """There are no narrow rights for this pattern; the text says why."""


def rules(keys: Keys, patterns: Iterable[bytes]) -> list[bytes]:
    """Returns the rules for ACL SETUSER, without name and password. Raises UnfitPatternError."""
    commands = (*COMMANDS, *(_IN_CLUSTER if keys.clustered else ()))
    found = [word.encode() for word in commands]
    channels = []
    for pattern in patterns:
        _check(keys, pattern)
        channels.append(b"&" + pattern)
        names = (pattern, *keys.of_keys(pattern), _rule(keys, pattern), _rule(keys, pattern, MARK))
        found += [b"~" + name for name in names]
    found += [b"~" + name for name in keys.shared]
    return [b"resetkeys", b"resetchannels", *found, *channels]


def as_typed(keys: Keys, patterns: Iterable[bytes]) -> bytes:
    """Returns the ACL SETUSER command to type into redis-cli. Raises UnfitPatternError."""
    return b" ".join((b"ACL SETUSER USER on >PASSWORD", *map(_quoted, rules(keys, patterns))))


def _check(keys: Keys, pattern: bytes) -> None:
    shown = pattern.decode(errors="backslashreplace")
    if not pattern or any(byte in b" \t\r\n" for byte in pattern):
        raise UnfitPatternError(
            f"{shown!r} is not a valid ACL pattern: it is empty or has white space"
        )
    wildcard = _WILDCARD.search(pattern)
    head = pattern[: wildcard.start()] if wildcard else pattern
    for internal in (keys.prefix, keys.state, keys.outbox):
        if head.startswith(internal) or internal.startswith(head):
            raise UnfitPatternError(
                f"{shown!r} may match internal keys of ttlproxy: a pattern must not match keys"
                f" that begin with {internal.decode()!r}"
            )


def _rule(keys: Keys, pattern: bytes, mark: bytes = b"") -> bytes:
    """Returns the glob of the keys of those ONEXPIRE rules that are only about keys that match
    `pattern`; with a mark, of ONWRITE rules, for any type."""
    before = escaped(keys.rule(mark)) + (b"?:" if mark else b"")
    return before + (pattern if _BEGINNING.fullmatch(pattern) else escaped(pattern))


def _quoted(rule: bytes) -> bytes:
    """Returns the rule, quoted for redis-cli if necessary."""
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
