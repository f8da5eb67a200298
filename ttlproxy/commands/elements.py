"""The nine commands that every type of element has, made from one table for each type."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from ttlproxy import errors
from ttlproxy.commands import grammar
from ttlproxy.commands.grammar import NO_TIME, Noun, Refused, Time
from ttlproxy.commands.positions import FIRST_READ
from ttlproxy.commands.spec import Call, Virtual

Args = Sequence[bytes]

# word -> (unit in ms, counts from now)
SETTERS = {
    "EXPIRE": (1000, True),
    "PEXPIRE": (1, True),
    "EXPIREAT": (1000, False),
    "PEXPIREAT": (1, False),
}
GETTERS = {
    "TTL": (1000, True),
    "PTTL": (1, True),
    "EXPIRETIME": (1000, False),
    "PEXPIRETIME": (1, False),
}
UNITS = {1000: "seconds", 1: "milliseconds"}


def family(noun: Noun, fill: str, key: str, elements: tuple[str, str]) -> tuple[Virtual, ...]:
    """The nine commands of a type.

    `fill` is the line that makes `key` with the two `elements`, for the examples.
    """
    suffix = noun.one.upper()
    name = f"{noun.prefix}{{}}{suffix}".format
    examples = _Examples(noun, fill, key, elements)
    return (
        *(_setter(noun, name(word), *how, examples) for word, how in SETTERS.items()),
        *(_getter(noun, name(word), *how, examples) for word, how in GETTERS.items()),
        _persist(noun, name("PERSIST"), examples),
    )


class _Examples:
    """Example lines in the words of one type."""

    def __init__(self, noun: Noun, fill: str, key: str, elements: tuple[str, str]) -> None:
        self.fill, self.key, self.elements = (fill, "(integer) 2"), key, elements
        self.suffix, self.keyword = noun.one.upper(), noun.many.upper()
        self.prefix = noun.prefix

    def setter(self, name: str, unit_ms: int, relative: bool) -> tuple[tuple[str, str], ...]:
        one, other = self.elements
        number = (100 if relative else 4102444800) * (1000 // unit_ms)
        return (
            self.fill,
            (f"{name} {self.key} {one} {number}", "(integer) 1"),
            (
                f"{name} {self.key} {number} NX {self.keyword} 3 {one} {other} none",
                "1) (integer) 0\n2) (integer) 1\n3) (integer) -2",
            ),
        )

    def getter(self, name: str, unit_ms: int, relative: bool) -> tuple[tuple[str, str], ...]:
        one, other = self.elements
        setter = f"{self.prefix}EXPIREAT{self.suffix} {self.key} {one} 4102444800"
        lines = [self.fill, (setter, "(integer) 1")]
        if not relative:
            value = 4102444800 * (1000 // unit_ms)
            lines.append((f"{name} {self.key} {one}", f"(integer) {value}"))
        lines.append(
            (
                f"{name} {self.key} {self.keyword} 2 {other} none",
                "1) (integer) -1\n2) (integer) -2",
            )
        )
        return tuple(lines)

    def persist(self, name: str) -> tuple[tuple[str, str], ...]:
        one, other = self.elements
        return (
            self.fill,
            (f"{self.prefix}EXPIRE{self.suffix} {self.key} {one} 100", "(integer) 1"),
            (f"{name} {self.key} {one}", "(integer) 1"),
            (
                f"{name} {self.key} {self.keyword} 2 {other} none",
                "1) (integer) -1\n2) (integer) -2",
            ),
        )


def _long_tail(noun: Noun) -> str:
    return f"{noun.many.upper()} num{noun.many} {noun.one} [{noun.one} ...]"


def _complexity(noun: Noun, cost: str, meaning: str) -> str:
    if noun.walks:
        return f"O(L+{cost}), {meaning}, L the length of the {noun.type}"
    return f"O({cost}), {meaning}"


def _setter(noun: Noun, name: str, unit_ms: int, relative: bool, examples: _Examples) -> Virtual:
    unit = UNITS[unit_ms] if relative else f"unix-time-{UNITS[unit_ms]}"
    how = "to live" if relative else "of expiry"
    return Virtual(
        name=name,
        summary=f"Sets the time {how} of {noun.group} {noun.many}, in {UNITS[unit_ms]}.",
        group=noun.group,
        forms=(
            f"key {noun.one} {unit} [NX|XX|GT|LT]",
            f"key {unit} [NX|XX|GT|LT] {_long_tail(noun)}",
        ),
        reply=f"1 set, 0 condition not met, 2 already past: deleted, -2 no such key or {noun.one}",
        complexity=_complexity(noun, "N*log(M)", f"N {noun.many} named, M with a deadline"),
        since="0.1.0",
        plan=partial(_plan_set, noun, name, unit_ms, b"1" if relative else b"0"),
        example=examples.setter(name, unit_ms, relative),
        sets_deadlines=True,
    )


def _getter(noun: Noun, name: str, unit_ms: int, relative: bool, examples: _Examples) -> Virtual:
    what = "time left to" if relative else "time of expiry of"
    return Virtual(
        name=name,
        summary=f"Gives the {what} {noun.group} {noun.many}, in {UNITS[unit_ms]}.",
        group=noun.group,
        forms=(f"key {noun.one}", f"key {_long_tail(noun)}"),
        no_form_has=4,
        reply=f"the time, -1 no deadline, -2 no such key or {noun.one}",
        complexity=_complexity(noun, "N", f"N {noun.many} named"),
        since="0.1.0",
        positions=(FIRST_READ,),
        plan=partial(_plan_get, noun, name, b"%d" % unit_ms, b"1" if relative else b"0"),
        example=examples.getter(name, unit_ms, relative),
    )


def _persist(noun: Noun, name: str, examples: _Examples) -> Virtual:
    return Virtual(
        name=name,
        summary=f"Takes the deadline from {noun.group} {noun.many}.",
        group=noun.group,
        forms=(f"key {noun.one}", f"key {_long_tail(noun)}"),
        no_form_has=4,
        reply=f"1 removed, -1 had none, -2 no such key or {noun.one}",
        complexity=_complexity(noun, "N*log(M)", f"N {noun.many} named, M with a deadline"),
        since="0.1.0",
        plan=partial(_plan_persist, noun, name),
        example=examples.persist(name),
    )


def packed(flag: bytes, condition: bytes, time: Time) -> bytes:
    """What the scripts that set deadlines take as `how`: see scripts/lib/words.lua."""
    sign = b"+" if time.base == b"1" else b""
    return flag + condition + sign + time.amount_ms


def refuse(noun: Noun, name: str, key: bytes, text: bytes, time: Time | None) -> Call:
    """The error of a malformed command, after WRONGTYPE and after a time beyond all limits."""
    amount, base = time or NO_TIME
    return Call(f"{noun.type}_refuse", (key,), (name.lower().encode(), amount, base, text))


def _plan_set(noun: Noun, name: str, unit_ms: int, base: bytes, args: Args) -> Call:
    """4 or 5 words are the short form, more the long one."""
    key, time = args[1], None
    try:
        if len(args) <= 5:
            time = grammar.time(args[3], unit_ms, base, name)
            condition = args[4].upper() if len(args) == 5 else b""
            if len(args) == 5 and condition not in grammar.CONDITIONS:
                raise Refused(errors.unsupported_option(args[4]))
            single, found = b"1", args[2:3]
        else:
            time = grammar.time(args[2], unit_ms, base, name)
            condition = args[3].upper() if args[3].upper() in grammar.CONDITIONS else b""
            at, bad = 4 if condition else 3, errors.parameter_too_small(noun.many)
            single, found = b"0", grammar.elements(noun, args, at, bad)
    except Refused as refused:
        return refuse(noun, name, key, refused.text, time)
    argv = (name.lower().encode(), packed(single, condition, time), *found)
    return Call(f"{noun.type}_expire", (key,), argv)


def _named(noun: Noun, args: Args) -> tuple[bytes, Args]:
    """b"1" and the element of the short form, b"0" and those of the long one."""
    if len(args) == 3:
        return b"1", args[2:]
    return b"0", grammar.elements(noun, args, 2, errors.count_not_positive(noun.many))


def _plan_get(noun: Noun, name: str, unit: bytes, base: bytes, args: Args) -> Call:
    try:
        single, found = _named(noun, args)
    except Refused as refused:
        return refuse(noun, name, args[1], refused.text, None)
    return Call(f"{noun.type}_ttl", (args[1],), (unit, base, single, *found))


def _plan_persist(noun: Noun, name: str, args: Args) -> Call:
    try:
        single, found = _named(noun, args)
    except Refused as refused:
        return refuse(noun, name, args[1], refused.text, None)
    return Call(f"{noun.type}_persist", (args[1],), (single, *found))
