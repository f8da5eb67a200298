"""Keyspace events in front of several masters: each master tells its own.

Messages of clients, and events that scripts of ttlproxy publish, come from each master, because
nodes of a Cluster pass them on to each other.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import product
from typing import Final

# Channels of events begin with these: those of keys, and those of elements of Redis 8.8.
_HEADS: Final = (b"__keyspace@", b"__keyevent@", b"__subkeyspace", b"__subkeyevent")
_CHANNEL: Final = re.compile(
    rb"__((?:sub)?key(?:space|event)|subkeyspaceitem|subkeyspaceevent)@\d+__:(.*)", re.DOTALL
)
# A pattern is plain text up to the first of these.
_SPECIAL: Final = re.compile(rb"[*?\[\\]")
# The events of scripts/lib/events.lua.
_PUBLISHED: Final = frozenset(
    map(b"".join, product((b"h", b"s", b"z", b"l"), (b"expire", b"expired", b"persist")))
)


def _sized(text: bytes) -> bytes:
    """The word of `length:word|...`."""
    size, _, rest = text.partition(b":")
    return rest[: int(size)] if size.isdigit() else rest


# (the event, the key) from the channel's end and the message, by the kind of the channel.
_READ: Final[dict[bytes, Callable[[bytes, bytes], tuple[bytes, bytes]]]] = {
    b"keyspace": lambda end, message: (message, end),
    b"keyevent": lambda end, message: (end, message),
    b"subkeyspace": lambda end, message: (message.partition(b"|")[0], end),
    b"subkeyevent": lambda end, message: (end, _sized(message)),
    b"subkeyspaceitem": lambda end, message: (message, end.partition(b"\n")[0]),
    b"subkeyspaceevent": lambda end, message: (end.partition(b"|")[0], end.partition(b"|")[2]),
}


def bulks(data: bytes) -> list[bytes]:
    """The bulk strings of an array or a push that has nothing else."""
    found, at = [], data.index(b"\n") + 1
    while at < len(data):
        end = data.index(b"\n", at) + 1
        size = int(data[at + 1 : end])
        found.append(data[end : end + size])
        at = end + size + 2
    return found


def may_be(name: bytes, kind: str) -> bool:
    """Whether a subscription may hear events; `kind`: channel or pattern."""
    if kind == "channel":
        return name.startswith(_HEADS)
    text = _SPECIAL.split(name, 1)[0]
    return any(text.startswith(head) or head.startswith(text) for head in _HEADS)


def is_event(channel: bytes) -> bool:
    return _CHANNEL.fullmatch(channel) is not None


def published_key(channel: bytes, message: bytes) -> bytes | None:
    """The key of an event that may have been published by a script, so that it comes from each
    master; None for any other message."""
    found = _CHANNEL.fullmatch(channel)
    if found is None:
        return None
    event, key = _READ[found[1]](found[2], message)
    return key if event in _PUBLISHED else None
