"""The types that the methods take, and the words that they send for them. Knows redis-py's types
only."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from itertools import chain
from typing import Any, Literal, TypeAlias, TypedDict, Unpack

Word: TypeAlias = bytes | str
Value: TypeAlias = bytes | str | int | float
Values: TypeAlias = list[Value] | list[str] | list[bytes] | list[int] | tuple[Value, ...]
Ttl: TypeAlias = int | timedelta
UnixTime: TypeAlias = int | datetime
Condition: TypeAlias = Literal["NX", "XX", "GT", "LT"]

_SECOND, _MILLISECOND = timedelta(seconds=1), timedelta(milliseconds=1)


class ExpiresIn(TypedDict, total=False):
    """seconds and milliseconds, or a timedelta"""

    ex: Ttl | None
    px: Ttl | None


class Expires(ExpiresIn, total=False):
    """exat, pxat: Unix time, or a datetime"""

    exat: UnixTime | None
    pxat: UnixTime | None


class Timed(Expires, total=False):
    """keepttl: elements keep the deadline that they have

    evict: those that expire first make room, if there would be more than maxlen
    """

    keepttl: bool
    evict: bool


class Capped(Timed, total=False):
    """maxlen: nothing is written if there would be more elements"""

    maxlen: int | None


class Sender:
    """A client or a pipeline of redis-py."""

    def execute_command(self, *args: Any, **options: Any) -> Any:
        """Sends a command, as the class does that this one is mixed into."""
        return super().execute_command(*args, **options)  # type: ignore[misc]


def seconds(ttl: Ttl) -> int:
    """Returns a time to live in seconds, never less than what was asked for."""
    return -(-ttl // _SECOND) if isinstance(ttl, timedelta) else ttl


def milliseconds(ttl: Ttl) -> int:
    """Returns a time to live in milliseconds, never less than what was asked for."""
    return -(-ttl // _MILLISECOND) if isinstance(ttl, timedelta) else ttl


def unix_seconds(at: UnixTime) -> int:
    """Returns a Unix time in seconds, never earlier than what was asked for."""
    return math.ceil(at.timestamp()) if isinstance(at, datetime) else at


def unix_milliseconds(at: UnixTime) -> int:
    """Returns a Unix time in milliseconds, never earlier than what was asked for."""
    return math.ceil(at.timestamp() * 1000) if isinstance(at, datetime) else at


def elements(keyword: str, named: Value | Values) -> tuple[Any, ...]:
    """Returns one element alone, or the keyword, the count and the elements."""
    if isinstance(named, (list, tuple)):
        return keyword, len(named), *named
    return (named,)


def deadline(
    keyword: str, named: Value | Values, time: int, condition: Condition | None
) -> tuple[Any, ...]:
    """Returns the words after the key of a command that sets deadlines."""
    conditions = given(condition)
    if isinstance(named, (list, tuple)):
        return time, *conditions, *elements(keyword, named)
    return named, time, *conditions


def given(*words: Value | None) -> tuple[Any, ...]:
    """Returns the words that are not None."""
    return tuple(word for word in words if word is not None)


def option(name: str, value: Value | None) -> tuple[Any, ...]:
    """Returns `name value`, or nothing if there is no value."""
    return () if value is None else (name, value)


def expiry(
    ex: Ttl | None = None,
    px: Ttl | None = None,
    exat: UnixTime | None = None,
    pxat: UnixTime | None = None,
) -> tuple[Any, ...]:
    """Returns EX, PX, EXAT or PXAT. The server refuses more than one."""
    return (
        *option("EX", None if ex is None else seconds(ex)),
        *option("PX", None if px is None else milliseconds(px)),
        *option("EXAT", None if exat is None else unix_seconds(exat)),
        *option("PXAT", None if pxat is None else unix_milliseconds(pxat)),
    )


def capped(maxlen: int | None, evict: bool) -> tuple[Any, ...]:
    """Returns MAXLEN with its EVICT."""
    return (*option("MAXLEN", maxlen), *flag("EVICT", evict))


def timed(
    maxlen: int | None = None,
    *,
    keepttl: bool = False,
    evict: bool = False,
    **expires: Unpack[Expires],
) -> tuple[Any, ...]:
    """Returns the options of commands that write elements together with their deadline."""
    return (*capped(maxlen, evict), *expiry(**expires), *flag("KEEPTTL", keepttl))


def flag(name: str, wanted: bool) -> tuple[str, ...]:
    return (name,) if wanted else ()


def pairs(mapping: Mapping[Any, Any]) -> list[Any]:
    """Returns keys and values in turn."""
    return list(chain.from_iterable(mapping.items()))


def scored(scores: Mapping[Any, float]) -> list[Any]:
    """Returns scores and members in turn."""
    return list(chain.from_iterable((score, member) for member, score in scores.items()))


def counted(keyword: str, words: Sequence[Any], width: int = 1) -> tuple[Any, ...]:
    """Returns the keyword, the number of elements, and their words."""
    return keyword, len(words) // width, *words
