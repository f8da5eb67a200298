"""Hash fields: the commands that Redis lacks, and those of Redis that must do more.

Redis 8's commands are here for servers that lack them. If the server has one of them itself, ours
is for managed keys only. Their words are read as Redis 8.10 reads them: in any order. The errors
and their order are those of src/t_hash.c there (parseHashCommandArgs, parseHashFieldExpireArgs).
The errors of Dragonfly's own HSETEX are those of its src/server/hset_family.cc (ParseHSetEx,
version 1.40).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from ttlproxy import errors
from ttlproxy.commands import calls, parsing
from ttlproxy.commands.calls import on_key, repeating, rest, with_name
from ttlproxy.commands.element_commands import (
    TIMED_OPTIONS,
    LongForms,
    Names,
    family,
    timed_call,
)
from ttlproxy.commands.options import SHOWN_EXPIRIES, Form, TimedOptions, one_of, read_options
from ttlproxy.commands.parsing import Counted, Refused
from ttlproxy.commands.spec import Call, OnWrite, Plan, Virtual
from ttlproxy.core import element_types

Args = Sequence[bytes]

NOUN = element_types.HASH
NAMES = Names(
    "HEXPIREFIELD",
    "HPEXPIREFIELD",
    "HEXPIREATFIELD",
    "HPEXPIREATFIELD",
    "HTTLFIELD",
    "HPTTLFIELD",
    "HEXPIRETIMEFIELD",
    "HPEXPIRETIMEFIELD",
    "HPERSISTFIELD",
)
# The words that may come before the seconds in Dragonfly's form of HSETEX.
_KEEP = b"KEEPTTL"
_BEFORE_SECONDS = frozenset({b"NX", b"FNX", b"FXX", _KEEP})
# The fewest words of a HSETEX in Redis's form.
_LEAST_WORDS = 6


def condition_and_fields(
    args: Args, together: Collection[frozenset[bytes]] = ()
) -> tuple[bytes, Args]:
    """Reads `[NX|XX|GT|LT]` and `FIELDS n field ...`, from args[3] on; `together`: allowed
    pairs."""
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


def fields_in_any_order(form: Form, args: Args) -> TimedOptions:
    """Reads the options and `FIELDS n field ...`, in any order, from args[2] on."""
    return read_options(form, args, _fields_at, errors.MISSING_FIELDS)


def behind_seconds(args: Args) -> int:
    """Returns the position of the first field in Dragonfly's form of HSETEX; 0 for Redis's, which
    has no integer after the conditions."""
    at = 2
    while args[at].upper() in _BEFORE_SECONDS and at < len(args) - 1:
        at += 1
    return at + 1 if parsing.is_integer(args[at]) else 0


def is_cut(args: Args) -> bool:
    """Whether a HSETEX has fewer words than Redis's form, and is not Dragonfly's."""
    return len(args) < _LEAST_WORDS and not behind_seconds(args)


def dragonfly_form(form: Form, args: Args) -> TimedOptions | None:
    """Reads `[NX|FNX|FXX] [KEEPTTL] seconds field value ...`, in Dragonfly's form; None for
    Redis's. The condition begins with a D: the reply is how many fields are new."""
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
    return TimedOptions(time, _KEEP in given, b"D" + b"".join(conditions), fields)


def _fields_at(form: Form, args: Args, at: int) -> Args:
    """Returns the fields of the `FIELDS` at `at`."""
    if at + 1 >= len(args):
        raise Refused(errors.wrong_arity(form.command))
    return _fields(args, at, form.width, errors.invalid_count(NOUN.many))


def _fields(args: Args, at: int, width: int, bad_count: bytes) -> Args:
    """Returns the fields of the `FIELDS` at `at`, each of `width` words; more words may follow."""
    count = args[at + 1]
    if not parsing.is_integer(count) or not 1 <= int(count) < 2**31:
        raise Refused(bad_count)
    end = at + 2 + int(count) * width
    if end > len(args):
        raise Refused(errors.WRONG_NUMBER)
    return args[at + 2 : end]


_SERVER = "Redis 8"

_HGETEX = Form("HGETEX", NOUN, keep=b"PERSIST")
_REDIS_8_NAMES = Names(
    "HEXPIRE",
    "HPEXPIRE",
    "HEXPIREAT",
    "HPEXPIREAT",
    "HTTL",
    "HPTTL",
    "HEXPIRETIME",
    "HPEXPIRETIME",
    "HPERSIST",
)
LONG = LongForms(
    noun=NOUN,
    names=_REDIS_8_NAMES,
    dialect=_SERVER,
    condition_and_elements=condition_and_fields,
    elements=Counted.of(NOUN, errors.count_not_positive(NOUN.many)).elements,
    fill="HSET h a 1 b 2",
)


def _plan_getex(args: Sequence[bytes]) -> Call:
    found = fields_in_any_order(_HGETEX, args)
    return calls.set_deadlines(
        "hash_getex", "HGETEX", args[1], found.time, found.elements, flag=found.keep
    )


REDIS_8 = (
    *LONG.rows(),
    Virtual(
        name="HGETEX",
        summary="Returns the values of hash fields and sets or removes their deadline.",
        group="hash",
        dialect=_SERVER,
        forms=(f"key [{SHOWN_EXPIRIES}|PERSIST] {LONG.tail}",),
        reply="for each field its value, nil if there is none",
        complexity="O(N*log(M)), N fields named, M with a deadline",
        since="0.1.0",
        plan=_plan_getex,
        refuses=LONG.refuses,
        example=(
            LONG.filled,
            ("HGETEX h EX 100 FIELDS 2 a none", '1) "1"\n2) (nil)'),
            ("HTTL h FIELDS 1 a", "1) (integer) 100"),
            ("HGETEX h PERSIST FIELDS 1 a", '1) "1"'),
        ),
        sets_deadlines=True,
    ),
    Virtual(
        name="HGETDEL",
        summary="Returns the values of hash fields and deletes them.",
        group="hash",
        dialect=_SERVER,
        forms=(f"key {LONG.tail}",),
        reply="for each field its value, nil if there is none",
        complexity="O(N*log(M)), N fields named, M with a deadline",
        since="0.1.0",
        plan=LONG.plan_named("hash_getdel"),
        refuses=LONG.refuses,
        example=(LONG.filled, ("HGETDEL h FIELDS 2 a a", '1) "1"\n2) (nil)')),
    ),
)


HSETEX = Form("HSETEX", NOUN, width=2, conditions=one_of(b"FNX", b"FXX"), capped=True)


def planning_setex(form: Form) -> Plan:
    """Returns the plan of HSETEX in this form, and in Dragonfly's."""

    def read(args: Sequence[bytes]) -> Call:
        options = dragonfly_form(form, args) or fields_in_any_order(form, args)
        return timed_call(form, "hash_setex", args[1], options)

    def begin(args: Sequence[bytes]) -> int:
        return behind_seconds(args) or NOUN.elements_at(args)

    return repeating(read, begin)


def _is_only_ours(args: Sequence[bytes]) -> bool:
    """Whether it is Dragonfly's form, or MAXLEN is one of the options, and not only one of the
    fields."""
    if behind_seconds(args):
        return True
    try:
        return bool(fields_in_any_order(HSETEX, args).cap)
    except Refused:
        return b"MAXLEN" in map(bytes.upper, args[2:])


VIRTUALS = (
    *REDIS_8,
    *family(NOUN, NAMES, fill="HSET h a 1 b 2"),
    Virtual(
        name="HSETEX",
        summary="Sets hash fields and their time to live in one step.",
        group="hash",
        forms=(
            f"key [FNX|FXX] {TIMED_OPTIONS} FIELDS numfields field value [field value ...]",
            "key [NX|FNX|FXX] [KEEPTTL] seconds field value [field value ...]",
        ),
        reply="1 the fields were written, 0 condition not met, -1 with `MAXLEN`: too many fields;"
        " in the second form, Dragonfly's, how many fields are new",
        complexity="O(N*log(M)), N fields named, M with a deadline",
        since="0.1.0",
        plan=planning_setex(HSETEX),
        fits_no_form=is_cut,
        example=(
            ("HSETEX h FNX EX 100 FIELDS 2 a 1 b 2", "(integer) 1"),
            ("HSETEX h FNX EX 100 FIELDS 1 a 3", "(integer) 0"),
            ("HSETEX h KEEPTTL FIELDS 1 a 4", "(integer) 1"),
            ("HTTLFIELD h a", "(integer) 100"),
            ("HSETEX h MAXLEN 2 EX 100 FIELDS 1 c 5", "(integer) -1"),
            ("HSETEX h NX 100 a 5 c 5", "(integer) 1"),
        ),
        sets_deadlines=True,
        only_ours=_is_only_ours,
    ),
)

_WRITE = OnWrite(b"hash", False, "hash_write")
_ALTER = OnWrite(b"hash", True, "hash_alter")

OVERRIDES = (
    on_key("HSET", "hash_set", with_name, on_write=_WRITE),
    on_key("HMSET", "hash_set", with_name, on_write=_WRITE),
    on_key("HSETNX", "hash_keep", with_name, on_write=_WRITE),
    on_key("HINCRBYFLOAT", "hash_keep", with_name, on_write=_ALTER),
    # Its script is for rules of ONWRITE only, because Lua rounds a reply beyond 2^53. Without a
    # rule its field keeps its deadline; an expired field was reaped before.
    replace(on_key("HINCRBY", "hash_alter", rest, on_write=_ALTER), direct=None, only_ruled=True),
    on_key("HDEL", "hash_del", rest),
)

# Writes after which an index is still right.
HARMLESS = ("HINCRBY",)
