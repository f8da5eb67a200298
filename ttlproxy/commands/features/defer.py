"""Deferred commands: DEFER, UNDEFER and DEFERRED; and DUE, which lists deadlines of elements."""

from __future__ import annotations

from collections.abc import Sequence

from ttlproxy.commands.features import defer_syntax
from ttlproxy.commands.grammar import parsing
from ttlproxy.commands.grammar.options import EXPIRIES
from ttlproxy.commands.grammar.parsing import Refused
from ttlproxy.commands.model import calls
from ttlproxy.commands.model.key_positions import FIRST_READ
from ttlproxy.commands.model.spec import Call, Virtual

Args = Sequence[bytes]

_ALL = b"-1"


def _plan_due(args: Args) -> Call:
    try:
        return Call("key_due", args[1:2], (parsing.count_option(args, _ALL),))
    except Refused as refused:
        return calls.refusal("DUE", refused.text)


def _plan_deferred(args: Args) -> Call:
    try:
        return Call("deferred_list", args[1:2], (parsing.count_option(args, _ALL),))
    except Refused as refused:
        return calls.refusal("DEFERRED", refused.text)


def _plan_defer(args: Args) -> Call:
    try:
        found = defer_syntax.read(args)
    except Refused as refused:
        return calls.refusal("DEFER", refused.text, refused.time)
    return calls.set_deadlines(
        "deferred_set",
        "DEFER",
        found.command[1],
        found.time,
        (found.id or b"", *found.command),
        condition=found.condition,
        flag=found.id is not None,
    )


_DEFERRED = '1) 1) "t1"\n   2) (integer) 100000\n   3) "LPUSH"\n   4) "tasks"\n   5) "t1"'

VIRTUALS = (
    Virtual(
        name="DEFER",
        summary="Runs a command later: LPUSH, RPUSH, XADD key [MAXLEN ~ n] * ...,"
        " PUBLISH, SPUBLISH, DEL or UNLINK, with one key or channel.",
        group="generic",
        forms=tuple(
            f"{word.decode()} {unit.argument} [ID id] [NX|XX|GT|LT] command key [argument ...]"
            for word, unit in EXPIRIES.items()
        ),
        hint="{EX seconds|PX milliseconds|EXAT unix-time-seconds|PXAT unix-time-milliseconds}"
        " [ID id] [NX|XX|GT|LT] command key [argument ...]",
        reply="the id, for cancelling it; generated if none is given. A deferred command with the"
        " same id is replaced. nil if the condition NX, XX, GT or LT is not met",
        complexity="O(log(M)), M commands deferred for the key",
        since="0.1.0",
        plan=_plan_defer,
        example=(
            ("DEFER EX 100 ID t1 LPUSH tasks t1", '"t1"'),
            ("DEFER EX 9 ID t1 NX LPUSH tasks t1", "(nil)"),
            ("DEFERRED tasks", _DEFERRED),
            ("DEFER EX 100 PUBLISH news soon", '"1767225600000000"'),
        ),
        of_deferred=True,
        positions=(defer_syntax.COMMAND_KEY,),
        open_ended=True,
    ),
    Virtual(
        name="UNDEFER",
        summary="Cancels deferred commands of a key or a channel.",
        group="generic",
        forms=("key id [id ...]",),
        reply="how many were cancelled",
        complexity="O(N*log(M)), N ids, M deferred commands of the key",
        since="0.1.0",
        plan=lambda args: Call("deferred_drop", args[1:2], args[2:]),
        example=(
            ("DEFER EX 100 ID t1 LPUSH tasks t1", '"t1"'),
            ("UNDEFER tasks t1 t2", "(integer) 1"),
        ),
        of_deferred=True,
    ),
    Virtual(
        name="DEFERRED",
        summary="Lists the deferred commands of a key or a channel.",
        group="generic",
        forms=("key [COUNT count]",),
        reply="earliest first, for each command its id, its time left in milliseconds, and its"
        " words",
        complexity="O(log(M)+N), M deferred commands of the key, N of them returned",
        since="0.1.0",
        plan=_plan_deferred,
        example=(
            ("DEFER EX 100 ID t1 LPUSH tasks t1", '"t1"'),
            ("DEFER EX 200 ID t2 DEL tasks", '"t2"'),
            ("DEFERRED tasks COUNT 1", _DEFERRED),
        ),
        of_deferred=True,
        positions=(FIRST_READ,),
        open_ended=True,
    ),
    Virtual(
        name="DUE",
        summary="Lists the elements of a key that have a deadline, and the time they have left.",
        group="generic",
        forms=("key [COUNT count]",),
        reply="earliest first, each element that has a deadline and its time left in"
        " milliseconds; equal values of a list only once",
        complexity="O(log(M)+N), M elements with a deadline, N of them returned; in a list"
        " O(L+N*log(M)), L its length",
        since="0.1.0",
        plan=_plan_due,
        example=(
            ("SADDEX held EX 200 MEMBERS 1 late", "(integer) 1"),
            ("SADDEX held EX 100 MEMBERS 1 soon", "(integer) 1"),
            ("SADD held never", "(integer) 1"),
            (
                "DUE held",
                '1) 1) "soon"\n   2) (integer) 100000\n2) 1) "late"\n   2) (integer) 200000',
            ),
            ("DUE held COUNT 1", '1) 1) "soon"\n   2) (integer) 100000'),
        ),
        positions=(FIRST_READ,),
        open_ended=True,
    ),
)
