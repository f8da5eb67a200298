"""The words of DEFER: when, under which id, and which command of a fixed list.

A malformed deferred command gets Redis's own error.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from ttlproxy import errors
from ttlproxy.commands.grammar import parsing
from ttlproxy.commands.grammar.options import EXPIRIES
from ttlproxy.commands.grammar.parsing import NO_TIME, Refused, Time
from ttlproxy.commands.model.key_positions import CHANGED, KeySpec
from ttlproxy.commands.model.overrides import MOST_WORDS

Args = Sequence[bytes]


class Deferral(NamedTuple):
    """A parsed request; `id` is None if the script is to make one."""

    time: Time
    id: bytes | None
    condition: bytes
    command: Args


def read(args: Args) -> Deferral:
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
    """The index of the command behind the options; None if there is none."""
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
    """The command, with its name in upper case. Raises Refused."""
    name = command[0].upper()
    if len(command) > MOST_WORDS:
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
    """`XADD key [MAXLEN ~ n] * field value ...`."""
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
    """The key or channel of the command: the word behind its name."""

    __slots__ = ()

    def words(self, args: Args) -> list[bytes]:
        at = command_at(args)
        return list(args[at + 1 : at + 2]) if at is not None else []


COMMAND_KEY = CommandKey(CHANGED, 3, keyword=b"LPUSH")
