"""The commands of other servers for deadlines of elements, so that their clients run unchanged.

Each command takes and answers what it does on its own server, with three intended differences: a
time that is already past deletes at once; conditions are checked before that, as everywhere here; a
time too large for a deadline is refused.

Dragonfly's commands, for hash fields and set members, follow its src/server/generic_family.cc
(version 1.40); its own form of HSETEX is in commands/types/hashes.py. Garnet's, for sorted-set
members, follow its SortedSetCommands.cs: it checks all words before the key, and of the time only
that it can be read. KeyDB's, for one element of any type but a list, follow its src/expire.cpp.
Valkey's forms of Redis 8's hash-field commands are only for managed keys: for others Valkey answers
itself. Malformed requests get Redis 8's errors.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from ttlproxy import errors
from ttlproxy.commands import calls, parsing
from ttlproxy.commands.element_commands import GETTERS, SETTERS, LongForms, Names, example_time
from ttlproxy.commands.options import Conditions
from ttlproxy.commands.parsing import MAX_DEADLINE_MS, Counted, Refused, Time, TimeUnit
from ttlproxy.commands.spec import FIRST_READ, Call, Plan, Virtual
from ttlproxy.commands.types import hashes
from ttlproxy.commands.types.sorted_sets import NOUN

_FILL = ("SADD s a b", "(integer) 2")


def _plan_fieldexpire(args: Sequence[bytes]) -> Call:
    if not parsing.is_integer(args[2]) or int(args[2]) < 1:
        raise Refused(errors.NOT_AN_INTEGER)
    time = parsing.time(args[2], parsing.SECONDS, "FIELDEXPIRE")
    return calls.set_deadlines("dragonfly_expire", "FIELDEXPIRE", args[1], time, args[3:])


_DRAGONFLY = (
    Virtual(
        name="FIELDEXPIRE",
        summary="Sets the time to live of hash fields or set members, in seconds.",
        group="generic",
        dialect="Dragonfly",
        forms=("key seconds field [field ...]",),
        reply="for each field 1 set, -2 no such key or field, or a key of another type",
        complexity="O(N*log(M)), N fields named, M with a deadline",
        since="0.1.0",
        plan=_plan_fieldexpire,
        example=(
            _FILL,
            ("FIELDEXPIRE s 100 a none", "1) (integer) 1\n2) (integer) -2"),
        ),
        sets_deadlines=True,
    ),
    Virtual(
        name="FIELDTTL",
        summary="Returns the time to live of a hash field or a set member, in seconds.",
        group="generic",
        dialect="Dragonfly",
        forms=("key field",),
        reply="the time, -1 no deadline, -2 no such key, -3 no such field",
        complexity="O(1)",
        since="0.1.0",
        positions=(FIRST_READ,),
        plan=lambda args: Call("dragonfly_ttl", (args[1],), args[2:]),
        example=(
            _FILL,
            ("FIELDEXPIRE s 100 a", "1) (integer) 1"),
            ("FIELDTTL s a", "(integer) 100"),
            ("FIELDTTL s none", "(integer) -3"),
        ),
    ),
)


_MEMBERS = Counted(
    NOUN.keyword,
    errors.parameter_too_small(NOUN.many),
    errors.count_mismatch(NOUN.many.capitalize()),
)

_GARNET_NAMES = Names(
    "ZEXPIRE",
    "ZPEXPIRE",
    "ZEXPIREAT",
    "ZPEXPIREAT",
    "ZTTL",
    "ZPTTL",
    "ZEXPIRETIME",
    "ZPEXPIRETIME",
    "ZPERSIST",
)
_GARNET = LongForms(
    noun=NOUN,
    names=_GARNET_NAMES,
    dialect="Garnet",
    condition_and_elements=_MEMBERS.condition_and_elements,
    elements=_MEMBERS.elements,
    checks_key=False,
    fill="ZADD z 1 a 2 b",
).rows()


Args = Sequence[bytes]

_UNITS = {b"S": parsing.SECONDS, b"MS": parsing.MILLISECONDS}


def _any_time(word: bytes, unit: TimeUnit, command: str) -> Time:
    """Reads a time that may be negative, which is in the past."""
    if not parsing.is_integer(word):
        raise Refused(errors.NOT_AN_INTEGER)
    number = int(word)
    if number > MAX_DEADLINE_MS // unit.ms:
        raise Refused(errors.invalid_expire(command))
    return Time(b"%d" % (number * unit.ms), unit.base) if number >= 0 else Time(b"0", b"0")


def _plan_expiremember(name: str, unit: TimeUnit, args: Args) -> Call:
    _any_time(args[3], parsing.MILLISECONDS, name)  # the number before the word for its unit
    given = _UNITS.get(args[4].upper()) if len(args) > 4 else unit
    if given is None:
        raise Refused(errors.INVALID_UNIT)
    time = _any_time(args[3], given, name)
    return calls.set_deadlines("keydb_expire", name, args[1], time, args[2:3], flag=True)


def _plan_ttl(unit: TimeUnit, args: Args) -> Call:
    return Call("keydb_ttl", (args[1],), (b"%d" % unit.ms, args[2]))


_SET = ("EXPIREMEMBER s a 100", "(integer) 1")

_KEYDB = (
    Virtual(
        name="EXPIREMEMBER",
        summary="Sets the time to live of a hash field, a set or a sorted-set member.",
        group="generic",
        dialect="KeyDB",
        forms=("key member delay [S|MS]",),
        reply="1 set, 0 no such key or member",
        complexity="O(log(M)), M members with a deadline",
        since="0.1.0",
        plan=partial(_plan_expiremember, "EXPIREMEMBER", parsing.SECONDS),
        example=(
            _FILL,
            _SET,
            ("EXPIREMEMBER s b 100000 ms", "(integer) 1"),
            ("EXPIREMEMBER s none 100", "(integer) 0"),
        ),
        sets_deadlines=True,
    ),
    *(
        Virtual(
            name=name,
            summary="Sets the expiry time of a hash field, a set or a sorted-set member.",
            group="generic",
            dialect="KeyDB",
            forms=(f"key member {unit.argument}",),
            reply="1 set, 0 no such key or member",
            complexity="O(log(M)), M members with a deadline",
            since="0.1.0",
            plan=partial(_plan_expiremember, name, unit),
            example=(_FILL, (f"{name} s a {example_time(unit)}", "(integer) 1")),
            sets_deadlines=True,
        )
        for name, unit in (
            ("EXPIREMEMBERAT", parsing.UNIX_SECONDS),
            ("PEXPIREMEMBERAT", parsing.UNIX_MILLISECONDS),
        )
    ),
)

# Forms of Redis's own commands with one more word. Redis answers requests with the number of words
# that it takes.
LONGER = (
    *(
        Virtual(
            name=name,
            summary=f"Returns the time to live of a member, in {unit.name}.",
            group="generic",
            dialect="KeyDB",
            forms=("key member",),
            reply="the time, -1 no such member or no deadline, -2 no such key",
            complexity="O(1)",
            since="0.1.0",
            plan=partial(_plan_ttl, unit),
            example=(
                _FILL,
                (f"{name} s b", "(integer) -1"),
                (f"{name} none b", "(integer) -2"),
            ),
        )
        for name, unit in (("TTL", parsing.SECONDS), ("PTTL", parsing.MILLISECONDS))
    ),
    Virtual(
        name="PERSIST",
        summary="Removes the deadline of a member.",
        group="generic",
        dialect="KeyDB",
        forms=("key member",),
        reply="1 removed, 0 it had none",
        complexity="O(log(M)), M members with a deadline",
        since="0.1.0",
        plan=lambda args: Call("keydb_persist", (args[1],), (b"1", args[2])),
        example=(
            _FILL,
            _SET,
            ("PERSIST s a", "(integer) 1"),
            ("PERSIST s a", "(integer) 0"),
        ),
    ),
)


_TOGETHER = (frozenset({b"XX", b"GT"}), frozenset({b"XX", b"LT"}))
_EXCLUSIVE = (frozenset({b"FNX", b"FXX"}), frozenset({b"NX", b"XX"}))


def _refusal(given: Sequence[bytes]) -> bytes | None:
    return errors.SYNTAX if any(pair <= {*given} for pair in _EXCLUSIVE) else None


# NX and XX are conditions on the key, FNX and FXX on its fields.
_HSETEX = hashes.HSETEX._replace(
    conditions=Conditions((b"FNX", b"FXX", b"NX", b"XX"), _refusal),
)
_LONG = replace(
    hashes.LONG,
    condition_and_elements=partial(hashes.condition_and_fields, together=_TOGETHER),
)


VALKEY_FORMS: Final[Mapping[str, Plan]] = {
    **{_LONG.name(word): _LONG.setter(word, unit).plan for word, unit in SETTERS.items()},
    # Their times are rounded to the nearest unit.
    **{
        _LONG.name(word): _LONG.plan_named("hash_ttl", b"%d" % unit.ms, unit.base, b"r")
        for word, unit in GETTERS.items()
    },
    "HSETEX": hashes.planning_setex(_HSETEX),
}

VIRTUALS = (*_KEYDB, *_DRAGONFLY, *_GARNET)
