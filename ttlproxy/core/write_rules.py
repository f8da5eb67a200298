"""The rules of ONWRITE: deadlines of elements that native commands write, as Redis stores them.

They stand beside the rules of ONEXPIRE (core/expiry_actions.py), and are signed, listed and
announced like these. The name of such a rule is its pattern behind a mark and the type. In the row
the first word says that it is one, the second has its numbers; then come the words that ONWRITE
shows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from ttlproxy.core.element_types import TYPES
from ttlproxy.core.expiry_actions import Patterns, words_of, written_row
from ttlproxy.core.families import Words
from ttlproxy.core.glob import Glob

MARK: Final = b"\1write:"
# One letter stands for a type, or for none, in the name of a rule, so that ACL patterns fit.
_LETTERS: Final = {b"": b"-", **{name: type_.letter.encode() for name, type_ in TYPES.items()}}
_OF_LETTERS: Final = {letter: type_ for type_, letter in _LETTERS.items()}
HOW: Final = b"ONWRITE - 0"
# A rule as a script gets it, where elements keep what they have, and nothing else is said.
NOTHING_BUT_KEEPS: Final = b"1K"
# The number of keys that are remembered, and the longest name of such a key: 4 MB at most.
_REMEMBERED: Final = 16_384
_LONGEST_REMEMBERED: Final = 256


class WriteRule(NamedTuple):
    """The deadlines and limits that a rule gives to elements.

    ttl_ms: the time to live, 0 for none; jitter: up to so many percent more, at random
    refreshes: elements that are there and only added or altered again get the deadline anew
    cap: how many live elements a key may have, 0 without limit; evicts: others make room
    keeps_all: elements that are there keep what they have, also those that are overwritten
    """

    ttl_ms: int
    jitter: int = 0
    refreshes: bool = False
    cap: int = 0
    evicts: bool = False
    keeps_all: bool = False

    def how(self, keeps: bool) -> bytes:
        """The rule for a script (lib/rule.lua). `keeps`: elements that are there keep theirs."""
        flag = no_rule(keeps and not self.refreshes)
        if self.keeps_all:
            flag = NOTHING_BUT_KEEPS
        time = b"+%d" % self.ttl_ms if self.ttl_ms else b""
        cap = b"/%d%b" % (self.cap, b"E" if self.evicts else b"") if self.cap else b""
        return b"%b%b%b%b" % (flag, time, cap, b"#%d" % self.jitter if self.jitter else b"")

    def row(self, words: Sequence[bytes]) -> bytes:
        """The rule as Redis stores it behind the signature; `words`: as ONWRITE shows it. The last
        number is there only if it matters, so that older proxies can read other rules."""
        numbers = self if self.keeps_all else self[:-1]
        return written_row((HOW, b" ".join(b"%d" % number for number in numbers), b"", *words))


def no_rule(keeps: bool) -> bytes:
    """The value in place of `WriteRule.how` for a key without a rule."""
    return b"%d" % keeps


def name_of(pattern: bytes, type_: bytes = b"") -> bytes:
    """The name of a rule; `type_` is empty if it is for all types."""
    return MARK + _LETTERS[type_] + b":" + pattern


def parted(name: bytes) -> tuple[bytes, bytes] | None:
    """(type, pattern) of a rule's name; None if it is no rule of ONWRITE. A newer proxy may know
    other types."""
    if not name.startswith(MARK):
        return None
    letter, colon, pattern = name[len(MARK) :].partition(b":")
    return (_OF_LETTERS.get(letter, letter), pattern) if colon else None


def rule_of(row: bytes) -> WriteRule | None:
    """The rule in a row; None if it cannot be read, as one of a newer proxy."""
    try:
        how, numbers, *_ = words_of(row)
        ttl_ms, jitter, refreshes, cap, evicts, *rest = map(int, numbers.split())
    except ValueError:
        return None
    rule = WriteRule(ttl_ms, jitter, bool(refreshes), cap, bool(evicts), rest == [1])
    return rule if how == HOW and rest in ([], [1]) else None


class _OfType:
    """The rules for keys of one type, in one database."""

    def __init__(self, rules: Mapping[bytes, WriteRule]) -> None:
        self._named = rules
        self._patterns = Patterns(rules)
        self.literal_prefixes = {Glob(pattern).head for pattern in rules}

    def pattern_of(self, key: bytes) -> bytes | None:
        """A rule whose pattern equals the key's name wins, then the longest pattern."""
        if key in self._named:
            return key
        for pattern, glob in self._patterns.that_may_match(key):
            if glob.match(key) is not None:
                return pattern
        return None

    def of(self, key: bytes) -> WriteRule | None:
        pattern = self.pattern_of(key)
        return None if pattern is None else self._named[pattern]


class WriteRules:
    """The rules of one database."""

    def __init__(self, rows: Mapping[bytes, bytes]) -> None:
        """`rows`: name -> row of netstrings; only signed ones. Rows of ONEXPIRE are ignored."""
        found: dict[bytes, dict[bytes, WriteRule]] = {type_: {} for type_ in (b"", *TYPES)}
        for name, row in rows.items():
            parts, rule = parted(name), rule_of(row)
            if parts and rule and parts[0] in found:
                found[parts[0]][parts[1]] = rule
        # A rule with a type comes before one with the same pattern and no type.
        self._of_types = {type_: _OfType({**found[b""], **found[type_]}) for type_ in TYPES}
        self._of_any = _OfType(
            {each: rule for rules in found.values() for each, rule in rules.items()}
        )

    def __bool__(self) -> bool:
        return bool(self.literal_prefixes)

    @property
    def literal_prefixes(self) -> set[bytes]:
        """The beginnings of names that may match."""
        return self._of_any.literal_prefixes

    def matches(self, key: bytes) -> bool:
        """Whether a rule for any type is for a key."""
        return self._of_any.of(key) is not None

    def of(self, key: bytes, type_: bytes) -> WriteRule | None:
        """The rule for a key of this type."""
        return self._of_types[type_].of(key)

    def pattern_of(self, key: bytes, type_: bytes) -> bytes | None:
        """The pattern of that rule."""
        return self._of_types[type_].pattern_of(key)


_NONE: Final = WriteRules({})
# Whether names that a rule may match begin with a byte: no byte, or any. A tuple is asked in a
# third of the time of a set.
NO_BYTE: Final[tuple[bool, ...]] = (False,) * 256
ANY_BYTE: Final[tuple[bool, ...]] = (True,) * 256


class RuleBook:
    """The rules of all databases, as sessions ask for them.

    in_doubt: databases whose rules may have changed; until they are read, no key may be looked at
    first_bytes: of each byte, whether names begin with it that may match, or are of a known family
    literal_prefixes: how they begin, in more bytes; (b"",) if in any way
    own_prefixes: the same without families, as far as rules are known
    """

    def __init__(self) -> None:
        self._families: tuple[bytes, ...] = ()
        self.in_doubt: set[int] = set()
        self._rules: dict[int, WriteRules] = {}
        # The rules, by database and type, for keys that were asked about lately.
        self._found: dict[tuple[bytes, bytes, tuple[int, ...]], tuple[WriteRule | None, ...]] = {}
        self._matched: dict[bytes, bool] = {}
        self.own_prefixes: tuple[bytes, ...] = ()
        self.literal_prefixes: tuple[bytes, ...] = ()
        self.first_bytes = NO_BYTE

    def __bool__(self) -> bool:
        """Whether there may be a rule."""
        return bool(self._rules or self.in_doubt)

    @property
    def has_rules(self) -> bool:
        """Whether a database has a rule, as far as is known."""
        return bool(self._rules)

    def doubt(self, databases: Iterable[int]) -> None:
        self.in_doubt.update(databases)
        self._begin()

    def replace(self, db: int, rules: WriteRules) -> bool:
        """Replaces the rules of a database; returns whether they differ from those before."""
        self._found.clear()
        self._matched.clear()
        is_new = db in self.in_doubt or bool(rules) != (db in self._rules)
        self.in_doubt.discard(db)
        if rules:
            self._rules[db] = rules
        else:
            self._rules.pop(db, None)
        prefixes = (each.literal_prefixes for each in self._rules.values())
        self.own_prefixes = tuple(set[bytes]().union(*prefixes))
        self._begin()
        return is_new

    def cover(self, families: tuple[bytes, ...]) -> None:
        """Names that begin so are of interest too: keys there may have deadlines."""
        self._families = families
        self._begin()

    def _begin(self) -> None:
        """Sets how the names begin that are of interest."""
        prefixes = self.own_prefixes + self._families
        if self.in_doubt or b"" in prefixes:
            self.first_bytes, self.literal_prefixes = ANY_BYTE, (b"",)
        else:
            self.literal_prefixes = prefixes
            first = {head[0] for head in self.literal_prefixes}
            self.first_bytes = tuple(byte in first for byte in range(256)) if first else NO_BYTE

    def matches(self, key: bytes) -> bool:
        """Whether a rule of any database may be for a key."""
        found = self._matched.get(key)
        if found is None:
            # Nearly always, at a tenth of the cost. A word that is no bulk string is no key.
            if key.__class__ is not bytes or not key.startswith(self.own_prefixes):
                return False
            found = any(rules.matches(key) for rules in self._rules.values())
            if len(key) <= _LONGEST_REMEMBERED:
                if len(self._matched) >= _REMEMBERED:
                    self._matched.clear()
                self._matched[key] = found
        return found

    def matches_in(self, db: int, key: bytes) -> bool:
        """Whether a rule of this database may be for a key."""
        return db in self.in_doubt or self._rules.get(db, _NONE).matches(key)

    def how(
        self, databases: tuple[int, ...], key: bytes, type_: bytes, keeps: bool
    ) -> bytes | None:
        """The rule for a key of a client that may be in these databases, for a script; None if
        none of them has one."""
        rules = self._of(databases, key, type_)
        if not any(rules):
            return None
        hows = [rule.how(keeps) if rule else no_rule(keeps) for rule in rules]
        if len(set(hows)) == 1:
            return hows[0]
        return b";".join(b"%d=%b" % each for each in zip(databases, hows, strict=True))

    def _of(
        self, databases: tuple[int, ...], key: bytes, type_: bytes
    ) -> tuple[WriteRule | None, ...]:
        found = self._found.get((key, type_, databases))
        if found is None:
            found = tuple(self._rules.get(db, _NONE).of(key, type_) for db in databases)
            if len(key) <= _LONGEST_REMEMBERED:
                if len(self._found) >= _REMEMBERED:
                    self._found.clear()
                self._found[key, type_, databases] = found
        return found


class RuledNames:
    """Managed keys, and those that a rule of ONWRITE matches, which count as managed: nothing is
    due there. While rules are in doubt, each word counts as a key with something due."""

    __slots__ = ("_bounds", "_other", "_rules")

    def __init__(self, bounds: Mapping[bytes, int], rules: RuleBook, nothing_due: int) -> None:
        self._bounds = bounds
        self._rules = rules
        self._other = nothing_due

    def __bool__(self) -> bool:
        return True

    @property
    def managed(self) -> Mapping[bytes, int]:
        """The managed keys alone."""
        return self._bounds

    def __contains__(self, key: bytes) -> bool:
        rules = self._rules
        return key in self._bounds or bool(rules.in_doubt) or rules.matches(key)

    def __getitem__(self, key: bytes) -> int:
        if self._rules.in_doubt:
            return 0
        bound = self._bounds.get(key)
        if bound is not None:
            return bound
        if self._rules.matches(key):
            return self._other
        raise KeyError(key)

    def get(self, key: bytes, default: int) -> int:
        bound = self._bounds.get(key)
        if bound is not None:
            return bound
        return self._other if self._rules.matches(key) else default

    def keys(self) -> Words:
        return Words(self)
