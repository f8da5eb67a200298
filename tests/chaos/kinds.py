"""How elements of each type are written and read, as requests. Knows no connection."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from tests.support.redis_client import Word

Words = Sequence[Word]


class Kind(NamedTuple):
    """How elements of a type are written and read.

    dated(key, element, value, deadline): the request that writes an element with a deadline
    plain(key, element, value): the requests that write it without one
    shown: a reply to `look` as elements and values
    has_values: its elements have values of their own
    """

    letter: str
    noun: str
    dated: Callable[[str, str, str, Words], Words]
    plain: Callable[[str, str, str], Sequence[Words]]
    remove: Callable[[str, str], Words]
    look: Callable[[str], Words]
    shown: Callable[[Any], dict[str, str]]
    has_values: bool


def _pairs(reply: Any) -> dict[str, str]:
    """`reply`: flat, or as in RESP3: a map, or pairs with numbers."""
    if isinstance(reply, dict):
        pairs = list(reply.items())
    elif reply and isinstance(reply[0], list):
        pairs = [(name, b"%d" % score) for name, score in reply]
    else:
        pairs = list(zip(reply[::2], reply[1::2], strict=True))
    return {name.decode(): value.decode() for name, value in pairs}


def _bare(reply: Any) -> dict[str, str]:
    return {word.decode(): "" for word in reply}


KINDS = (
    Kind(
        "H",
        "FIELD",
        lambda key, name, value, expiry: ("HSETEX", key, *expiry, "FIELDS", 1, name, value),
        lambda key, name, value: [("HSET", key, name, value)],
        lambda key, name: ("HDEL", key, name),
        lambda key: ("HGETALL", key),
        _pairs,
        True,
    ),
    Kind(
        "S",
        "MEMBER",
        lambda key, name, value, expiry: ("SADDEX", key, *expiry, "MEMBERS", 1, name),
        lambda key, name, value: [("SREM", key, name), ("SADD", key, name)],
        lambda key, name: ("SREM", key, name),
        lambda key: ("SMEMBERS", key),
        _bare,
        False,
    ),
    Kind(
        "Z",
        "MEMBER",
        lambda key, name, value, expiry: ("ZADDEX", key, *expiry, "MEMBERS", 1, value, name),
        lambda key, name, value: [("ZADD", key, value, name)],
        lambda key, name: ("ZREM", key, name),
        lambda key: ("ZRANGE", key, 0, -1, "WITHSCORES"),
        _pairs,
        True,
    ),
    Kind(
        "L",
        "ELEMENT",
        lambda key, name, value, expiry: ("RPUSHEX", key, *expiry, "ELEMENTS", 1, name),
        lambda key, name, value: [("LREM", key, 0, name), ("RPUSH", key, name)],
        lambda key, name: ("LREM", key, 0, name),
        lambda key: ("LRANGE", key, 0, -1),
        _bare,
        False,
    ),
)
