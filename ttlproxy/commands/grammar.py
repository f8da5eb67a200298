"""The words of virtual commands, read as Redis 8 reads those of its hash-field commands.

The texts and their order are those of src/t_hash.c there (parseExpireTime, hexpireGenericCommand,
hsetexParseArgs); what Redis compares with its clock, the scripts do.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
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


class Conditions(NamedTuple):
    """Words that say which elements a command writes; `refusal` is the error of those given."""

    words: tuple[bytes, ...] = ()
    refusal: Callable[[Sequence[bytes]], bytes | None] = lambda given: None


def one_of(*words: bytes) -> Conditions:
    """Conditions of which a request may have one."""
    text = errors.one_condition(words)
    return Conditions(words, lambda given: text if len(given) > 1 else None)


class Form(NamedTuple):
    """What a command that writes and sets deadlines takes before its elements.

    width: words of an element; keep: the word for no new deadline; capped: whether it takes MAXLEN
    """

    command: str
    noun: Noun
    width: int = 1
    keep: bytes = b"KEEPTTL"
    conditions: Conditions = Conditions()
    capped: bool = False


class Options(NamedTuple):
    """What stands before FIELDS in a command that writes and sets deadlines.

    cap: as scripts take it, see scripts/lib/words.lua
    """

    time: Time
    keep: bool
    condition: bytes
    rest: Sequence[bytes]
    cap: bytes = b""


# word -> (unit in ms, base)
EXPIRIES = {
    b"EX": (1000, b"1"),
    b"PX": (1, b"1"),
    b"EXAT": (1000, b"0"),
    b"PXAT": (1, b"0"),
}


class Reading:
    """The options of a request that have been read so far."""

    def __init__(self, form: Form) -> None:
        self._form = form
        self._keep, self._cap = False, b""
        self._conditions: list[bytes] = []
        self.time = NO_TIME

    def take(self, args: Sequence[bytes], at: int) -> int:
        """Takes the option at `at`; gives the place behind it."""
        word = args[at].upper()
        if word in EXPIRIES or word == self._form.keep:
            return self._take_expiry(args, at, word)
        if word == b"MAXLEN" and self._form.capped:
            return self._take_cap(args, at)
        if word not in self._form.conditions.words:
            raise Refused(errors.unknown_argument(args[at]))
        self._conditions.append(word)
        refusal = self._form.conditions.refusal(self._conditions)
        if refusal:
            raise Refused(refusal)
        return at + 1

    def options(self, elements: Sequence[bytes]) -> Options:
        """All that was read, and the elements."""
        condition = b"".join(dict.fromkeys(self._conditions))
        return Options(self.time, self._keep, condition, elements, self._cap)

    def _take_expiry(self, args: Sequence[bytes], at: int, word: bytes) -> int:
        if self._keep or self.time is not NO_TIME:
            raise Refused(errors.one_expiry(self._form.keep.decode()))
        self._keep = word == self._form.keep
        if self._keep:
            return at + 1
        if at + 1 >= len(args):
            raise Refused(errors.MISSING_EXPIRE)
        self.time = time(args[at + 1], *EXPIRIES[word], self._form.command)
        return at + 2

    def _take_cap(self, args: Sequence[bytes], at: int) -> int:
        """`MAXLEN n [EVICT]`, refused in the words of XADD."""
        if self._cap:
            raise Refused(errors.twice(b"MAXLEN"))
        if at + 1 >= len(args):
            raise Refused(errors.SYNTAX)
        if not is_integer(args[at + 1]):
            raise Refused(errors.NOT_AN_INTEGER)
        if int(args[at + 1]) < 0:
            raise Refused(errors.NEGATIVE_MAXLEN)
        evict = at + 2 < len(args) and args[at + 2].upper() == b"EVICT"
        self._cap = b"/%d%s" % (int(args[at + 1]), b"E" if evict else b"")
        return at + 3 if evict else at + 2


def write_options(form: Form, args: Sequence[bytes]) -> Options:
    """`[condition] [MAXLEN n [EVICT]] [expiry] MEMBERS n member ...`, from args[2] on."""
    reading = Reading(form)
    try:
        at = 2
        while at < len(args):
            if args[at].upper() == form.noun.keyword:
                return reading.options(_counted(form, args, at))
            at = reading.take(args, at)
        raise Refused(errors.wrong_arity(form.command))
    except Refused as refused:
        raise Refused(refused.text, refused.time or reading.time) from None


def short_form(form: Form, args: Sequence[bytes]) -> Options | None:
    """`key [KEEPTTL] seconds member ...`, known by the integer; None for the long form."""
    keep = args[2].upper() == b"KEEPTTL"
    at = 3 if keep else 2
    if not is_integer(args[at]):
        return None
    found = time(args[at], 1000, b"1", form.command)
    members = args[at + 1 :]
    if not members or len(members) % form.width:
        raise Refused(errors.wrong_arity(form.command), found)
    return Options(found, keep, b"", members)


def _counted(form: Form, args: Sequence[bytes], at: int) -> Sequence[bytes]:
    """The words after `MEMBERS n`, n elements."""
    if at + 1 + form.width >= len(args):
        raise Refused(errors.wrong_arity(form.command))
    count, found = args[at + 1], args[at + 2 :]
    if not is_integer(count) or not 1 <= int(count) < 2**31:
        raise Refused(errors.invalid_count(form.noun.many))
    if int(count) * form.width != len(found):
        raise Refused(errors.wrong_arity(form.command))
    return found
