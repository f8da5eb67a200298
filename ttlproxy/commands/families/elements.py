"""Our own nine commands for each type: the long forms, and a short form for one element.

The number of words tells the two apart, so an element may have the name of a keyword.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from ttlproxy import errors
from ttlproxy.commands.families.long_forms import GETTERS, SETTERS, LongForms, example_time
from ttlproxy.commands.grammar import parsing
from ttlproxy.commands.grammar.parsing import NO_TIME, Counted, Noun, Refused, Unit
from ttlproxy.commands.model import calls
from ttlproxy.commands.model.spec import Call, Virtual

Args = Sequence[bytes]


def family(noun: Noun, fill: str) -> tuple[Virtual, ...]:
    """The nine commands of a type; `fill`: see LongForms."""
    behind_time = Counted.of(noun, errors.parameter_too_small(noun.many))
    behind_key = Counted.of(noun, errors.count_not_positive(noun.many))
    long = LongForms(
        noun=noun,
        suffix=noun.one.upper(),
        condition_and_elements=behind_time.condition_and_elements,
        elements=behind_key.elements,
        refuse=partial(calls.typed_refusal, noun),
        fill=fill,
    )
    return (
        *(_setter(long, word, unit) for word, unit in SETTERS.items()),
        *(_getter(long, word, unit) for word, unit in GETTERS.items()),
        _persist(long),
    )


def _setter(long: LongForms, word: str, unit: Unit) -> Virtual:
    noun, row = long.noun, long.setter(word, unit)
    number = example_time(unit)
    return replace(
        row,
        forms=(f"key {noun.one} {unit.argument} [NX|XX|GT|LT]", *row.forms),
        reply=_of_one(noun, row),
        plan=partial(_plan_set, noun, row, unit),
        example=(
            long.filled,
            long.line(row.name, f"a {number}", "(integer) 1"),
            long.line(
                row.name,
                f"{number} NX {noun.named('a', 'b', 'none')}",
                "1) (integer) 0\n2) (integer) 1\n3) (integer) -2",
            ),
        ),
    )


def _getter(long: LongForms, word: str, unit: Unit) -> Virtual:
    noun, row = long.noun, long.getter(word, unit)
    lines = [
        long.filled,
        long.line(long.name("EXPIREAT"), "a 4102444800", "(integer) 1"),
        long.line(row.name, noun.named("b", "none"), "1) (integer) -1\n2) (integer) -2"),
    ]
    if not unit.relative:
        lines.insert(2, long.line(row.name, "a", f"(integer) {example_time(unit)}"))
    argv = (b"%d" % unit.ms, unit.base, b"1")
    return _on_one(noun, replace(row, example=tuple(lines)), f"{noun.type}_ttl", argv)


def _persist(long: LongForms) -> Virtual:
    noun, row = long.noun, long.persist()
    example = (
        long.filled,
        long.line(long.name("EXPIRE"), "a 100", "(integer) 1"),
        long.line(row.name, "a", "(integer) 1"),
        long.line(row.name, noun.named("b", "none"), "1) (integer) -1\n2) (integer) -2"),
    )
    return _on_one(noun, replace(row, example=example), f"{noun.type}_persist", (b"1",))


def _on_one(noun: Noun, row: Virtual, script: str, words: Args) -> Virtual:
    """A command without a time, with a short form added: `key field`."""

    def plan(args: Args) -> Call:
        if len(args) == 3:
            return Call(script, (args[1],), (*words, args[2]))
        return row.plan(args)

    return replace(
        row,
        forms=(f"key {noun.one}", *row.forms),
        is_of_no_form=lambda args: len(args) == 4,
        reply=_of_one(noun, row),
        plan=plan,
    )


def _of_one(noun: Noun, row: Virtual) -> str:
    """The text for the reply of the short form, from that of the long one."""
    return row.reply.removeprefix(f"for each {noun.one} ")


def _is_short_with_more(noun: Noun, args: Args) -> bool:
    """Whether a request is meant as the short form although it has too many words for it."""
    named = noun.keyword in map(bytes.upper, args[3:5])
    has_time = parsing.is_integer(args[3]) and not parsing.is_integer(args[2])
    return has_time and not named


def _plan_set(noun: Noun, row: Virtual, unit: Unit, args: Args) -> Call:
    """4 or 5 words are the short form, more are the long one."""
    if len(args) > 5 and not _is_short_with_more(noun, args):
        return row.plan(args)
    name, key, time = row.name, args[1], NO_TIME
    try:
        time = parsing.time(args[3], unit, name)
        condition = b"".join(map(bytes.upper, args[4:5]))
        for word in args[4:]:
            if word.upper() not in parsing.CONDITIONS:
                raise Refused(errors.unsupported_option(word))
        if len(args) > 5:
            raise Refused(errors.CONDITIONS)
    except Refused as refused:
        return calls.typed_refusal(noun, name, key, refused.text, time)
    script = f"{noun.type}_expire"
    return calls.set_deadlines(script, name, key, time, args[2:3], condition=condition, flag=True)
