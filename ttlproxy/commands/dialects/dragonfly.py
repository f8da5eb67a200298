"""The commands of Dragonfly, from its src/server/generic_family.cc (version 1.40): for hash fields
and set members. Its own form of HSETEX is in commands/types/hashes.py."""

from __future__ import annotations

from collections.abc import Sequence

from ttlproxy import errors
from ttlproxy.commands.grammar import parsing
from ttlproxy.commands.grammar.parsing import Refused
from ttlproxy.commands.model import calls
from ttlproxy.commands.model.key_positions import FIRST_READ
from ttlproxy.commands.model.spec import Call, Virtual

_SERVER = "Dragonfly"
_FILL = ("SADD s a b", "(integer) 2")


def _plan_set(args: Sequence[bytes]) -> Call:
    try:
        if not parsing.is_integer(args[2]) or int(args[2]) < 1:
            raise Refused(errors.NOT_AN_INTEGER)
        time = parsing.time(args[2], parsing.SECONDS, "FIELDEXPIRE")
    except Refused as refused:
        return calls.refusal("FIELDEXPIRE", refused.text)
    return calls.set_deadlines("dragonfly_expire", "FIELDEXPIRE", args[1], time, args[3:])


VIRTUALS = (
    Virtual(
        name="FIELDEXPIRE",
        summary="Sets the time to live of hash fields or set members, in seconds.",
        group="generic",
        dialect=_SERVER,
        forms=("key seconds field [field ...]",),
        reply="for each field 1 set, -2 no such key or field, or a key of another type",
        complexity="O(N*log(M)), N fields named, M with a deadline",
        since="0.1.0",
        plan=_plan_set,
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
        dialect=_SERVER,
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
