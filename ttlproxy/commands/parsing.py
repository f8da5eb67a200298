"""The words of virtual commands, read as Redis reads them, with Redis's error texts.

Integers, times and counts are read as Redis 8 reads those of its hash-field commands;
floating-point words as long doubles of 64 bits with 17 decimals. Knows no command's name and no
script.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

from ttlproxy import errors
from ttlproxy.core.element_types import ElementType

# HFE_MAX_ABS_TIME_MSEC: deadlines fit into 46 bits.
MAX_DEADLINE_MS = 2**46 - 1
_MAX_COUNT = 2**31 - 1
CONDITIONS = frozenset({b"NX", b"XX", b"GT", b"LT"})

_INTEGER = re.compile(rb"0|-?[1-9][0-9]{0,18}")


class TimeUnit(NamedTuple):
    """The unit of a time, and whether it counts from now or from 1970."""

    ms: int
    relative: bool

    @property
    def base(self) -> bytes:
        """The word that scripts get for the start: b"1" is now, b"0" is 1970."""
        return b"1" if self.relative else b"0"

    @property
    def name(self) -> str:
        return "seconds" if self.ms == 1000 else "milliseconds"

    @property
    def argument(self) -> str:
        """Redis's name for an argument in this unit."""
        return self.name if self.relative else f"unix-time-{self.name}"


SECONDS = TimeUnit(1000, True)
MILLISECONDS = TimeUnit(1, True)
UNIX_SECONDS = TimeUnit(1000, False)
UNIX_MILLISECONDS = TimeUnit(1, False)


class Time(NamedTuple):
    """A time as a script gets it: ms from the base of its unit; b"" for no time."""

    amount_ms: bytes
    base: bytes


NO_TIME = Time(b"", b"0")


class Refused(Exception):  # noqa: N818 - the name says it
    """A malformed command; `text`: Redis's error; `time`: the valid time before the mistake."""

    def __init__(self, text: bytes, time: Time = NO_TIME) -> None:
        self.text = text.replace(b"\r", b" ").replace(b"\n", b" ")
        self.time = time


def is_integer(word: bytes) -> bool:
    """Whether Redis takes it for an integer of 64 bits: no plus sign, blank or leading zero."""
    return _INTEGER.fullmatch(word) is not None and -(2**63) <= int(word) < 2**63


def time(word: bytes, unit: TimeUnit, command: str) -> Time:
    """Reads a time argument. Raises Refused."""
    if not is_integer(word):
        raise Refused(errors.NOT_AN_INTEGER)
    number = int(word)
    if number < 0:
        raise Refused(errors.NEGATIVE_EXPIRE)
    if number > MAX_DEADLINE_MS // unit.ms:
        raise Refused(errors.invalid_expire(command))
    return Time(b"%d" % (number * unit.ms), unit.base)


class Counted(NamedTuple):
    """`FIELDS n field ...` at the end of a request, and the errors for a wrong n.

    bad_count: n is no number of elements; mismatch: there are more or fewer elements than n
    """

    keyword: bytes
    bad_count: bytes
    mismatch: bytes

    @classmethod
    def of(cls, noun: ElementType, bad_count: bytes) -> Counted:
        return cls(noun.keyword, bad_count, errors.count_mismatch(noun.many))

    def elements(self, args: Sequence[bytes], at: int = 2) -> Sequence[bytes]:
        """Returns the elements; the keyword must be the word at `at`. Raises Refused."""
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
        """Reads `[NX|XX|GT|LT]` and the elements, from args[3] on, after the time."""
        condition = args[3].upper()
        if condition in CONDITIONS:
            return condition, self.elements(args, 4)
        return b"", self.elements(args, 3)


def count(word: bytes) -> bytes:
    """Reads a count of at least 1. Raises Refused."""
    if not is_integer(word) or not 0 < int(word) <= _MAX_COUNT:
        raise Refused(errors.COUNT_TOO_SMALL)
    return word


def count_option(args: Sequence[bytes], otherwise: bytes) -> bytes:
    """Returns the n of `[COUNT n]`, the only option, at args[2]; `otherwise` without it."""
    if len(args) == 2:
        return otherwise
    if len(args) != 4 or args[2].upper() != b"COUNT":
        raise Refused(errors.SYNTAX)
    return count(args[3])


_DECIMAL = re.compile(rb"([+-]?)(\d+\.?\d*|\.\d+)(?:[eE]([+-]?\d+))?")
_HEXADECIMAL = re.compile(rb"([+-]?)0[xX]([0-9a-fA-F]+)(?:[pP]([+-]?\d+))?")
_INFINITE = re.compile(rb"([+-]?)inf(?:inity)?", re.IGNORECASE)
# Longer words and larger exponents are refused before they cost time.
_MOST_WORD = 5 * 1024
_MOST_EXPONENT = 20_000
_BITS = 64
_DECIMALS = 17
_LARGEST = Fraction(2**_BITS - 1) * 2 ** (16384 - _BITS)
_SMALLEST = Fraction(1, 2**16382)
# Stands for infinity: larger than every number that can be read.
INFINITE = Fraction(2**16384)


def long_double(word: bytes) -> Fraction | None:
    """Returns the number in a word; None if it is no number, or too large or too small."""
    infinite = _INFINITE.fullmatch(word)
    if infinite:
        return -INFINITE if infinite[1] == b"-" else INFINITE
    hexadecimal = _HEXADECIMAL.fullmatch(word)
    found = hexadecimal or _DECIMAL.fullmatch(word)
    if not found or len(word) > _MOST_WORD:
        return None
    digits = Fraction(int(found[2], 16)) if hexadecimal else Fraction(found[2].decode())
    exponent = int(found[3] or 0)
    if not digits:
        return digits
    if abs(exponent) > _MOST_EXPONENT:
        return None
    value = _rounded(digits * Fraction(2 if hexadecimal else 10) ** exponent)
    if not _SMALLEST <= value <= _LARGEST:
        return None
    return -value if found[1] == b"-" else value


def written(value: Fraction) -> bytes:
    """Returns the number as Redis writes it; b"" for an infinite one."""
    if abs(value) == INFINITE:
        return b""
    scaled = round(abs(value) * 10**_DECIMALS)
    whole, rest = divmod(scaled, 10**_DECIMALS)
    text = f"{whole}.{rest:0{_DECIMALS}}".rstrip("0").rstrip(".")
    return (f"-{text}" if value < 0 and scaled else text).encode()


def _rounded(value: Fraction) -> Fraction:
    """Rounds to 64 bits, half to even."""
    exponent = value.numerator.bit_length() - value.denominator.bit_length() - _BITS
    while value >= Fraction(2) ** (exponent + _BITS):
        exponent += 1
    unit = Fraction(2) ** exponent
    return round(value / unit) * unit
