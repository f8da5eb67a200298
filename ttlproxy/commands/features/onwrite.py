"""Deadlines by rule: ONWRITE sets the deadlines of elements that native commands write."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ttlproxy import errors
from ttlproxy.commands import parsing
from ttlproxy.commands.parsing import Refused
from ttlproxy.commands.spec import Call, Virtual
from ttlproxy.core import glob
from ttlproxy.core.element_types import TYPES
from ttlproxy.core.write_rules import WriteRule, name_of

Args = Sequence[bytes]

_LONGEST_PATTERN: Final = 1024
_UNITS: Final = {b"EX": parsing.SECONDS, b"PX": parsing.MILLISECONDS}
# Half of the latest deadline: a time with the most jitter is no longer, so that together with any
# present time it is a deadline that Redis 8 would take.
_LONGEST_MS: Final = parsing.MAX_DEADLINE_MS // 2
_MOST_JITTER: Final = 100
_MOST_ELEMENTS: Final = 2**31 - 1
# They replace wildcards: nothing, and text that no ACL pattern is likely to have.
_FILLERS: Final = (b"", b"\x01 any \xff name \x7f")


def _plan(args: Args) -> Call:
    if len(args) == 1:
        return Call("write_rule_list", (), ())
    pattern, rest = args[1], list(args[2:])
    if len(pattern) > _LONGEST_PATTERN:
        raise Refused(errors.PATTERN_TOO_LONG)
    type_ = _type(rest)
    name = name_of(pattern, type_)
    if not rest:
        return Call("write_rule_list", (), (name,))
    samples = dict.fromkeys(glob.sample(pattern, filler) for filler in _FILLERS)
    if rest[0].upper() == b"DEL":
        if len(rest) > 1:
            raise Refused(errors.SYNTAX)
        return Call("rule_drop", (name, *samples), (name, b"", b""))
    rule, words = _rule(rest)
    shown = (pattern, *((b"TYPE", type_) if type_ else ()), *words)
    argv = (name, rule.row(shown), b"0", b"", b"", b"")
    return Call("rule_set", (name, *samples), argv)


def _type(rest: list[bytes]) -> bytes:
    """Reads `[TYPE type]`; returns the type in lower case."""
    if not rest or rest[0].upper() != b"TYPE":
        return b""
    if len(rest) < 2:
        raise Refused(errors.SYNTAX)
    type_ = rest[1].lower()
    if type_ not in TYPES:
        raise Refused(errors.NO_SUCH_TYPE)
    del rest[:2]
    return type_


def _rule(rest: list[bytes]) -> tuple[WriteRule, Args]:
    """Returns the rule, and its words as ONWRITE will show them."""
    ttl_ms, words = _time(rest)
    jitter = _number(rest, b"JITTER", _MOST_JITTER) if ttl_ms else 0
    refreshes = bool(ttl_ms) and _flag(rest, b"REFRESH")
    keeps_all = not refreshes and _flag(rest, b"KEEPTTL")
    if not (ttl_ms or keeps_all):
        raise Refused(errors.SYNTAX)
    cap = _number(rest, b"MAXLEN", _MOST_ELEMENTS)
    evicts = bool(cap) and _flag(rest, b"EVICT")
    if rest:
        raise Refused(errors.SYNTAX)
    words += [b"JITTER", b"%d" % jitter] if jitter else []
    words += [b"REFRESH"] if refreshes else []
    words += [b"KEEPTTL"] if keeps_all else []
    words += [b"MAXLEN", b"%d" % cap] if cap else []
    words += [b"EVICT"] if evicts else []
    return WriteRule(ttl_ms, jitter, refreshes, cap, evicts, keeps_all), words


def _time(rest: list[bytes]) -> tuple[int, list[bytes]]:
    """Reads `[EX seconds|PX milliseconds]`; returns ms and its words, 0 if it is not there."""
    unit = rest[0].upper()
    if unit not in _UNITS:
        return 0, []
    if len(rest) < 2:
        raise Refused(errors.SYNTAX)
    amount = rest[1]
    ttl_ms = int(parsing.time(amount, _UNITS[unit], "ONWRITE").amount_ms)
    if not 0 < ttl_ms <= _LONGEST_MS // 2:
        raise Refused(errors.invalid_expire("ONWRITE"))
    del rest[:2]
    return ttl_ms, [unit, amount]


def _flag(rest: list[bytes], word: bytes) -> bool:
    found = bool(rest) and rest[0].upper() == word
    if found:
        del rest[0]
    return found


def _number(rest: list[bytes], word: bytes, most: int) -> int:
    """Reads `[word n]`; 0 if it is not there."""
    if not _flag(rest, word):
        return 0
    if not rest:
        raise Refused(errors.SYNTAX)
    number = rest.pop(0)
    if not parsing.is_integer(number) or int(number) > most:
        raise Refused(errors.NOT_AN_INTEGER)
    if int(number) < 1:
        raise Refused(errors.NOT_POSITIVE)
    return int(number)


VIRTUALS = (
    Virtual(
        name="ONWRITE",
        summary="Sets the deadline of elements that native commands write, in keys that match a"
        " pattern.",
        group="generic",
        forms=(
            "[pattern [TYPE type]]",
            "pattern [TYPE type] EX seconds [JITTER percent] [REFRESH|KEEPTTL] [MAXLEN maxlen"
            " [EVICT]]",
            "pattern [TYPE type] PX milliseconds [JITTER percent] [REFRESH|KEEPTTL] [MAXLEN maxlen"
            " [EVICT]]",
            "pattern [TYPE type] KEEPTTL [MAXLEN maxlen [EVICT]]",
            "pattern [TYPE type] DEL",
        ),
        hint="[pattern [TYPE type] [EX seconds|PX milliseconds|DEL] [JITTER percent]"
        " [REFRESH|KEEPTTL] [MAXLEN maxlen [EVICT]]]",
        reply="OK once it is in force for every client of every proxy; without more the rule of"
        " the pattern, or nil; without a pattern all rules, the longest pattern first",
        complexity="O(N), N rules",
        since="0.2.0",
        plan=_plan,
        example=(
            ("ONWRITE tag:* TYPE set EX 86400", '"OK"'),
            ("SADD tag:ruby 1 2", "(integer) 2"),
            ("STTLMEMBER tag:ruby 1", "(integer) 86400"),
            ("ONWRITE tag:* TYPE set", '1) "tag:*"\n2) "TYPE"\n3) "set"\n4) "EX"\n5) "86400"'),
            ("ONWRITE tag:* TYPE set DEL", '"OK"'),
            ("ONWRITE", "(empty array)"),
        ),
        positions=(),
        open_ended=True,
        tells_all=True,
    ),
)
