"""The words of Redis 8's hash-field commands, read as Redis 8.10 reads them: in any order.

Which mistake is found first, and what it is called, is from src/t_hash.c there
(parseHashCommandArgs, parseHashFieldExpireArgs).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ttlproxy import errors
from ttlproxy.commands import grammar
from ttlproxy.commands.grammar import NO_TIME, Noun, Options, Refused

Args = Sequence[bytes]

NOUN = Noun(type="hash", prefix="H", one="field", many="fields")


class Form(NamedTuple):
    """What a command takes before or after its fields, which are of `width` words each.

    keep: the word for no new deadline; conditions: of which it takes one.
    """

    command: str
    width: int
    keep: bytes
    conditions: tuple[bytes, ...] = ()


def condition_and_fields(args: Args) -> tuple[bytes, Args]:
    """`[NX|XX|GT|LT]` and `FIELDS n field ...`, from args[3] on."""
    conditions: set[bytes] = set()
    found: Args = ()
    at = 3
    while at < len(args):
        word = args[at].upper()
        if word == b"FIELDS":
            if found:
                raise Refused(errors.FIELDS_TWICE)
            if at >= len(args) - 2:
                raise Refused(errors.FIELDS_CUT)
            found = _fields(args, at, 1, errors.parameter_too_small(NOUN.many))
            at += 1 + len(found)
        elif word in grammar.CONDITIONS:
            conditions.add(word)
        else:
            raise Refused(errors.unknown_argument(args[at]))
        at += 1
    if not found:
        raise Refused(errors.MISSING_FIELDS)
    if len(conditions) > 1:
        raise Refused(errors.CONDITIONS)
    return b"".join(conditions), found


def options(form: Form, args: Args) -> Options:
    """An expiry, a condition and `FIELDS n field ...`, from args[2] on."""
    read = _Options(form)
    try:
        at = 2
        while at < len(args):
            at = read.word(args, at) + 1
        if not read.fields:
            raise Refused(errors.MISSING_FIELDS)
    except Refused as refused:
        raise Refused(refused.text, refused.time or read.time) from None
    return Options(read.time, read.keep, read.condition, read.fields)


class _Options:
    """What has been read so far."""

    def __init__(self, form: Form) -> None:
        self.form = form
        self.time, self.keep, self.condition = NO_TIME, False, b""
        self.fields: Args = ()

    def word(self, args: Args, at: int) -> int:
        """Takes the word at `at` and what belongs to it; gives the place of the last one taken."""
        form, word = self.form, args[at].upper()
        if word == b"FIELDS":
            return self._take_fields(args, at)
        if word in grammar.EXPIRIES or word == form.keep:
            return self._take_expiry(args, at, word)
        if word not in form.conditions:
            raise Refused(errors.unknown_argument(args[at]))
        if self.condition:
            raise Refused(errors.one_condition(form.conditions))
        self.condition = word
        return at

    def _take_fields(self, args: Args, at: int) -> int:
        if self.fields:
            raise Refused(errors.FIELDS_TWICE)
        if at + 1 >= len(args):
            raise Refused(errors.wrong_arity(self.form.command))
        self.fields = _fields(args, at, self.form.width, errors.invalid_count(NOUN.many))
        return at + 1 + len(self.fields)

    def _take_expiry(self, args: Args, at: int, word: bytes) -> int:
        if self.keep or self.time is not NO_TIME:
            raise Refused(errors.one_expiry(self.form.keep.decode()))
        self.keep = word == self.form.keep
        if self.keep:
            return at
        self.time = grammar.expiry(args, at + 1, word, self.form.command)
        return at + 1


def _fields(args: Args, at: int, width: int, bad_count: bytes) -> Args:
    """The fields of the `FIELDS` at `at`, n of `width` words each; more words may follow."""
    count = args[at + 1]
    if not grammar.is_integer(count) or not 1 <= int(count) < 2**31:
        raise Refused(bad_count)
    end = at + 2 + int(count) * width
    if end > len(args):
        raise Refused(errors.WRONG_NUMBER)
    return args[at + 2 : end]
