"""Commands that every data type has, made once from the noun of the type.

`LongForms` has the nine commands that set, read and remove deadlines, in the form that names many
elements: Redis 8 has them for hash fields, Garnet for sorted-set members. `family` adds our own
short form for one element. The number of words distinguishes the two, so an element may have the
name of a keyword. `planning_timed` is for commands that write elements and set their deadlines in
one step.

Knows how deadlines are set, read and dropped. Knows no data type.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

from ttlproxy import errors
from ttlproxy.commands import calls, parsing
from ttlproxy.commands.calls import repeating
from ttlproxy.commands.options import SHOWN_EXPIRIES, Form, TimedOptions, long_form, short_form
from ttlproxy.commands.parsing import NO_TIME, Counted, Refused, TimeUnit
from ttlproxy.commands.spec import FIRST_READ, Call, Plan, Virtual
from ttlproxy.core.element_types import ElementType

Args = Sequence[bytes]

# The options of all these commands, as `redis-cli help` shows them.
TIMED_OPTIONS = f"[MAXLEN maxlen [EVICT]] [{SHOWN_EXPIRIES}|KEEPTTL]"


def planning_timed(form: Form, script: str) -> Plan:
    """Returns the plan of a command that has a short and a long form."""

    def read(args: Args) -> Call:
        return timed_call(form, script, args[1], short_form(form, args) or long_form(form, args))

    def begin(args: Args) -> int:
        return 3 if args[2].isdigit() else form.noun.elements_at(args)

    return repeating(read, begin)


def timed_call(form: Form, script: str, key: bytes, options: TimedOptions) -> Call:
    """Returns the call of the script that writes what the options say."""
    return calls.set_deadlines(
        script,
        form.command,
        key,
        options.time,
        options.elements,
        condition=options.condition,
        flag=options.keep,
        cap=options.cap,
    )


Line = tuple[str, str]

SETTERS = {
    "EXPIRE": parsing.SECONDS,
    "PEXPIRE": parsing.MILLISECONDS,
    "EXPIREAT": parsing.UNIX_SECONDS,
    "PEXPIREAT": parsing.UNIX_MILLISECONDS,
}
GETTERS = {
    "TTL": parsing.SECONDS,
    "PTTL": parsing.MILLISECONDS,
    "EXPIRETIME": parsing.UNIX_SECONDS,
    "PEXPIRETIME": parsing.UNIX_MILLISECONDS,
}


class Names(NamedTuple):
    """The names of the nine commands of one type."""

    expire: str
    pexpire: str
    expireat: str
    pexpireat: str
    ttl: str
    pttl: str
    expiretime: str
    pexpiretime: str
    persist: str


@dataclass(frozen=True, kw_only=True)
class LongForms:
    """The nine commands of one type, in the words of one server.

    names: theirs
    condition_and_elements: reads the words after a time, from args[3] on
    elements: reads the words after the key of a command without a time, from args[2] on
    checks_key: whether a wrong type of the key, and a time beyond all limits, come before the error
    of a malformed command
    fill: the first line of examples, which makes the key (the prefix in lower case) with the
    elements a and b
    """

    noun: ElementType
    names: Names
    dialect: str = ""
    condition_and_elements: Callable[[Args], tuple[bytes, Args]]
    elements: Callable[[Args], Args]
    checks_key: bool = True
    fill: str

    def rows(self) -> tuple[Virtual, ...]:
        return (
            *(self.setter(word, unit) for word, unit in SETTERS.items()),
            *(self.getter(word, unit) for word, unit in GETTERS.items()),
            self.persist(),
        )

    def setter(self, word: str, unit: TimeUnit) -> Virtual:
        noun, name = self.noun, self.name(word)
        how = "time to live" if unit.relative else "expiry time"
        conditional = f"{example_time(unit)} NX {noun.named('a', 'none')}"
        return Virtual(
            name=name,
            summary=f"Sets the {how} of {noun.group} {noun.many}, {_in(unit)}.",
            group=noun.group,
            dialect=self.dialect,
            forms=(f"key {unit.argument} [NX|XX|GT|LT] {self.tail}",),
            reply=f"for each {noun.one} 1 set, 0 condition not met, 2 deleted because the time is"
            f" past,"
            f" -2 no such key or {noun.one}",
            complexity=self._complexity("N*log(M)", ", M with a deadline"),
            since="0.1.0",
            plan=self._planning_set(name, unit),
            refuses=self.refuses,
            example=(
                self.filled,
                self.line(name, conditional, "1) (integer) 1\n2) (integer) -2"),
                self.line(name, f"0 {noun.named('b')}", "1) (integer) 2"),
            ),
            sets_deadlines=True,
        )

    def getter(self, word: str, unit: TimeUnit) -> Virtual:
        noun, name = self.noun, self.name(word)
        what = "time to live" if unit.relative else "expiry time"
        return Virtual(
            name=name,
            summary=f"Returns the {what} of {noun.group} {noun.many}, {_in(unit)}.",
            group=noun.group,
            dialect=self.dialect,
            forms=(f"key {self.tail}",),
            reply=f"for each {noun.one} the time, -1 no deadline, -2 no such key or {noun.one}",
            complexity=self._complexity("N"),
            since="0.1.0",
            positions=(FIRST_READ,),
            plan=self.plan_named(self.script("ttl"), b"%d" % unit.ms, unit.base, b"0"),
            refuses=self.refuses,
            example=(
                self.filled,
                self.line(name, noun.named("a", "none"), "1) (integer) -1\n2) (integer) -2"),
            ),
        )

    def persist(self) -> Virtual:
        noun, name = self.noun, self.name("PERSIST")
        return Virtual(
            name=name,
            summary=f"Removes the deadline of {noun.group} {noun.many}.",
            group=noun.group,
            dialect=self.dialect,
            forms=(f"key {self.tail}",),
            reply=f"for each {noun.one} 1 removed, -1 had none, -2 no such key or {noun.one}",
            complexity=self._complexity("N*log(M)", ", M with a deadline"),
            since="0.1.0",
            plan=self.plan_named(self.script("persist"), b"0"),
            refuses=self.refuses,
            example=(
                self.filled,
                self.line(self.name("EXPIRE"), f"100 {noun.named('a')}", "1) (integer) 1"),
                self.line(name, noun.named("a", "b"), "1) (integer) 1\n2) (integer) -1"),
            ),
        )

    def plan_named(self, script: str, *words: bytes) -> Plan:
        """Returns the plan of a command without a time; its script gets `words` before the
        elements."""
        return lambda args: Call(script, (args[1],), (*words, *self.elements(args)))

    def script(self, verb: str) -> str:
        """Returns the name of the script that does this to elements of the type."""
        return f"{self.noun.name}_{verb}"

    @property
    def refuses(self) -> str:
        """The script that gives a malformed command its error."""
        return self.script("refuse") if self.checks_key else "refuse"

    def name(self, word: str) -> str:
        """Returns the name of the command that does what `word` does to a whole key."""
        return str(getattr(self.names, word.lower()))

    @property
    def filled(self) -> Line:
        """The first line of an example."""
        return self.fill, "(integer) 2"

    def line(self, name: str, words: str, reply: str) -> Line:
        """Returns a line of an example."""
        return f"{name} {self.noun.prefix.lower()} {words}", reply

    @property
    def tail(self) -> str:
        """The words that name the elements, as `redis-cli help` shows them."""
        noun = self.noun
        return f"{noun.many.upper()} num{noun.many} {noun.one} [{noun.one} ...]"

    def _complexity(self, cost: str, of_deadlines: str = "") -> str:
        meaning = f"N {self.noun.many} named{of_deadlines}"
        if self.noun.walks:
            return f"O(L+{cost}), {meaning}, L the length of the {self.noun.name}"
        return f"O({cost}), {meaning}"

    def _planning_set(self, name: str, unit: TimeUnit) -> Plan:
        script = self.script("expire")

        def read(args: Args) -> Call:
            time = parsing.time(args[2], unit, name)
            try:
                condition, found = self.condition_and_elements(args)
            except Refused as refused:
                raise Refused(refused.text, time if self.checks_key else NO_TIME) from None
            return calls.set_deadlines(script, name, args[1], time, found, condition=condition)

        return repeating(read, self.noun.elements_at)


def _in(unit: TimeUnit) -> str:
    return f"in {unit.name}" if unit.relative else f"as Unix time in {unit.name}"


def example_time(unit: TimeUnit) -> int:
    """Returns a time in the future: 100 seconds from now, or the year 2100."""
    return (100 if unit.relative else 4102444800) * (1000 // unit.ms)


def family(noun: ElementType, names: Names, fill: str) -> tuple[Virtual, ...]:
    """Returns the nine commands of a type; `fill`: see LongForms."""
    behind_time = Counted.of(noun, errors.parameter_too_small(noun.many))
    behind_key = Counted.of(noun, errors.count_not_positive(noun.many))
    long = LongForms(
        noun=noun,
        names=names,
        condition_and_elements=behind_time.condition_and_elements,
        elements=behind_key.elements,
        fill=fill,
    )
    return (
        *(_setter(long, word, unit) for word, unit in SETTERS.items()),
        *(_getter(long, word, unit) for word, unit in GETTERS.items()),
        _persist(long),
    )


def _setter(long: LongForms, word: str, unit: TimeUnit) -> Virtual:
    noun, row = long.noun, long.setter(word, unit)
    number = example_time(unit)
    return replace(
        row,
        forms=(f"key {noun.one} {unit.argument} [NX|XX|GT|LT]", *row.forms),
        reply=_of_one(noun, row),
        plan=partial(_plan_set, long, row, unit),
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


def _getter(long: LongForms, word: str, unit: TimeUnit) -> Virtual:
    noun, row = long.noun, long.getter(word, unit)
    lines = [
        long.filled,
        long.line(long.name("EXPIREAT"), "a 4102444800", "(integer) 1"),
        long.line(row.name, noun.named("b", "none"), "1) (integer) -1\n2) (integer) -2"),
    ]
    if not unit.relative:
        lines.insert(2, long.line(row.name, "a", f"(integer) {example_time(unit)}"))
    argv = (b"%d" % unit.ms, unit.base, b"1")
    return _on_one(noun, replace(row, example=tuple(lines)), long.script("ttl"), argv)


def _persist(long: LongForms) -> Virtual:
    noun, row = long.noun, long.persist()
    example = (
        long.filled,
        long.line(long.name("EXPIRE"), "a 100", "(integer) 1"),
        long.line(row.name, "a", "(integer) 1"),
        long.line(row.name, noun.named("b", "none"), "1) (integer) -1\n2) (integer) -2"),
    )
    return _on_one(noun, replace(row, example=example), long.script("persist"), (b"1",))


def _on_one(noun: ElementType, row: Virtual, script: str, words: Args) -> Virtual:
    """Returns a command without a time, with a short form added: `key field`."""

    def plan(args: Args) -> Call:
        if len(args) == 3:
            return Call(script, (args[1],), (*words, args[2]))
        return row.plan(args)

    return replace(
        row,
        forms=(f"key {noun.one}", *row.forms),
        fits_no_form=lambda args: len(args) == 4,
        reply=_of_one(noun, row),
        plan=plan,
    )


def _of_one(noun: ElementType, row: Virtual) -> str:
    """Returns the text for the reply of the short form, from that of the long one."""
    return row.reply.removeprefix(f"for each {noun.one} ")


def _is_short_with_more(noun: ElementType, args: Args) -> bool:
    """Whether a request is meant as the short form although it has too many words for it."""
    named = noun.keyword in map(bytes.upper, args[3:5])
    has_time = parsing.is_integer(args[3]) and not parsing.is_integer(args[2])
    return has_time and not named


def _plan_set(long: LongForms, row: Virtual, unit: TimeUnit, args: Args) -> Call:
    """Plans 4 or 5 words as the short form, more as the long one."""
    if len(args) > 5 and not _is_short_with_more(long.noun, args):
        return row.plan(args)
    time = parsing.time(args[3], unit, row.name)
    for word in args[4:]:
        if word.upper() not in parsing.CONDITIONS:
            raise Refused(errors.unsupported_option(word), time)
    if len(args) > 5:
        raise Refused(errors.CONDITIONS, time)
    condition, script = b"".join(map(bytes.upper, args[4:])), long.script("expire")
    call = calls.set_deadlines(
        script, row.name, args[1], time, args[2:3], condition=condition, flag=True
    )
    return call._replace(elements_at=2)
