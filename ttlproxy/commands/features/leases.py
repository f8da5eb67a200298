"""Leases: items of a list, each lent to one worker until a deadline.

A lent item is a member of a set with a deadline. A worker that is done calls SREM, one that needs
more time SEXPIREMEMBER. Other items expire like any member of the set. A worker that has asked for
a token passes it to UNLEASE and RENEW, which leave another worker's lease alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ttlproxy import errors
from ttlproxy.commands import calls, parsing
from ttlproxy.commands.parsing import MILLISECONDS, SECONDS, Refused, Time
from ttlproxy.commands.spec import CHANGED, FILLED, Call, KeySpec, Virtual

Args = Sequence[bytes]

_UNITS = {b"EX": SECONDS, b"PX": MILLISECONDS}


class _Lease(NamedTuple):
    """A parsed request.

    time: in ms; wanted: the COUNT, b"" without one; block_ms: None if it does not wait; token:
    whether the reply has one
    """

    time: bytes
    wanted: bytes
    block_ms: int | None
    token: bool


def _read(args: Args) -> _Lease:
    """Reads the options, from args[3] on."""
    found: dict[str, bytes] = {}
    words = iter(args[3:])
    for word in words:
        kind = _OPTIONS.get(word.upper())
        value = b"" if kind == "token" else next(words, None)
        if kind is None or value is None or kind in found:
            raise Refused(errors.SYNTAX)
        found[kind] = _READERS[kind](word.upper(), value)
    if "time" not in found:
        raise Refused(errors.SYNTAX)
    block_ms = int(found["block"]) if "block" in found else None
    return _Lease(found["time"], found.get("count", b""), block_ms, "token" in found)


def _time(word: bytes, value: bytes) -> bytes:
    return _to_come(word, value, "LEASE").amount_ms


def _to_come(word: bytes, value: bytes, name: str) -> Time:
    found = parsing.time(value, _UNITS[word], name)
    if found.amount_ms == b"0":
        raise Refused(errors.invalid_expire(name))
    return found


def _count(word: bytes, value: bytes) -> bytes:
    return parsing.count(value)


def _block(word: bytes, value: bytes) -> bytes:
    if not parsing.is_integer(value):
        raise Refused(errors.TIMEOUT_NOT_AN_INTEGER)
    if int(value) < 0:
        raise Refused(errors.TIMEOUT_NEGATIVE)
    if int(value) > parsing.MAX_DEADLINE_MS:
        raise Refused(errors.TIMEOUT_OUT_OF_RANGE)
    return value


def _is_given(word: bytes, value: bytes) -> bytes:
    return value


_OPTIONS = {
    **dict.fromkeys((b"EX", b"PX"), "time"),
    b"COUNT": "count",
    b"BLOCK": "block",
    b"TOKEN": "token",
}
_READERS = {"time": _time, "count": _count, "block": _block, "token": _is_given}


def _plan(args: Args) -> Call:
    lease = _read(args)
    flag, count = (b"1", lease.wanted) if lease.wanted else (b"0", b"1")
    how = b"%b%b+%b/%b" % (flag, b"T" * lease.token, lease.time, count)
    return Call("list_lease", args[1:3], (b"lease", how))


def _waits(args: Args) -> int | None:
    try:
        return _read(args).block_ms
    except Refused:
        return None


def _plan_unlease(args: Args) -> Call:
    if not parsing.is_integer(args[2]):
        raise Refused(errors.NOT_AN_INTEGER)
    return Call("set_unlease", args[1:2], args[2:])


def _plan_renew(args: Args) -> Call:
    key, token, item, unit, amount = args[1:]
    if not parsing.is_integer(token):
        raise Refused(errors.NOT_AN_INTEGER)
    if unit.upper() not in _UNITS:
        raise Refused(errors.SYNTAX)
    time = _to_come(unit.upper(), amount, "RENEW")
    return calls.set_deadlines("set_renew", "RENEW", key, time, (token, item))


VIRTUALS = (
    Virtual(
        name="LEASE",
        summary="Moves an item from the right end of a list into a set, with a time to live.",
        group="list",
        forms=(
            "source destination EX seconds [COUNT count] [BLOCK milliseconds] [TOKEN]",
            "source destination PX milliseconds [COUNT count] [BLOCK milliseconds] [TOKEN]",
        ),
        hint="source destination {EX seconds|PX milliseconds} [COUNT count] [BLOCK milliseconds]"
        " [TOKEN]",
        reply="the item, nil if there is none; with COUNT an array of items, or nil. With TOKEN an"
        " array of that and an integer, the token, or nil. An item that is already in the set stays"
        " in the list, and the next one is taken. With BLOCK it waits for an item (0: without"
        " limit), except in a transaction",
        complexity="O(N*log(M)), N items taken or passed over, M members with a deadline",
        since="0.1.0",
        plan=_plan,
        example=(
            ("RPUSH tasks a b c", "(integer) 3"),
            ("LEASE tasks busy EX 30", '"c"'),
            ("LEASE tasks busy EX 30 COUNT 5", '1) "b"\n2) "a"'),
            ("STTLMEMBER busy c", "(integer) 30"),
            ("SREM busy a", "(integer) 1"),
            ("LEASE tasks busy EX 30 BLOCK 10", "(nil)"),
            ("LEASE tasks busy EX 30", "(nil)"),
        ),
        sets_deadlines=True,
        target=2,
        positions=(KeySpec(CHANGED), KeySpec(FILLED, 2)),
        open_ended=True,
        waits=_waits,
    ),
    Virtual(
        name="UNLEASE",
        summary="Removes leased items from a set, if their lease is still that of the token.",
        group="set",
        forms=("key token item [item ...]",),
        reply="how many were removed: 0 if the lease is over, also if another one has begun",
        complexity="O(N*log(M)), N items named, M members with a deadline",
        since="0.1.0",
        plan=_plan_unlease,
        example=(
            ("SADDEX busy PXAT 4102444800000 MEMBERS 1 a", "(integer) 1"),
            ("UNLEASE busy 4102444700000 a", "(integer) 0"),
            ("UNLEASE busy 4102444800000 a", "(integer) 1"),
            ("UNLEASE busy 4102444800000 a", "(integer) 0"),
        ),
        integers=("token",),
    ),
    Virtual(
        name="RENEW",
        summary="Gives a leased item more time, if its lease is still that of the token.",
        group="set",
        forms=(
            "key token item EX seconds",
            "key token item PX milliseconds",
        ),
        hint="key token item {EX seconds|PX milliseconds}",
        reply="the new token; nil if the lease is over, also if another one has begun",
        complexity="O(log(M)), M members with a deadline",
        since="0.1.0",
        plan=_plan_renew,
        example=(
            ("SADDEX busy PXAT 4102444800000 MEMBERS 1 a", "(integer) 1"),
            ("RENEW busy 4102444700000 a EX 30", "(nil)"),
            ("STTLMEMBER busy none", "(integer) -2"),
        ),
        sets_deadlines=True,
        integers=("token",),
    ),
)
