"""The nine commands that set, read and remove deadlines, in the form that names many elements.

Redis 8 has them for hash fields, Garnet for sorted-set members; `elements` adds our own short form.
Knows the commands' words, and the three scripts of each type that carry them out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from ttlproxy.commands.grammar import parsing
from ttlproxy.commands.grammar.parsing import NO_TIME, Noun, Refused, Time, Unit
from ttlproxy.commands.model import calls
from ttlproxy.commands.model.key_positions import FIRST_READ
from ttlproxy.commands.model.repeats import repeating
from ttlproxy.commands.model.spec import Call, Plan, Virtual

Args = Sequence[bytes]
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


@dataclass(frozen=True, kw_only=True)
class LongForms:
    """The nine of one type in the words of one server.

    suffix: the end of their names; condition_and_elements: reads the words behind a time, from
    args[3] on; elements: reads the words behind the key of a command without a time, from args[2]
    on; refuse: the call for a malformed command, from its name, its key, the error and the time
    before the mistake; fill: the first line of examples, which makes the key (the prefix in lower
    case) with the elements a and b.
    """

    noun: Noun
    suffix: str = ""
    dialect: str = ""
    condition_and_elements: Callable[[Args], tuple[bytes, Args]]
    elements: Callable[[Args], Args]
    refuse: Callable[[str, bytes, bytes, Time], Call]
    fill: str

    def rows(self) -> tuple[Virtual, ...]:
        return (
            *(self.setter(word, unit) for word, unit in SETTERS.items()),
            *(self.getter(word, unit) for word, unit in GETTERS.items()),
            self.persist(),
        )

    def setter(self, word: str, unit: Unit) -> Virtual:
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
            example=(
                self.filled,
                self.line(name, conditional, "1) (integer) 1\n2) (integer) -2"),
                self.line(name, f"0 {noun.named('b')}", "1) (integer) 2"),
            ),
            sets_deadlines=True,
        )

    def getter(self, word: str, unit: Unit) -> Virtual:
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
            plan=self.plan_named(name, "ttl", b"%d" % unit.ms, unit.base, b"0"),
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
            plan=self.plan_named(name, "persist", b"0"),
            example=(
                self.filled,
                self.line(self.name("EXPIRE"), f"100 {noun.named('a')}", "1) (integer) 1"),
                self.line(name, noun.named("a", "b"), "1) (integer) 1\n2) (integer) -1"),
            ),
        )

    def plan_named(self, name: str, verb: str, *words: bytes) -> Plan:
        """The plan of a command without a time; its script gets `words` before the elements."""
        return partial(self._plan_named, name, f"{self.noun.type}_{verb}", words)

    def name(self, word: str) -> str:
        """The command's name."""
        return f"{self.noun.prefix}{word}{self.suffix}"

    @property
    def filled(self) -> Line:
        """The first line of an example."""
        return self.fill, "(integer) 2"

    def line(self, name: str, words: str, reply: str) -> Line:
        """A line of an example."""
        return f"{name} {self.noun.prefix.lower()} {words}", reply

    @property
    def tail(self) -> str:
        """How the elements are named, as `redis-cli help` shows it."""
        noun = self.noun
        return f"{noun.many.upper()} num{noun.many} {noun.one} [{noun.one} ...]"

    def _complexity(self, cost: str, of_deadlines: str = "") -> str:
        meaning = f"N {self.noun.many} named{of_deadlines}"
        if self.noun.walks:
            return f"O(L+{cost}), {meaning}, L the length of the {self.noun.type}"
        return f"O({cost}), {meaning}"

    def _planning_set(self, name: str, unit: Unit) -> Plan:
        script = f"{self.noun.type}_expire"

        def read(args: Args) -> Call:
            time = parsing.time(args[2], unit, name)
            try:
                condition, found = self.condition_and_elements(args)
            except Refused as refused:
                raise Refused(refused.text, time) from None
            return calls.set_deadlines(script, name, args[1], time, found, condition=condition)

        return calls.refusing(
            repeating(read, self.noun.elements_at),
            lambda args, refused: self.refuse(name, args[1], refused.text, refused.time),
        )

    def _plan_named(self, name: str, script: str, words: Args, args: Args) -> Call:
        try:
            found = self.elements(args)
        except Refused as refused:
            return self.refuse(name, args[1], refused.text, NO_TIME)
        return Call(script, (args[1],), (*words, *found))


def _in(unit: Unit) -> str:
    return f"in {unit.name}" if unit.relative else f"as Unix time in {unit.name}"


def example_time(unit: Unit) -> int:
    """A time in the future: 100 seconds from now, or the year 2100."""
    return (100 if unit.relative else 4102444800) * (1000 // unit.ms)
