"""Element expiry in the words of other servers, so that what was written for them runs unchanged.

What each command takes and answers is from the server whose it is: KeyDB's src/expire.cpp, the
command reference of Dragonfly, and Garnet's SortedSetCommands.cs. They differ in three things on
purpose: a time that is already past deletes at once, conditions come before that, as everywhere
here, and a time that no deadline can hold is refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from ttlproxy import errors
from ttlproxy.commands import grammar
from ttlproxy.commands.elements import GETTERS, SETTERS, UNITS, packed
from ttlproxy.commands.grammar import MAX_DEADLINE_MS, Refused, Time
from ttlproxy.commands.positions import FIRST_READ
from ttlproxy.commands.sorted_sets import NOUN as MEMBER
from ttlproxy.commands.spec import Call, Virtual
from ttlproxy.commands.writes import untyped_refusal

Args = Sequence[bytes]

KEYDB = "KeyDB"
DRAGONFLY = "Dragonfly"
GARNET = "Garnet"

_KEYDB_UNITS = {b"S": 1000, b"MS": 1}


# --- KeyDB


def _any_time(word: bytes, unit_ms: int, base: bytes, command: str) -> Time:
    """A time that may be negative, which is in the past."""
    if not grammar.is_integer(word):
        raise Refused(errors.NOT_AN_INTEGER)
    number = int(word)
    if number > MAX_DEADLINE_MS // unit_ms:
        raise Refused(errors.invalid_expire(command))
    return Time(b"%d" % (number * unit_ms), base) if number >= 0 else Time(b"0", b"0")


def _plan_expiremember(name: str, unit_ms: int, base: bytes, args: Args) -> Call:
    try:
        _any_time(args[3], 1, base, name)  # the number before the unit
        if len(args) > 4:
            unit = _KEYDB_UNITS.get(args[4].upper())
            if unit is None:
                raise Refused(errors.INVALID_UNIT)
            unit_ms = unit
        time = _any_time(args[3], unit_ms, base, name)
    except Refused as refused:
        return untyped_refusal(name, refused)
    argv = (name.lower().encode(), packed(b"1", b"", time), args[2])
    return Call("keydb_expire", (args[1],), argv)


def _plan_ttl(unit: bytes, args: Args) -> Call:
    return Call("keydb_ttl", (args[1],), (unit, args[2]))


_KEYDB_FILL = ("SADD s a b", "(integer) 2")
_KEYDB_SET = ("EXPIREMEMBER s a 100", "(integer) 1")

_KEYDB = (
    Virtual(
        name="EXPIREMEMBER",
        summary="Sets the time to live of a hash field, a set or a sorted-set member.",
        group="generic",
        dialect=KEYDB,
        forms=("key member delay [s|ms]",),
        reply="1 set, 0 no such key or member",
        complexity="O(log(M)), M members with a deadline",
        since="0.1.0",
        plan=partial(_plan_expiremember, "EXPIREMEMBER", 1000, b"1"),
        example=(
            _KEYDB_FILL,
            _KEYDB_SET,
            ("EXPIREMEMBER s b 100000 ms", "(integer) 1"),
            ("EXPIREMEMBER s none 100", "(integer) 0"),
        ),
        sets_deadlines=True,
    ),
    *(
        Virtual(
            name=name,
            summary="Sets the time of expiry of a hash field, a set or a sorted-set member.",
            group="generic",
            dialect=KEYDB,
            forms=(f"key member unix-time-{UNITS[unit_ms]}",),
            reply="1 set, 0 no such key or member",
            complexity="O(log(M)), M members with a deadline",
            since="0.1.0",
            plan=partial(_plan_expiremember, name, unit_ms, b"0"),
            example=(_KEYDB_FILL, (f"{name} s a {4102444800000 // unit_ms}", "(integer) 1")),
            sets_deadlines=True,
        )
        for name, unit_ms in (("EXPIREMEMBERAT", 1000), ("PEXPIREMEMBERAT", 1))
    ),
)

# Forms of Redis's own commands that have a word more. With as many words as Redis takes, they are
# Redis's.
LONGER = (
    *(
        Virtual(
            name=name,
            summary=f"Gives the time left to a member, in {UNITS[unit_ms]}.",
            group="generic",
            dialect=KEYDB,
            forms=("key member",),
            reply="the time, -1 no such member or no deadline, -2 no such key",
            complexity="O(1)",
            since="0.1.0",
            plan=partial(_plan_ttl, b"%d" % unit_ms),
            example=(
                _KEYDB_FILL,
                (f"{name} s b", "(integer) -1"),
                (f"{name} none b", "(integer) -2"),
            ),
        )
        for name, unit_ms in (("TTL", 1000), ("PTTL", 1))
    ),
    Virtual(
        name="PERSIST",
        summary="Takes the deadline from a member.",
        group="generic",
        dialect=KEYDB,
        forms=("key member",),
        reply="1 removed, 0 there was none",
        complexity="O(log(M)), M members with a deadline",
        since="0.1.0",
        plan=lambda args: Call("keydb_persist", (args[1],), (b"1", args[2])),
        example=(
            _KEYDB_FILL,
            _KEYDB_SET,
            ("PERSIST s a", "(integer) 1"),
            ("PERSIST s a", "(integer) 0"),
        ),
    ),
)


# --- Dragonfly


def _plan_fieldexpire(args: Args) -> Call:
    word = args[2]
    try:
        if not grammar.is_integer(word) or int(word) < 0:
            raise Refused(errors.NOT_AN_INTEGER)
        time = grammar.time(word, 1000, b"1", "FIELDEXPIRE")
    except Refused as refused:
        return untyped_refusal("FIELDEXPIRE", refused)
    argv = (b"fieldexpire", packed(b"0", b"", time), *args[3:])
    return Call("dragonfly_expire", (args[1],), argv)


_DRAGONFLY = (
    Virtual(
        name="FIELDEXPIRE",
        summary="Sets the time to live of hash fields or set members, in seconds.",
        group="generic",
        dialect=DRAGONFLY,
        forms=("key seconds field [field ...]",),
        reply="for each field 1 set, 2 deleted, which is with 0 seconds, -2 no such key or field",
        complexity="O(N*log(M)), N fields named, M with a deadline",
        since="0.1.0",
        plan=_plan_fieldexpire,
        example=(
            _KEYDB_FILL,
            ("FIELDEXPIRE s 100 a none", "1) (integer) 1\n2) (integer) -2"),
        ),
        sets_deadlines=True,
    ),
    Virtual(
        name="FIELDTTL",
        summary="Gives the time left to a hash field or a set member, in seconds.",
        group="generic",
        dialect=DRAGONFLY,
        forms=("key field",),
        reply="the time, -1 no deadline, -2 no such key, -3 no such field",
        complexity="O(1)",
        since="0.1.0",
        positions=(FIRST_READ,),
        plan=lambda args: Call("dragonfly_ttl", (args[1],), args[2:]),
        example=(
            _KEYDB_FILL,
            ("FIELDEXPIRE s 100 a", "1) (integer) 1"),
            ("FIELDTTL s a", "(integer) 100"),
            ("FIELDTTL s none", "(integer) -3"),
        ),
    ),
)


# --- Garnet


def _members(args: Args, at: int) -> Args:
    """The members of `MEMBERS n member ...`; Garnet looks at them before it looks at the key."""
    if args[at].upper() != MEMBER.keyword:
        raise Refused(errors.missing_keyword(MEMBER.keyword))
    count = args[at + 1] if at + 1 < len(args) else b""
    if not grammar.is_integer(count) or int(count) < 1:
        raise Refused(errors.parameter_too_small(MEMBER.many))
    if int(count) != len(args) - at - 2:
        raise Refused(errors.count_mismatch(MEMBER.many.capitalize()))
    return args[at + 2 :]


def _plan_zexpire(name: str, unit_ms: int, base: bytes, args: Args) -> Call:
    try:
        time = grammar.time(args[2], unit_ms, base, name)
        condition = args[3].upper() if args[3].upper() in grammar.CONDITIONS else b""
        members = _members(args, 4 if condition else 3)
    except Refused as refused:
        return untyped_refusal(name, refused)
    argv = (name.lower().encode(), packed(b"0", condition, time), *members)
    return Call("zset_expire", (args[1],), argv)


def _plan_members(name: str, script: str, before: Args, args: Args) -> Call:
    """A script that takes a few words and the members."""
    try:
        members = _members(args, 2)
    except Refused as refused:
        return untyped_refusal(name, refused)
    return Call(script, (args[1],), (*before, *members))


_MEMBERS = "MEMBERS nummembers member [member ...]"
_GARNET_FILL = ("ZADD z 1 a 2 b", "(integer) 2")


def _zexpire(name: str, unit_ms: int, relative: bool) -> Virtual:
    unit = UNITS[unit_ms] if relative else f"unix-time-{UNITS[unit_ms]}"
    number = (100 if relative else 4102444800) * (1000 // unit_ms)
    return Virtual(
        name=name,
        summary=f"Sets the time {'to live' if relative else 'of expiry'} of sorted-set members,"
        f" in {UNITS[unit_ms]}.",
        group="sorted-set",
        dialect=GARNET,
        forms=(f"key {unit} [NX|XX|GT|LT] {_MEMBERS}",),
        reply="for each member 1 set, 0 condition not met, 2 already past: deleted,"
        " -2 no such key or member",
        complexity="O(N*log(M)), N members named, M with a deadline",
        since="0.1.0",
        plan=partial(_plan_zexpire, name, unit_ms, b"1" if relative else b"0"),
        example=(
            _GARNET_FILL,
            (f"{name} z {number} NX MEMBERS 2 a none", "1) (integer) 1\n2) (integer) -2"),
            (f"{name} z 0 MEMBERS 1 b", "1) (integer) 2"),
        ),
        sets_deadlines=True,
    )


def _zttl(name: str, unit_ms: int, relative: bool) -> Virtual:
    argv = (b"%d" % unit_ms, b"1" if relative else b"0", b"0")
    return Virtual(
        name=name,
        summary=f"Gives the time {'left to' if relative else 'of expiry of'} sorted-set members,"
        f" in {UNITS[unit_ms]}.",
        group="sorted-set",
        dialect=GARNET,
        forms=(f"key {_MEMBERS}",),
        reply="for each member the time, -1 no deadline, -2 no such key or member",
        complexity="O(N), N members named",
        since="0.1.0",
        positions=(FIRST_READ,),
        plan=partial(_plan_members, name, "zset_ttl", argv),
        example=(_GARNET_FILL, (f"{name} z MEMBERS 2 a none", "1) (integer) -1\n2) (integer) -2")),
    )


_GARNET = (
    *(_zexpire(f"Z{word}", *how) for word, how in SETTERS.items()),
    *(_zttl(f"Z{word}", *how) for word, how in GETTERS.items()),
    Virtual(
        name="ZPERSIST",
        summary="Takes the deadline from sorted-set members.",
        group="sorted-set",
        dialect=GARNET,
        forms=(f"key {_MEMBERS}",),
        reply="for each member 1 removed, -1 had none, -2 no such key or member",
        complexity="O(N*log(M)), N members named, M with a deadline",
        since="0.1.0",
        plan=partial(_plan_members, "ZPERSIST", "zset_persist", (b"0",)),
        example=(
            _GARNET_FILL,
            ("ZEXPIRE z 100 MEMBERS 1 a", "1) (integer) 1"),
            ("ZPERSIST z MEMBERS 2 a b", "1) (integer) 1\n2) (integer) -1"),
        ),
    ),
)

VIRTUALS = (*_KEYDB, *_DRAGONFLY, *_GARNET)
