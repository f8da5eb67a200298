"""The words of virtual commands, read as Redis 8 reads those of its hash-field commands.

The texts and their order are those of src/t_hash.c there (parseExpireTime, hexpireGenericCommand,
hsetexParseArgs); what Redis compares with its clock, the scripts do.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ttlproxy import errors

# HFE_MAX_ABS_TIME_MSEC: deadlines fit into 46 bits.
MAX_DEADLINE_MS = 2**46 - 1
CONDITIONS = frozenset({b"NX", b"XX", b"GT", b"LT"})

_INTEGER = re.compile(rb"0|-?[1-9][0-9]{0,18}")


class Refused(Exception):  # noqa: N818 - the name says it
    """A malformed command; `text` is Redis's error, `time` the valid time that stood before it."""

    def __init__(self, text: bytes, time: Time | None = None) -> None:
        self.text = text.replace(b"\r", b" ").replace(b"\n", b" ")
        self.time = time


class Time(NamedTuple):
    """A time as a script gets it: ms, and b"1" where it counts from now, b"0" from 1970."""

    amount_ms: bytes
    base: bytes


NO_TIME = Time(b"", b"0")


@dataclass(frozen=True)
class Noun:
    """What the elements of a type are called: in command names, as keyword, in Redis's errors."""

    type: str
    prefix: str
    one: str
    many: str

    @property
    def group(self) -> str:
        """What Redis calls the commands of the type."""
        return "sorted-set" if self.type == "zset" else self.type

    @property
    def keyword(self) -> bytes:
        return self.many.upper().encode()


def is_integer(word: bytes) -> bool:
    """Whether Redis's own parser takes it for a number: no plus sign, blank or leading zero."""
    return _INTEGER.fullmatch(word) is not None and -(2**63) <= int(word) < 2**63


def time(word: bytes, unit_ms: int, base: bytes, command: str) -> Time:
    """A time argument in units of `unit_ms`."""
    if not is_integer(word):
        raise Refused(errors.NOT_AN_INTEGER)
    number = int(word)
    if number < 0:
        raise Refused(errors.NEGATIVE_EXPIRE)
    if number > MAX_DEADLINE_MS // unit_ms:
        raise Refused(errors.invalid_expire(command))
    return Time(b"%d" % (number * unit_ms), base)


def elements(noun: Noun, args: Sequence[bytes], at: int, bad_count: bytes) -> Sequence[bytes]:
    """The elements of `FIELDS n field ...`, whose keyword should stand at `at`."""
    if args[at].upper() != noun.keyword:
        raise Refused(errors.missing_keyword(noun.keyword))
    found = args[at + 2 :]
    count = args[at + 1] if at + 1 < len(args) else b""
    if not is_integer(count) or int(count) < 1:
        raise Refused(bad_count)
    if int(count) != len(found):
        raise Refused(errors.count_mismatch(noun.many))
    return found


class Options(NamedTuple):
    """What stands before FIELDS in a command that writes and sets deadlines."""

    time: Time
    keep: bool
    condition: bytes
    rest: Sequence[bytes]


# word -> (unit in ms, base)
EXPIRIES = {
    b"EX": (1000, b"1"),
    b"PX": (1, b"1"),
    b"EXAT": (1000, b"0"),
    b"PXAT": (1, b"0"),
}


def expiry(args: Sequence[bytes], at: int, word: bytes, command: str) -> Time:
    """The time that stands at `at`, after `word`."""
    if at >= len(args):
        raise Refused(errors.MISSING_EXPIRE)
    return time(args[at], *EXPIRIES[word], command)


def write_options(
    noun: Noun,
    args: Sequence[bytes],
    command: str,
    conditions: tuple[bytes, bytes],
    width: int,
) -> Options:
    """`[condition] [expiry] FIELDS n ...`, the elements of `width` words each, from args[2] on."""
    found, keep, condition = NO_TIME, False, b""
    at = 2
    try:
        while at < len(args):
            word = args[at].upper()
            if word == noun.keyword:
                return Options(found, keep, condition, _counted(noun, args, at, command, width))
            if word in EXPIRIES or word == b"KEEPTTL":
                if keep or found is not NO_TIME:
                    raise Refused(errors.one_expiry("KEEPTTL"))
                if word == b"KEEPTTL":
                    keep = True
                else:
                    at += 1
                    found = expiry(args, at, word, command)
            elif word in conditions:
                if condition:
                    raise Refused(errors.one_condition(conditions))
                condition = word
            else:
                raise Refused(errors.unknown_argument(args[at]))
            at += 1
        raise Refused(errors.wrong_arity(command))
    except Refused as refused:
        raise Refused(refused.text, refused.time or found) from None


def _counted(
    noun: Noun, args: Sequence[bytes], at: int, command: str, width: int
) -> Sequence[bytes]:
    """The words after `FIELDS n`, n elements of `width` words each."""
    if at + 1 + width >= len(args):
        raise Refused(errors.wrong_arity(command))
    count, found = args[at + 1], args[at + 2 :]
    if not is_integer(count) or not 1 <= int(count) < 2**31:
        raise Refused(errors.invalid_count(noun.many))
    if int(count) * width != len(found):
        raise Refused(errors.wrong_arity(command))
    return found
