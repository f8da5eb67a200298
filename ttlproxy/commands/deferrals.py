"""What is to happen, and when: the deadlines of a key that are still to come."""

from __future__ import annotations

from collections.abc import Sequence

from ttlproxy import errors
from ttlproxy.commands import calls, grammar
from ttlproxy.commands.grammar import Refused
from ttlproxy.commands.positions import FIRST_READ
from ttlproxy.commands.spec import Call, Virtual

Args = Sequence[bytes]

_ALL = b"-1"
_MOST = 2**31 - 1


def _count(args: Args) -> bytes:
    """`[COUNT n]`, from args[2] on."""
    if len(args) == 2:
        return _ALL
    if len(args) != 4 or args[2].upper() != b"COUNT":
        raise Refused(errors.SYNTAX)
    if not grammar.is_integer(args[3]) or not 0 < int(args[3]) <= _MOST:
        raise Refused(errors.COUNT_TOO_SMALL)
    return args[3]


def _plan_due(args: Args) -> Call:
    try:
        return Call("key_due", args[1:2], (_count(args),))
    except Refused as refused:
        return calls.refusal("DUE", refused.text)


VIRTUALS = (
    Virtual(
        name="DUE",
        summary="Tells which elements of a key have a deadline, and how long they have left.",
        group="generic",
        forms=("key [COUNT count]",),
        reply="the soonest first, each element that has a deadline and its time left in"
        " milliseconds; of a list's equal values one",
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
