"""Deferred commands: DEFER, UNDEFER and DEFERRED; and DUE, which lists deadlines of elements.

The words of DEFER say when, under which id, and which command of a fixed list. A malformed deferred
command gets Redis's own error.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from ttlproxy import errors
from ttlproxy.commands import calls, parsing
from ttlproxy.commands.options import EXPIRIES
from ttlproxy.commands.parsing import NO_TIME, Refused, Time
from ttlproxy.commands.spec import CHANGED, FIRST_READ, Call, KeySpec, Plan, Virtual
from ttlproxy.core.limits import CALLED_WORDS_MAX

Args = Sequence[bytes]


class Deferral(NamedTuple):
    """A parsed request; `id` is None if the script must generate one."""

    time: Time
    id: bytes | None
    condition: bytes
    command: Args


def read_deferral(args: Args) -> Deferral:
    """Reads a request, from args[1] on. Raises Refused."""
    at = command_at(args)
    if at is None:
        raise Refused(errors.SYNTAX)
    found: dict[str, bytes] = {}
    time = NO_TIME
    words = iter(args[1:at])
    for word in map(bytes.upper, words):
        kind = "time" if word in EXPIRIES else "id" if word == b"ID" else "condition"
        if kind in found:
            raise Refused(errors.SYNTAX)
        found[kind] = word if kind == "condition" else next(words)
        if kind == "time":
            time = parsing.time(found[kind], EXPIRIES[word], "DEFER")
    if time is NO_TIME:
        raise Refused(errors.SYNTAX)
    command = _checked(args[at:], time)
    return Deferral(time, found.get("id"), found.get("condition", b""), command)


def command_at(args: Args) -> int | None:
    """Returns the index of the command after the options; None if there is none."""
    at = 1
    while at < len(args):
        word = args[at].upper()
        if word in EXPIRIES or word == b"ID":
            at += 2
        elif word in parsing.CONDITIONS:
            at += 1
        else:
            return at
    return None


def _checked(command: Args, time: Time) -> Args:
    """Returns the command, with its name in upper case. Raises Refused."""
    name = command[0].upper()
    if len(command) > CALLED_WORDS_MAX:
        raise Refused(errors.TOO_MANY_WORDS, time)
    check = _CHECKS.get(name)
    if check is None:
        raise Refused(errors.SYNTAX, time)
    try:
        fits = check(command)
    except Refused as refused:
        raise Refused(refused.text, time) from None
    if not fits:
        raise Refused(errors.wrong_arity(name.decode()), time)
    return (name, *command[1:])


def _adds(command: Args) -> bool:
    """Checks `XADD key [MAXLEN ~ n] * field value ...`."""
    if len(command) < 5:
        return False
    at = 2
    if command[2].upper() == b"MAXLEN":
        if command[3] != b"~":
            raise Refused(errors.SYNTAX)
        if not parsing.is_integer(command[4]):
            raise Refused(errors.NOT_AN_INTEGER)
        if int(command[4]) < 0:
            raise Refused(errors.NEGATIVE_MAXLEN)
        at = 5
    if command[at : at + 1] != [b"*"]:
        raise Refused(errors.SYNTAX)
    pairs = len(command) - at - 1
    return pairs > 0 and pairs % 2 == 0


def _pushes(command: Args) -> bool:
    return len(command) > 2


def _publishes(command: Args) -> bool:
    return len(command) == 3


def _deletes(command: Args) -> bool:
    return len(command) == 2


_CHECKS: dict[bytes, Callable[[Args], bool]] = {
    b"LPUSH": _pushes,
    b"RPUSH": _pushes,
    b"XADD": _adds,
    b"PUBLISH": _publishes,
    b"SPUBLISH": _publishes,
    b"DEL": _deletes,
    b"UNLINK": _deletes,
}


class CommandKey(KeySpec):
    """The key or channel of the command: the word after its name."""

    __slots__ = ()

    def words(self, args: Args) -> list[bytes]:
        at = command_at(args)
        return list(args[at + 1 : at + 2]) if at is not None else []


COMMAND_KEY = CommandKey(CHANGED, 3, keyword=b"LPUSH")


_ALL = b"-1"


def _planning_list(script: str) -> Plan:
    return lambda args: Call(script, args[1:2], (parsing.count_option(args, _ALL),))


def _plan_defer(args: Args) -> Call:
    found = read_deferral(args)
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
        positions=(COMMAND_KEY,),
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
        plan=_planning_list("deferred_list"),
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
        plan=_planning_list("key_due"),
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
