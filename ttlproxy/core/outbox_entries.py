"""Entries of outboxes as bytes: see scripts/lib/outbox.lua. Knows no connection.

An entry is `term number ` and a row of netstrings: a command, its name and its key first.
"""

from __future__ import annotations

import re
from typing import Final

# The key's length follows the name; the key begins where this ends.
_HEAD: Final = re.compile(rb"([0-9a-f]+ \d+) \d+:[A-Z]+(\d+):")


def identity(entry: bytes) -> bytes:
    """`term number`: no other entry has it. ValueError if it is none."""
    return _head(entry)[1]


def destination(entry: bytes) -> bytes:
    """The key that the command of an entry writes to. ValueError if it is none."""
    head = _head(entry)
    return entry[head.end() : head.end() + int(head[2])]


def _head(entry: bytes) -> re.Match[bytes]:
    if head := _HEAD.match(entry):
        return head
    raise ValueError("not an entry of an outbox")
