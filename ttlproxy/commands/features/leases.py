"""Leases: items of a list, each lent to one worker until a deadline.

A lent item is a member of a set with a deadline. A worker that is done calls SREM, one that needs
more time SEXPIREMEMBER. Other items expire like any member of the set.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ttlproxy import errors
from ttlproxy.commands.grammar import parsing
from ttlproxy.commands.grammar.parsing import MILLISECONDS, SECONDS, Refused
from ttlproxy.commands.model import calls
from ttlproxy.commands.model.key_positions import CHANGED, FILLED, KeySpec
from ttlproxy.commands.model.spec import Call, Virtual

Args = Sequence[bytes]

_UNITS = {b"EX": SECONDS, b"PX": MILLISECONDS}


class _Lease(NamedTuple):
    """A parsed request.

    time: in ms; wanted: the COUNT, b"" without one; block_ms: None if it does not wait
    """

    time: bytes
    wanted: bytes
    block_ms: int | None


def _read(args: Args) -> _Lease:
    """The options, from args[3] on."""
    found: dict[str, bytes] = {}
    words = iter(args[3:])
    for word in words:
        kind, value = _OPTIONS.get(word.upper()), next(words, None)
        if kind is None or value is None or kind in found:
            raise Refused(errors.SYNTAX)
        found[kind] = _READERS[kind](word.upper(), value)
    if "time" not in found:
        raise Refused(errors.SYNTAX)
    block_ms = int(found["block"]) if "block" in found else None
    return _Lease(found["time"], found.get("count", b""), block_ms)


def _time(word: bytes, value: bytes) -> bytes:
    found = parsing.time(value, _UNITS[word], "LEASE")
    if found.amount_ms == b"0":
        raise Refused(errors.invalid_expire("LEASE"))
    return found.amount_ms


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


_OPTIONS = {b"EX": "time", b"PX": "time", b"COUNT": "count", b"BLOCK": "block"}
_READERS = {"time": _time, "count": _count, "block": _block}


def _plan(args: Args) -> Call:
    try:
        lease = _read(args)
    except Refused as refused:
        return calls.refusal("LEASE", refused.text)
    flag, count = (b"1", lease.wanted) if lease.wanted else (b"0", b"1")
    return Call("list_lease", args[1:3], (b"lease", b"%b+%b/%b" % (flag, lease.time, count)))


def _waits(args: Args) -> int | None:
    try:
        return _read(args).block_ms
    except Refused:
        return None


VIRTUALS = (
    Virtual(
        name="LEASE",
        summary="Moves an item from the right end of a list into a set, with a time to live.",
        group="list",
        forms=(
            "source destination EX seconds [COUNT count] [BLOCK milliseconds]",
            "source destination PX milliseconds [COUNT count] [BLOCK milliseconds]",
        ),
        hint="source destination {EX seconds|PX milliseconds} [COUNT count] [BLOCK milliseconds]",
        reply="the item, nil if there is none; with COUNT an array of items, or nil. An item that"
        " is already in the set stays in the list, and the next one is taken. With BLOCK it"
        " waits for an item (0: without limit), except in a transaction",
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
)
