"""What to do with each command: our tables over those of the server behind."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from ttlproxy.commands import (
    dialects,
    hashes,
    introspection,
    keyspace,
    lists,
    sets,
    sorted_sets,
    surveys,
)
from ttlproxy.commands.catalogue import Catalogue
from ttlproxy.commands.native import Native
from ttlproxy.commands.overrides import replacing
from ttlproxy.commands.positions import FILLED, FIRST, REPLACED, WRITTEN, Positions
from ttlproxy.commands.spec import Override, Survey, Virtual

_TABLES: Final = (hashes, sets, sorted_sets, lists)
VIRTUALS: Final = {
    row.name: row for table in (*_TABLES, introspection, dialects) for row in table.VIRTUALS
}
LONGER: Final = {row.name: row for row in dialects.LONGER}
OVERRIDES: Final = {row.name: row for table in (*_TABLES, keyspace) for row in table.OVERRIDES}
SURVEYS: Final = {row.name: row for row in (*surveys.SURVEYS, *introspection.SURVEYS)}

HARMLESS: Final = frozenset(hashes.HARMLESS)

# Where a command's keys stand.
NO_KEY: Final = 0
ONE_KEY: Final = 1  # its first argument
ANY_KEY: Final = 2  # anywhere: each argument may be one

# Commands that change what later requests mean: see Session.
STATEFUL: Final = frozenset(
    [
        "MULTI",
        "EXEC",
        "DISCARD",
        "SELECT",
        "SWAPDB",
        "WATCH",
        "RESET",
        "CLIENT",
        "CONFIG",
        "SCRIPT",
        "QUIT",
        "PSYNC",
        "SYNC",
        "AUTH",
        "HELLO",
    ]
)
# Redis tells since 7.0 which commands block. WAIT and WAITAOF hold up what stands behind as well.
BLOCKING: Final = frozenset(
    [
        "BLPOP",
        "BRPOP",
        "BRPOPLPUSH",
        "BLMOVE",
        "BLMPOP",
        "BZPOPMIN",
        "BZPOPMAX",
        "BZMPOP",
        "XREAD",
        "XREADGROUP",
        "WAIT",
        "WAITAOF",
    ]
)


@dataclass(frozen=True, slots=True)
class Rule:
    """All there is to know of a command when a request of it comes.

    positions: of its keys, `subcommands` those of its subcommands; sweeps: where it goes on as it
    came, it may leave index entries whose element is gone; override: also the virtual command's
    call where the server has a command of that name itself; survey: of a server's command only;
    longer: the virtual command that it is with more words than the server takes.
    """

    name: str
    positions: Positions = None
    subcommands: Mapping[bytes, Positions] = field(default_factory=dict)
    arity: int = -1
    sweeps: bool = True
    blocks: bool = False
    stateful: bool = False
    virtual: Virtual | None = None
    override: Override | None = None
    survey: Survey | None = None
    longer: Virtual | None = None

    def fits(self, words: int) -> bool:
        """Whether Redis takes so many words, the name counted."""
        return words == self.arity if self.arity >= 0 else words >= -self.arity

    @property
    def is_indifferent(self) -> bool:
        """Whether a request has nothing to do with keys, nor changes what later ones mean."""
        looks = self.survey is not None and self.survey.of_keys
        acts = self.virtual or self.override or self.longer or self.stateful or self.blocks
        return self.key_kind == NO_KEY and not (looks or acts)

    @property
    def key_kind(self) -> int:
        """How closely a request has to be looked at for its keys: NO_KEY, ONE_KEY or ANY_KEY."""
        positions = self.positions
        if positions is None or any(each != () for each in self.subcommands.values()):
            return ANY_KEY
        if not positions:
            return NO_KEY
        is_first = len(positions) == 1 and replace(positions[0], access=FIRST.access) == FIRST
        return ONE_KEY if is_first else ANY_KEY

    def keys(self, args: Sequence[bytes]) -> Sequence[bytes]:
        """The words of a request that are keys; all that may be, where it cannot be told."""
        return args[1:] if self._positions(args) is None else self.certain_keys(args)

    def certain_keys(self, args: Sequence[bytes]) -> Sequence[bytes]:
        """The words of a request that are keys; none, where it cannot be told."""
        return [key for spec in self._positions(args) or () for key in spec.words(args)]

    def written(self, args: Sequence[bytes]) -> Sequence[bytes]:
        """Those of its keys that it may change in a way that no script of ours follows."""
        positions = self._positions(args) if self.sweeps else ()
        if positions is None:
            return args[1:]
        return [key for spec in positions if spec.access in WRITTEN for key in spec.words(args)]

    def filled(self, args: Sequence[bytes]) -> Sequence[bytes]:
        """Those of its keys that it may put elements into."""
        positions = self._positions(args) or ()
        return [key for spec in positions if spec.access == FILLED for key in spec.words(args)]

    def _positions(self, args: Sequence[bytes]) -> Positions:
        if self.subcommands and len(args) > 1:
            return self.subcommands.get(args[1].upper(), self.positions)
        return self.positions


# What a command is that neither the tables nor the server know, such as one of a module.
UNKNOWN: Final = Rule(name="")


class Rules:
    """The rules for the commands of one server.

    plain: for the commands that need nothing but a look at their keys, the kind of those; names in
    upper and in lower case, which is how clients send them.
    """

    __slots__ = ("_rules", "plain")

    def __init__(self, natives: Iterable[Native] = ()) -> None:
        self._rules: dict[bytes, Rule] = {}
        self.plain: dict[bytes, int] = {}
        table: Mapping[str, Native] = {native.name: native for native in natives}
        catalogue = Catalogue(row for name, row in VIRTUALS.items() if name not in table)
        all_surveys = {**SURVEYS, "COMMAND": catalogue.survey}
        for name in {*table, *VIRTUALS, *LONGER, *OVERRIDES, *STATEFUL, *BLOCKING}:
            survey = all_surveys.get(name) if name in table else None
            self._add(_rule(name, table.get(name), survey))

    def find(self, word: bytes) -> Rule:
        """The rule for a command's name, in any case."""
        return self._rules.get(word) or self._rules.get(word.upper(), UNKNOWN)

    def _add(self, rule: Rule) -> None:
        for name in (rule.name.encode(), rule.name.lower().encode()):
            self._rules[name] = rule
            always = rule.override is not None and rule.override.always is not None
            ours = rule.virtual or rule.longer or always
            if not (ours or rule.stateful or rule.blocks or rule.survey):
                self.plain[name] = rule.key_kind


def _rule(name: str, native: Native | None, survey: Survey | None) -> Rule:
    override = OVERRIDES.get(name)
    virtual = VIRTUALS.get(name)
    if virtual and native:
        override, virtual = _overriding(virtual), None
    if native is None:
        return Rule(
            name,
            positions=virtual.positions if virtual else None,
            stateful=name in STATEFUL,
            blocks=name in BLOCKING,
            virtual=virtual,
            override=override,
            longer=LONGER.get(name),
        )
    return Rule(
        name,
        positions=native.positions,
        subcommands={word: each.positions for word, each in native.subcommands.items()},
        arity=native.arity,
        sweeps=name not in HARMLESS and "readonly" not in native.flags,
        blocks=name in BLOCKING or "blocking" in native.flags,
        stateful=name in STATEFUL,
        override=override or _replacing(native),
        survey=survey,
        longer=LONGER.get(name) if native.arity > 0 else None,
    )


def _replacing(native: Native) -> Override | None:
    """The safe rule for what the tables do not know: keys it may replace lose their index then."""
    positions = native.positions or ()
    if "noscript" not in native.flags and any(spec.access == REPLACED for spec in positions):
        return replacing(native.name, positions)
    return None


def _overriding(virtual: Virtual) -> Override:
    """On managed keys alone, and what is only ours, where the server has the command itself."""

    def first(args: Sequence[bytes]) -> Sequence[bytes]:
        return args[1:2]

    targets = first if virtual.sets_deadlines else lambda args: ()
    return Override(
        name=virtual.name,
        plan=virtual.plan,
        keys=first,
        targets=targets,
        always=virtual.only_ours,
    )
