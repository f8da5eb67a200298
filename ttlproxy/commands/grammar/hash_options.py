"""The words of Redis 8's hash-field commands, read as Redis 8.10 reads them: in any order.

The errors and their order are those of src/t_hash.c there (parseHashCommandArgs,
parseHashFieldExpireArgs). Those of Dragonfly's own HSETEX are as in its src/server/hset_family.cc
(ParseHSetEx, version 1.40).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from ttlproxy import errors
from ttlproxy.commands.grammar import parsing
from ttlproxy.commands.grammar.options import Form, Options, read_options
from ttlproxy.commands.grammar.parsing import Noun, Refused

Args = Sequence[bytes]

NOUN = Noun(type="hash", prefix="H", one="field", many="fields")
# What may come before the seconds in Dragonfly's form of HSETEX.
_KEEP = b"KEEPTTL"
_BEFORE_SECONDS = frozenset({b"NX", b"FNX", b"FXX", _KEEP})
# Of a HSETEX in Redis's form.
_LEAST_WORDS = 6


def condition_and_fields(
    args: Args, together: Collection[frozenset[bytes]] = ()
) -> tuple[bytes, Args]:
    """`[NX|XX|GT|LT]` and `FIELDS n field ...`, from args[3] on; `together`: allowed pairs."""
    conditions: set[bytes] = set()
    found: Args = ()
    at = 3
    while at < len(args):
        word = args[at].upper()
        if word == b"FIELDS":
            if found:
                raise Refused(errors.twice(b"FIELDS"))
            if at >= len(args) - 2:
                raise Refused(errors.FIELDS_CUT)
            found = _fields(args, at, 1, errors.parameter_too_small(NOUN.many))
            at += 1 + len(found)
        elif word in parsing.CONDITIONS:
            conditions.add(word)
        else:
            raise Refused(errors.unknown_argument(args[at]))
        at += 1
    if not found:
        raise Refused(errors.MISSING_FIELDS)
    if len(conditions) > 1 and conditions not in together:
        raise Refused(errors.CONDITIONS)
    return b"".join(sorted(conditions)), found


def options(form: Form, args: Args) -> Options:
    """The options and `FIELDS n field ...`, in any order, from args[2] on."""
    return read_options(form, args, _fields_at, errors.MISSING_FIELDS)


def behind_seconds(args: Args) -> int:
    """Where the fields begin in Dragonfly's form of HSETEX; 0 for Redis's, which has no integer
    behind the conditions."""
    at = 2
    while args[at].upper() in _BEFORE_SECONDS and at < len(args) - 1:
        at += 1
    return at + 1 if parsing.is_integer(args[at]) else 0


def is_cut(args: Args) -> bool:
    """Whether a HSETEX has fewer words than Redis's form, and is not Dragonfly's."""
    return len(args) < _LEAST_WORDS and not behind_seconds(args)


def short_options(form: Form, args: Args) -> Options | None:
    """`[NX|FNX|FXX] [KEEPTTL] seconds field value ...`, in Dragonfly's form; None for Redis's. The
    condition begins with a D: the reply is how many fields are new."""
    at = behind_seconds(args)
    if not at:
        return None
    given = [word.upper() for word in args[2 : at - 1]]
    conditions = [word for word in given if word != _KEEP]
    if len(conditions) > 1 or given.count(_KEEP) > 1:
        raise Refused(errors.SYNTAX)
    if int(args[at - 1]) < 1:
        raise Refused(errors.NOT_AN_INTEGER)
    time, fields = parsing.time(args[at - 1], parsing.SECONDS, form.command), args[at:]
    if not fields or len(fields) % form.width:
        raise Refused(errors.wrong_arity(form.command), time)
    return Options(time, _KEEP in given, b"D" + b"".join(conditions), fields)


def _fields_at(form: Form, args: Args, at: int) -> Args:
    """The fields of the `FIELDS` at `at`."""
    if at + 1 >= len(args):
        raise Refused(errors.wrong_arity(form.command))
    return _fields(args, at, form.width, errors.invalid_count(NOUN.many))


def _fields(args: Args, at: int, width: int, bad_count: bytes) -> Args:
    """The fields of the `FIELDS` at `at`, each of `width` words; more words may follow."""
    count = args[at + 1]
    if not parsing.is_integer(count) or not 1 <= int(count) < 2**31:
        raise Refused(bad_count)
    end = at + 2 + int(count) * width
    if end > len(args):
        raise Refused(errors.WRONG_NUMBER)
    return args[at + 2 : end]
