"""The hash-field commands of Redis 8, for servers that lack them.

Where the server has one of them itself, ours is for managed keys only.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from ttlproxy import errors
from ttlproxy.commands import grammar, hash_grammar
from ttlproxy.commands.elements import GETTERS, SETTERS, UNITS, packed, refuse
from ttlproxy.commands.grammar import Form, Refused
from ttlproxy.commands.hash_grammar import NOUN
from ttlproxy.commands.positions import FIRST_READ
from ttlproxy.commands.spec import Call, Virtual

Args = Sequence[bytes]

REDIS = "Redis 8"

_HGETEX = Form("HGETEX", NOUN, keep=b"PERSIST")
_FIELDS = "FIELDS numfields field [field ...]"
_FILL = ("HSET h a 1 b 2", "(integer) 2")


def _plan_expire(name: str, unit_ms: int, base: bytes, args: Args) -> Call:
    time = None
    try:
        time = grammar.time(args[2], unit_ms, base, name)
        condition, fields = hash_grammar.condition_and_fields(args)
    except Refused as refused:
        return refuse(NOUN, name, args[1], refused.text, time)
    argv = (name.lower().encode(), packed(b"0", condition, time), *fields)
    return Call("hash_expire", (args[1],), argv)


def _plan_getex(args: Args) -> Call:
    try:
        found = hash_grammar.options(_HGETEX, args)
    except Refused as refused:
        return refuse(NOUN, "HGETEX", args[1], refused.text, refused.time)
    argv = (b"hgetex", packed(b"1" if found.keep else b"0", b"", found.time), *found.rest)
    return Call("hash_getex", (args[1],), argv)


def _plan_fields(name: str, script: str, before: Args, args: Args) -> Call:
    """A script that takes a few words and the fields."""
    try:
        fields = grammar.elements(NOUN, args, 2, errors.count_not_positive(NOUN.many))
    except Refused as refused:
        return refuse(NOUN, name, args[1], refused.text, None)
    return Call(script, (args[1],), (*before, *fields))


def _setter(name: str, unit_ms: int, relative: bool) -> Virtual:
    unit = UNITS[unit_ms] if relative else f"unix-time-{UNITS[unit_ms]}"
    number = (100 if relative else 4102444800) * (1000 // unit_ms)
    return Virtual(
        name=name,
        summary=f"Sets the time {'to live' if relative else 'of expiry'} of hash fields,"
        f" in {UNITS[unit_ms]}.",
        group="hash",
        dialect=REDIS,
        forms=(f"key {unit} [NX|XX|GT|LT] {_FIELDS}",),
        reply="for each field 1 set, 0 condition not met, 2 already past: deleted,"
        " -2 no such key or field",
        complexity="O(N*log(M)), N fields named, M with a deadline",
        since="0.1.0",
        plan=partial(_plan_expire, name, unit_ms, b"1" if relative else b"0"),
        example=(
            _FILL,
            (f"{name} h {number} NX FIELDS 2 a none", "1) (integer) 1\n2) (integer) -2"),
            (f"{name} h 0 FIELDS 1 b", "1) (integer) 2"),
        ),
        sets_deadlines=True,
    )


def _getter(name: str, unit_ms: int, relative: bool) -> Virtual:
    argv = (b"%d" % unit_ms, b"1" if relative else b"0", b"0")
    return Virtual(
        name=name,
        summary=f"Gives the time {'left to' if relative else 'of expiry of'} hash fields,"
        f" in {UNITS[unit_ms]}.",
        group="hash",
        dialect=REDIS,
        forms=(f"key {_FIELDS}",),
        reply="for each field the time, -1 no deadline, -2 no such key or field",
        complexity="O(N), N fields named",
        since="0.1.0",
        positions=(FIRST_READ,),
        plan=partial(_plan_fields, name, "hash_ttl", argv),
        example=(_FILL, (f"{name} h FIELDS 2 a none", "1) (integer) -1\n2) (integer) -2")),
    )


VIRTUALS = (
    *(_setter(f"H{word}", *how) for word, how in SETTERS.items()),
    *(_getter(f"H{word}", *how) for word, how in GETTERS.items()),
    Virtual(
        name="HPERSIST",
        summary="Takes the deadline from hash fields.",
        group="hash",
        dialect=REDIS,
        forms=(f"key {_FIELDS}",),
        reply="for each field 1 removed, -1 had none, -2 no such key or field",
        complexity="O(N*log(M)), N fields named, M with a deadline",
        since="0.1.0",
        plan=partial(_plan_fields, "HPERSIST", "hash_persist", (b"0",)),
        example=(
            _FILL,
            ("HEXPIRE h 100 FIELDS 1 a", "1) (integer) 1"),
            ("HPERSIST h FIELDS 2 a b", "1) (integer) 1\n2) (integer) -1"),
        ),
    ),
    Virtual(
        name="HGETEX",
        summary="Gets the values of hash fields and sets or takes away their deadline.",
        group="hash",
        dialect=REDIS,
        forms=(
            "key [EX seconds|PX milliseconds|EXAT unix-time-seconds"
            f"|PXAT unix-time-milliseconds|PERSIST] {_FIELDS}",
        ),
        reply="for each field its value, nil where there is none",
        complexity="O(N*log(M)), N fields named, M with a deadline",
        since="0.1.0",
        plan=_plan_getex,
        example=(
            _FILL,
            ("HGETEX h EX 100 FIELDS 2 a none", '1) "1"\n2) (nil)'),
            ("HTTL h FIELDS 1 a", "1) (integer) 100"),
            ("HGETEX h PERSIST FIELDS 1 a", '1) "1"'),
        ),
        sets_deadlines=True,
    ),
    Virtual(
        name="HGETDEL",
        summary="Gets the values of hash fields and deletes them.",
        group="hash",
        dialect=REDIS,
        forms=(f"key {_FIELDS}",),
        reply="for each field its value, nil where there is none",
        complexity="O(N*log(M)), N fields named, M with a deadline",
        since="0.1.0",
        plan=partial(_plan_fields, "HGETDEL", "hash_getdel", ()),
        example=(_FILL, ("HGETDEL h FIELDS 2 a a", '1) "1"\n2) (nil)')),
    ),
)
