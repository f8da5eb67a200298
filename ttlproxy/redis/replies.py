"""Typed replies, made from what redis-py has read.

The replies of these commands are the same in RESP2 and RESP3.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeVar

from ttlproxy.redis.words import Word

# What methods return: a plain reply, one to be awaited, or a pipeline.
Int = TypeVar("Int")
Ints = TypeVar("Ints")
MaybeInt = TypeVar("MaybeInt")
Flag = TypeVar("Flag")
MaybeWord = TypeVar("MaybeWord")
MaybeWords = TypeVar("MaybeWords")
Rules = TypeVar("Rules")
AllTaken = TypeVar("AllTaken")
AllLeft = TypeVar("AllLeft")
Deadlines = TypeVar("Deadlines")
MaybeLease = TypeVar("MaybeLease")
AllDeferred = TypeVar("AllDeferred")
Rows = TypeVar("Rows")
Throttle = TypeVar("Throttle")


class Row(NamedTuple):
    """A row of a leaderboard. The best has rank 0."""

    rank: int
    member: Word
    score: int


class Taken(NamedTuple):
    """An expired element; deadline_ms: when it expired, Unix time.

    value: the field's value, the score of a sorted-set member, else empty
    """

    element: Word
    value: Word
    deadline_ms: int


class Left(NamedTuple):
    """An element and its time left in ms."""

    element: Word
    ms: int


class Deadline(NamedTuple):
    """An element and when it expires, Unix time in ms."""

    element: Word
    deadline_ms: int


class Deferred(NamedTuple):
    """A deferred command and its time left in ms."""

    id: Word
    ms: int
    words: list[Word]


class Lease(NamedTuple):
    """A leased item, and the token of its lease."""

    item: Word
    token: int


class Throttled(NamedTuple):
    """The reply of CL.THROTTLE; seconds: -1 if it is not limited."""

    limited: bool
    limit: int
    remaining: int
    retry_after_s: int
    reset_after_s: int


def _rows(reply: Sequence[Sequence[Any]]) -> list[Row]:
    return [Row(rank, member, int(score)) for rank, member, score in reply]


def _throttled(reply: Sequence[int]) -> Throttled:
    limited, *numbers = reply
    return Throttled(bool(limited), *numbers)


def _each(row: Callable[..., Any]) -> Callable[[Sequence[Sequence[Any]]], list[Any]]:
    return lambda reply: [row(*words) for words in reply]


def _deferred(reply: Sequence[Sequence[Any]]) -> list[Deferred]:
    return [Deferred(name, ms, words) for name, ms, *words in reply]


def _lease(reply: Any) -> Any:
    """Returns a reply with a token as a Lease; a reply with COUNT stays as it is."""
    has_token = isinstance(reply, list) and len(reply) == 2 and isinstance(reply[1], int)
    return Lease(*reply) if has_token else reply


def _set_or_rule(reply: Any) -> Any:
    return True if reply in (b"OK", "OK") else reply


def _plain(parse: Callable[[Any], Any]) -> Callable[..., Any]:
    """Returns a parser that ignores the options of the request, which redis-py passes."""
    return lambda reply, **options: parse(reply)


_PARSED: Final[Mapping[str, Callable[[Any], Any]]] = {
    "CL.THROTTLE": _throttled,
    "DEFERRED": _deferred,
    "DUE": _each(Left),
    "LBAROUND": _rows,
    "LBINCRBY": int,
    "LBTOP": _rows,
    "LEASE": _lease,
    "ONEXPIRE": _set_or_rule,
    "ONWRITE": _set_or_rule,
    "TAKE": _each(Taken),
    "TTLPROXY": _each(Deadline),
}
PARSERS: Final = {name: _plain(parse) for name, parse in _PARSED.items()}
