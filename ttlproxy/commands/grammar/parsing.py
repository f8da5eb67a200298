"""The words of virtual commands, read as Redis 8 reads those of its hash-field commands.

The texts and their order are those of src/t_hash.c there (parseExpireTime, hexpireGenericCommand);
what Redis compares with its clock, the scripts do.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from ttlproxy import errors

# HFE_MAX_ABS_TIME_MSEC: deadlines fit into 46 bits.
MAX_DEADLINE_MS = 2**46 - 1
_MAX_COUNT = 2**31 - 1
CONDITIONS = frozenset({b"NX", b"XX", b"GT", b"LT"})

_INTEGER = re.compile(rb"0|-?[1-9][0-9]{0,18}")


class Unit(NamedTuple):
    """What a time is counted in, and whether from now or from 1970."""

    ms: int
    relative: bool

    @property
    def base(self) -> bytes:
        """What scripts call the beginning: b"1" is now, b"0" is 1970."""
        return b"1" if self.relative else b"0"

    @property
    def name(self) -> str:
        return "seconds" if self.ms == 1000 else "milliseconds"

    @property
    def argument(self) -> str:
        """What Redis calls an argument in this unit."""
        return self.name if self.relative else f"unix-time-{self.name}"


SECONDS = Unit(1000, True)
MILLISECONDS = Unit(1, True)
UNIX_SECONDS = Unit(1000, False)
UNIX_MILLISECONDS = Unit(1, False)


class Time(NamedTuple):
    """A time as a script gets it: ms from the base of its unit; no ms, no time."""

    amount_ms: bytes
    base: bytes


NO_TIME = Time(b"", b"0")


class Refused(Exception):  # noqa: N818 - the name says it
    """A malformed command; `text` is Redis's error, `time` the valid time that stood before it."""

    def __init__(self, text: bytes, time: Time = NO_TIME) -> None:
        self.text = text.replace(b"\r", b" ").replace(b"\n", b" ")
        self.time = time


@dataclass(frozen=True)
class Noun:
    """What the elements of a type are called: in command names, as keyword, in Redis's errors.

    walks: to find one takes a walk along the key.
    """

    type: str
    prefix: str
    one: str
    many: str
    walks: bool = False

    @property
    def group(self) -> str:
        """What Redis calls the commands of the type."""
        return "sorted-set" if self.type == "zset" else self.type

    @cached_property
    def keyword(self) -> bytes:
        return self.many.upper().encode()

    def elements_at(self, args: Sequence[bytes]) -> int:
        """Where the elements stand in a request that names them behind the keyword and a number.

        Raises ValueError where the keyword is not there as it is nearly always written.
        """
        return args.index(self.keyword, 2) + 2

    def named(self, *elements: str) -> str:
        """These elements as a request names them: `FIELDS 2 a b`."""
        return " ".join((self.many.upper(), str(len(elements)), *elements))


def is_integer(word: bytes) -> bool:
    """Whether Redis's own parser takes it for a number: no plus sign, blank or leading zero."""
    return _INTEGER.fullmatch(word) is not None and -(2**63) <= int(word) < 2**63


def time(word: bytes, unit: Unit, command: str) -> Time:
    """A time argument."""
    if not is_integer(word):
        raise Refused(errors.NOT_AN_INTEGER)
    number = int(word)
    if number < 0:
        raise Refused(errors.NEGATIVE_EXPIRE)
    if number > MAX_DEADLINE_MS // unit.ms:
        raise Refused(errors.invalid_expire(command))
    return Time(b"%d" % (number * unit.ms), unit.base)


class Counted(NamedTuple):
    """`FIELDS n field ...` at the end of a request, and the errors where n is wrong.

    bad_count: n is no number of elements; mismatch: there are more or fewer of them
    """

    keyword: bytes
    bad_count: bytes
    mismatch: bytes

    @classmethod
    def of(cls, noun: Noun, bad_count: bytes) -> Counted:
        return cls(noun.keyword, bad_count, errors.count_mismatch(noun.many))

    def elements(self, args: Sequence[bytes], at: int = 2) -> Sequence[bytes]:
        """The elements, where the keyword should stand at `at`."""
        if args[at].upper() != self.keyword:
            raise Refused(errors.missing_keyword(self.keyword))
        found = args[at + 2 :]
        count = args[at + 1] if at + 1 < len(args) else b""
        if not is_integer(count) or int(count) < 1:
            raise Refused(self.bad_count)
        if int(count) != len(found):
            raise Refused(self.mismatch)
        return found

    def condition_and_elements(self, args: Sequence[bytes]) -> tuple[bytes, Sequence[bytes]]:
        """`[NX|XX|GT|LT]` and the elements, from args[3] on, behind the time."""
        condition = args[3].upper()
        if condition in CONDITIONS:
            return condition, self.elements(args, 4)
        return b"", self.elements(args, 3)


def count(word: bytes) -> bytes:
    """How many are wanted: one at least."""
    if not is_integer(word) or not 0 < int(word) <= _MAX_COUNT:
        raise Refused(errors.COUNT_TOO_SMALL)
    return word


def count_option(args: Sequence[bytes], otherwise: bytes) -> bytes:
    """`[COUNT n]`, all that stands from args[2] on."""
    if len(args) == 2:
        return otherwise
    if len(args) != 4 or args[2].upper() != b"COUNT":
        raise Refused(errors.SYNTAX)
    return count(args[3])
