"""Patterns as Redis reads them (src/util.c, stringmatchlen). Knows no command and no key."""

from __future__ import annotations

import re

_NOTHING = re.compile(rb"(?!)")
_WILDCARD = re.compile(rb"\\(.)|\*+|\?|\[\^?[^\]]+\]", re.DOTALL)
_GROUP = re.compile(rb"(\^?)([^\]]+)\]")


def matching(pattern: bytes, *, in_any_case: bool = False) -> re.Pattern[bytes]:
    """What the pattern matches as a whole, with a group for each run of stars.

    An earlier star takes as little as it can. What it took is never reconsidered, which changes no
    match and keeps the time linear in what is matched, however many stars there are.
    """
    first, *rest = _between_stars(pattern)
    found = first
    for number, part in enumerate(rest, 1):
        found += b"(.*)%s" % part if number == len(rest) else b"(?>(.*?)%s)" % part
    try:
        return re.compile(found, re.DOTALL | (re.IGNORECASE if in_any_case else 0))
    except re.error:  # a range that ends before it begins
        return _NOTHING


def stars(pattern: bytes) -> int:
    """How many runs of stars it has."""
    return len(_between_stars(pattern)) - 1


def sample(pattern: bytes, filler: bytes) -> bytes:
    """A name with `filler` where the pattern has a star, and a byte of it for each other wildcard.

    For who asks whether a pattern of an ACL covers this one, a filler that nobody thinks of.
    """
    return _WILDCARD.sub(
        lambda found: found[1] or (filler if found[0][:1] == b"*" else filler[:1]), pattern
    )


def _between_stars(pattern: bytes) -> list[bytes]:
    """Regular expressions of what stands before, between and behind the stars."""
    parts, rest = [b""], pattern
    while rest:
        head, rest = rest[:1], rest[1:]
        if head == b"*":
            rest = rest.lstrip(b"*")
            parts.append(b"")
            continue
        if head == b"?":
            head = b"."
        elif head == b"[" and (group := _GROUP.match(rest)):
            head = b"[%s%s]" % (group[1], re.sub(rb"([\\\[&|~])", rb"\\\1", group[2]))
            rest = rest[group.end() :]
        else:
            if head == b"\\" and rest:
                head, rest = rest[:1], rest[1:]
            head = re.escape(head)
        parts[-1] += head
    return parts
