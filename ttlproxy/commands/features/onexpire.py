"""Actions on elements at their deadline: ONEXPIRE sets them, TAKE fetches kept elements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ttlproxy import errors
from ttlproxy.commands import parsing
from ttlproxy.commands.parsing import Refused
from ttlproxy.commands.spec import Call, Virtual
from ttlproxy.core import glob
from ttlproxy.core.expiry_actions import MOST_DELIVERIES, Action, filled, marks, written
from ttlproxy.core.write_rules import MARK

Args = Sequence[bytes]

_PAYLOADS = frozenset({b"ELEMENT", b"VALUE", b"EVENT"})
_LONGEST_PATTERN = 1024
# They replace wildcards: nothing, and text that no ACL pattern is likely to have.
_FILLERS = (b"", b"\x01 any \xff name \x7f")


class _Request(NamedTuple):
    """An action that a client asks for, and its words as ONEXPIRE will show them."""

    action: Action
    words: Args


def _plan(args: Args) -> Call:
    if len(args) < 3:
        return Call("rule_list", (), args[1:])
    pattern, verb = args[1:3]
    if len(pattern) > _LONGEST_PATTERN:
        raise Refused(errors.PATTERN_TOO_LONG)
    if pattern.startswith(MARK):
        raise Refused(errors.PATTERN_RESERVED)
    if verb.upper() == b"DEL":
        if len(args) > 3:
            raise Refused(errors.SYNTAX)
        return Call("rule_drop", (pattern, *_samples(pattern, ())), (pattern, b"", b""))
    action, words = _read(args)
    _check(pattern, action)
    dests = () if action.verb == b"KEEP" else (action.dest, action.rest)[: 1 + action.counts]
    how = (b"%d" % action.counts, b"", b"", action.verb)
    argv = (pattern, written(action, words), *how, *dests)
    return Call("rule_set", (pattern, *_samples(pattern, action.keys)), argv)


def _samples(pattern: bytes, dests: Sequence[bytes]) -> list[bytes]:
    """Returns matching keys and their destinations, so that Redis checks the client's rights to
    them."""
    names = [glob.sample(pattern, filler) for filler in _FILLERS]
    names += [filled(dest, filler, [filler] * 9) for dest in dests for filler in _FILLERS]
    return list(dict.fromkeys(names))


def _check(pattern: bytes, action: Action) -> None:
    """Raises Refused for a destination that not every key of the pattern can have."""
    stars = {b"%d" % number for number in range(1, glob.stars(pattern) + 1)}
    for dest in (action.dest, action.rest):
        for mark in sorted(marks(dest) - stars - {b"K"}):
            raise Refused(errors.no_such_star(mark))
    if {pattern, b"%K"}.intersection(action.keys):
        raise Refused(errors.SELF_DESTINATION)


def _read(args: Args) -> _Request:
    """Reads `verb [destination [options]]`, from args[2] on."""
    verb, rest = args[2].upper(), list(args[3:])
    if verb not in _OPTIONS:
        raise Refused(errors.unknown_action(args[2], _ACTIONS))
    if verb == b"KEEP":
        if rest:
            raise Refused(errors.SYNTAX)
        return _Request(Action(b"KEEP - 0", b"", b""), (b"KEEP",))
    if not rest:
        raise Refused(errors.wrong_arity("ONEXPIRE"))
    dest = rest.pop(0)
    payload, trim = _OPTIONS[verb](rest)
    most, spent = _limit(rest)
    outbox = _outbox(verb, rest)
    if rest:
        raise Refused(errors.SYNTAX)
    how = b" ".join((verb, *(payload or (b"-",)), most or b"0", *trim, *outbox))
    limit = (b"MAX", most, b"ELSE", spent) if most else ()
    return _Request(Action(how, dest, spent), (verb, dest, *payload, *trim, *limit, *outbox))


def _payload(rest: list[bytes]) -> tuple[Args, Args]:
    """Reads `[ELEMENT|VALUE|EVENT]`."""
    given = [rest.pop(0).upper()] if rest and rest[0].upper() in _PAYLOADS else []
    return given, ()


def _trimming(rest: list[bytes]) -> tuple[Args, Args]:
    """Reads `[MAXLEN [=|~] n]`, with XADD's errors."""
    if not rest or rest[0].upper() != b"MAXLEN":
        return (), ()
    words = [rest.pop(0).upper()]
    if rest and rest[0] in (b"=", b"~"):
        words.append(rest.pop(0))
    if not rest:
        raise Refused(errors.SYNTAX)
    words.append(rest.pop(0))
    if not parsing.is_integer(words[-1]):
        raise Refused(errors.NOT_AN_INTEGER)
    if int(words[-1]) < 0:
        raise Refused(errors.NEGATIVE_MAXLEN)
    return (), words


def _limit(rest: list[bytes]) -> tuple[bytes, bytes]:
    """Reads `[MAX n ELSE destination]`."""
    if not rest or rest[0].upper() != b"MAX":
        return b"", b""
    if len(rest) < 4 or rest[2].upper() != b"ELSE":
        raise Refused(errors.SYNTAX)
    _, most, _, spent = rest[:4]
    del rest[:4]
    if not parsing.is_integer(most) or int(most) > MOST_DELIVERIES:
        raise Refused(errors.NOT_AN_INTEGER)
    if int(most) < 1:
        raise Refused(errors.NOT_POSITIVE)
    return most, spent


def _outbox(verb: bytes, rest: list[bytes]) -> Args:
    """Reads `[OUTBOX]`."""
    if not rest or rest[0].upper() != b"OUTBOX" or verb not in _TO_KEYS:
        return ()
    return (rest.pop(0).upper(),)


_TO_KEYS = frozenset({b"LPUSH", b"RPUSH", b"XADD"})
_OPTIONS = {
    b"LPUSH": _payload,
    b"RPUSH": _payload,
    b"XADD": _trimming,
    b"PUBLISH": _payload,
    b"SPUBLISH": _payload,
    b"KEEP": _payload,
}
_ACTIONS = (*(verb.decode() for verb in _OPTIONS), "DEL")


def _plan_take(args: Args) -> Call:
    return Call("key_take", args[1:2], (parsing.count_option(args, b"0"),))


_LIMIT = "[MAX count ELSE other]"
_OUTBOX = "[OUTBOX]"
_PAYLOAD = f"[ELEMENT|VALUE|EVENT] {_LIMIT}"

VIRTUALS = (
    Virtual(
        name="ONEXPIRE",
        summary="Sets what happens to elements at their deadline, in keys that match a pattern.",
        group="generic",
        forms=(
            "[pattern]",
            f"pattern LPUSH list {_PAYLOAD} {_OUTBOX}",
            f"pattern RPUSH list {_PAYLOAD} {_OUTBOX}",
            f"pattern XADD stream [MAXLEN [=|~] threshold] {_LIMIT} {_OUTBOX}",
            f"pattern PUBLISH channel {_PAYLOAD}",
            f"pattern SPUBLISH shardchannel {_PAYLOAD}",
            "pattern KEEP",
            "pattern DEL",
        ),
        hint="[pattern [LPUSH list|RPUSH list|XADD stream [MAXLEN [=|~] threshold]|PUBLISH channel"
        f"|SPUBLISH shardchannel|KEEP|DEL] {_PAYLOAD} {_OUTBOX}]",
        reply="OK once it is in force for every client of every proxy; without an action the rule"
        " of the pattern, or nil; without a pattern all rules, the longest pattern first",
        complexity="O(N), N rules",
        since="0.1.0",
        plan=_plan,
        example=(
            ("ONEXPIRE unpaid:* RPUSH late:%1", '"OK"'),
            ("ONEXPIRE unpaid:vip XADD late MAXLEN ~ 1000", '"OK"'),
            (
                "ONEXPIRE unpaid:vip",
                '1) "unpaid:vip"\n2) "XADD"\n3) "late"\n4) "MAXLEN"\n5) "~"\n6) "1000"',
            ),
            ("ONEXPIRE unpaid:vip DEL", '"OK"'),
            ("ONEXPIRE", '1) 1) "unpaid:*"\n   2) "RPUSH"\n   3) "late:%1"'),
        ),
        positions=(),
        open_ended=True,
        tells_all=True,
    ),
    Virtual(
        name="TAKE",
        summary="Takes the elements that a rule has kept at their deadline; each is returned only"
        " once.",
        group="generic",
        forms=("key [COUNT count]",),
        reply="earliest first, for each the element, its value (the score of a sorted-set member,"
        " empty for set members and list elements), and its deadline in Unix time in"
        " milliseconds",
        complexity="O(N), N elements taken",
        since="0.1.0",
        plan=_plan_take,
        example=(
            ("ONEXPIRE recent KEEP", '"OK"'),
            ("SADDEX recent MAXLEN 1 EVICT EX 100 MEMBERS 1 old", "(integer) 1"),
            ("SADDEX recent MAXLEN 1 EVICT EX 100 MEMBERS 1 new", "(integer) 1"),
            ("TAKE recent", '1) 1) "old"\n   2) ""\n   3) (integer) 1767225600000'),
        ),
        open_ended=True,
    ),
)
