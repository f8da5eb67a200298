"""The options of the commands that set deadlines while they write or read elements.

The errors and their order are those of src/t_hash.c in Redis 8 (hsetexParseArgs); the errors of
MAXLEN are those of XADD.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from ttlproxy import errors
from ttlproxy.commands import parsing
from ttlproxy.commands.parsing import NO_TIME, Refused, Time
from ttlproxy.core.element_types import ElementType


class Conditions(NamedTuple):
    """Words that say which elements are written; `refusal` returns the error for those given, or
    None."""

    words: tuple[bytes, ...] = ()
    refusal: Callable[[Sequence[bytes]], bytes | None] = lambda given: None


def one_of(*words: bytes) -> Conditions:
    """Returns conditions of which a request may have at most one."""
    text = errors.one_condition(words)
    return Conditions(words, lambda given: text if len(given) > 1 else None)


class Form(NamedTuple):
    """The arguments of a command with a deadline, besides its key.

    width: words per element; keep: the word for no new deadline; capped: whether it takes MAXLEN
    """

    command: str
    noun: ElementType
    width: int = 1
    keep: bytes = b"KEEPTTL"
    conditions: Conditions = Conditions()
    capped: bool = False


class TimedOptions(NamedTuple):
    """A parsed request of a command with a deadline.

    cap: MAXLEN as scripts take it, see scripts/lib/words.lua
    """

    time: Time
    keep: bool
    condition: bytes
    elements: Sequence[bytes]
    cap: bytes = b""


EXPIRIES = {
    b"EX": parsing.SECONDS,
    b"PX": parsing.MILLISECONDS,
    b"EXAT": parsing.UNIX_SECONDS,
    b"PXAT": parsing.UNIX_MILLISECONDS,
}
# In the words of `redis-cli help`.
SHOWN_EXPIRIES = "|".join(f"{word.decode()} {unit.argument}" for word, unit in EXPIRIES.items())


class _Reading:
    """The options of a request that have been read so far."""

    def __init__(self, form: Form) -> None:
        self._form = form
        self._keep, self._cap = False, b""
        self._conditions: list[bytes] = []
        self.time = NO_TIME

    def read_option(self, args: Sequence[bytes], at: int) -> int:
        """Takes the option at `at`; returns the position after it."""
        word = args[at].upper()
        if word in EXPIRIES or word == self._form.keep:
            return self._read_expiry(args, at, word)
        if word == b"MAXLEN" and self._form.capped:
            return self._read_cap(args, at)
        if word not in self._form.conditions.words:
            raise Refused(errors.unknown_argument(args[at]))
        self._conditions.append(word)
        refusal = self._form.conditions.refusal(self._conditions)
        if refusal:
            raise Refused(refusal)
        return at + 1

    def options(self, elements: Sequence[bytes]) -> TimedOptions:
        """Returns all that was read, with the elements."""
        condition = b"".join(dict.fromkeys(self._conditions))
        return TimedOptions(self.time, self._keep, condition, elements, self._cap)

    def _read_expiry(self, args: Sequence[bytes], at: int, word: bytes) -> int:
        if self._keep or self.time is not NO_TIME:
            raise Refused(errors.one_expiry(self._form.keep.decode()))
        self._keep = word == self._form.keep
        if self._keep:
            return at + 1
        if at + 1 >= len(args):
            raise Refused(errors.MISSING_EXPIRE)
        self.time = parsing.time(args[at + 1], EXPIRIES[word], self._form.command)
        return at + 2

    def _read_cap(self, args: Sequence[bytes], at: int) -> int:
        """Reads `MAXLEN n [EVICT]`, with XADD's errors."""
        if self._cap:
            raise Refused(errors.twice(b"MAXLEN"))
        if at + 1 >= len(args):
            raise Refused(errors.SYNTAX)
        if not parsing.is_integer(args[at + 1]):
            raise Refused(errors.NOT_AN_INTEGER)
        if int(args[at + 1]) < 0:
            raise Refused(errors.NEGATIVE_MAXLEN)
        evict = at + 2 < len(args) and args[at + 2].upper() == b"EVICT"
        self._cap = b"/%d%s" % (int(args[at + 1]), b"E" if evict else b"")
        return at + 3 if evict else at + 2


def read_options(
    form: Form,
    args: Sequence[bytes],
    elements: Callable[[Form, Sequence[bytes], int], Sequence[bytes]],
    none: bytes,
) -> TimedOptions:
    """Returns the options of a request, from args[2] on, and its elements.

    elements: reads them from the position of their keyword on; options may follow them
    none: the error if the keyword is missing
    """
    reading, found = _Reading(form), args[:0]
    try:
        at = 2
        while at < len(args):
            if args[at].upper() != form.noun.keyword:
                at = reading.read_option(args, at)
                continue
            if found:
                raise Refused(errors.twice(form.noun.keyword))
            found = elements(form, args, at)
            at += 2 + len(found)
        if not found:
            raise Refused(none)
    except Refused as refused:
        raise Refused(refused.text, reading.time) from None
    return reading.options(found)


def long_form(form: Form, args: Sequence[bytes]) -> TimedOptions:
    """Reads `key [condition] [MAXLEN n [EVICT]] [expiry] MEMBERS n member ...`."""
    return read_options(form, args, _counted, errors.wrong_arity(form.command))


def short_form(form: Form, args: Sequence[bytes]) -> TimedOptions | None:
    """Reads `key [KEEPTTL] seconds member ...`; None for the long form, which has no integer
    there."""
    keep = args[2].upper() == b"KEEPTTL"
    at = 3 if keep else 2
    if not parsing.is_integer(args[at]):
        return None
    found = parsing.time(args[at], parsing.SECONDS, form.command)
    members = args[at + 1 :]
    if not members or len(members) % form.width:
        raise Refused(errors.wrong_arity(form.command), found)
    return TimedOptions(found, keep, b"", members)


def _counted(form: Form, args: Sequence[bytes], at: int) -> Sequence[bytes]:
    """Returns the words after `MEMBERS n`: n elements, and nothing more."""
    if at + 1 + form.width >= len(args):
        raise Refused(errors.wrong_arity(form.command))
    count, found = args[at + 1], args[at + 2 :]
    if not parsing.is_integer(count) or not 1 <= int(count) < 2**31:
        raise Refused(errors.invalid_count(form.noun.many))
    if int(count) * form.width != len(found):
        raise Refused(errors.wrong_arity(form.command))
    return found
