"""The commands of KeyDB, from its src/expire.cpp: for one element of any type but a list."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from ttlproxy import errors
from ttlproxy.commands.families.long_forms import example_time
from ttlproxy.commands.grammar import parsing
from ttlproxy.commands.grammar.parsing import MAX_DEADLINE_MS, Refused, Time, Unit
from ttlproxy.commands.model import calls
from ttlproxy.commands.model.spec import Call, Virtual

Args = Sequence[bytes]

_SERVER = "KeyDB"
_UNITS = {b"S": parsing.SECONDS, b"MS": parsing.MILLISECONDS}


def _any_time(word: bytes, unit: Unit, command: str) -> Time:
    """A time that may be negative: then it is in the past."""
    if not parsing.is_integer(word):
        raise Refused(errors.NOT_AN_INTEGER)
    number = int(word)
    if number > MAX_DEADLINE_MS // unit.ms:
        raise Refused(errors.invalid_expire(command))
    return Time(b"%d" % (number * unit.ms), unit.base) if number >= 0 else Time(b"0", b"0")


def _plan_set(name: str, unit: Unit, args: Args) -> Call:
    try:
        _any_time(args[3], parsing.MILLISECONDS, name)  # the number before the word for its unit
        given = _UNITS.get(args[4].upper()) if len(args) > 4 else unit
        if given is None:
            raise Refused(errors.INVALID_UNIT)
        time = _any_time(args[3], given, name)
    except Refused as refused:
        return calls.refusal(name, refused.text)
    return calls.set_deadlines("keydb_expire", name, args[1], time, args[2:3], flag=True)


def _plan_ttl(unit: Unit, args: Args) -> Call:
    return Call("keydb_ttl", (args[1],), (b"%d" % unit.ms, args[2]))


_FILL = ("SADD s a b", "(integer) 2")
_SET = ("EXPIREMEMBER s a 100", "(integer) 1")

VIRTUALS = (
    Virtual(
        name="EXPIREMEMBER",
        summary="Sets the time to live of a hash field, a set or a sorted-set member.",
        group="generic",
        dialect=_SERVER,
        forms=("key member delay [S|MS]",),
        reply="1 set, 0 no such key or member",
        complexity="O(log(M)), M members with a deadline",
        since="0.1.0",
        plan=partial(_plan_set, "EXPIREMEMBER", parsing.SECONDS),
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
            dialect=_SERVER,
            forms=(f"key member {unit.argument}",),
            reply="1 set, 0 no such key or member",
            complexity="O(log(M)), M members with a deadline",
            since="0.1.0",
            plan=partial(_plan_set, name, unit),
            example=(_FILL, (f"{name} s a {example_time(unit)}", "(integer) 1")),
            sets_deadlines=True,
        )
        for name, unit in (
            ("EXPIREMEMBERAT", parsing.UNIX_SECONDS),
            ("PEXPIREMEMBERAT", parsing.UNIX_MILLISECONDS),
        )
    ),
)

# Forms of Redis's own commands with one more word. With the number of words that Redis takes, Redis
# answers.
LONGER = (
    *(
        Virtual(
            name=name,
            summary=f"Returns the time to live of a member, in {unit.name}.",
            group="generic",
            dialect=_SERVER,
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
        dialect=_SERVER,
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
