"""The rules of ONEXPIRE: actions on elements at their deadline, as Redis stores them.

Each rule is a key of its database, named after its pattern. The value is a signature and a row of
netstrings: `how`, the destination, the dead-letter destination, then the words that the client
sent. A hash lists the patterns as fields `:pattern`. Its field `version` grows with each change of
a rule.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from ttlproxy.core.glob import Glob
from ttlproxy.core.keys import Keys, slot
from ttlproxy.core.signing import RULE, SIGNATURE_LENGTH, Signer

_MARK = re.compile(rb"%([K1-9])")
VERSION: Final = b"version"
# The most deliveries of an element that a rule with a MAX may allow.
MOST_DELIVERIES: Final = 2**20 - 1
_HOW = re.compile(rb"\S+ \S+ \d+( \S+)*")
# The number of keys whose actions are cached, and the longest name of such a key: 1 MB at most.
_REMEMBERED = 1024
_LONGEST_REMEMBERED = 256
# The actions that a rule can have.
VERBS = frozenset({b"LPUSH", b"RPUSH", b"XADD", b"PUBLISH", b"SPUBLISH", b"KEEP"})
_OUTBOX: Final = b" OUTBOX"
_BY_NAME = frozenset({b"PUBLISH", b"SPUBLISH", b"KEEP", b"?", b"@"})


class Action(NamedTuple):
    """The action on the elements of one key.

    how: the verb, the payload or `-`, the maximum of deliveries or 0, XADD's trimming words, and
      OUTBOX where the destinations may be in other slots of a Cluster than the key
    dest: a key or a channel; rest: the dead-letter destination, for elements delivered too often
    """

    how: bytes
    dest: bytes
    rest: bytes

    @property
    def verb(self) -> bytes:
        return self.how.partition(b" ")[0]

    @property
    def counts(self) -> bool:
        """Whether the deliveries of each element are counted."""
        return self.how.split(b" ")[2] != b"0"

    @property
    def has_outbox(self) -> bool:
        return self.how.endswith(_OUTBOX)

    @property
    def keys(self) -> tuple[bytes, ...]:
        """The destinations that are keys."""
        if self.verb in _BY_NAME:
            return ()
        return (self.dest, self.rest) if self.counts else (self.dest,)


def marks(template: bytes) -> set[bytes]:
    """The placeholders of a destination, without `%`: `K`, or the number of a star."""
    return set(_MARK.findall(template))


def filled(template: bytes, key: bytes, captured: Iterable[bytes]) -> bytes:
    """A destination: `%K` becomes the key, `%1` to `%9` become what the stars matched."""
    values = {b"K": key} | {b"%d" % number: word for number, word in enumerate(captured, 1)}
    return _MARK.sub(lambda mark: values.get(mark[1], mark[0]), template)


def written(action: Action, words: Iterable[bytes]) -> bytes:
    """A rule as a row of netstrings, as Redis stores it behind the signature."""
    return written_row((*action, *words))


def written_row(words: Iterable[bytes]) -> bytes:
    """Words as a row of netstrings."""
    return b"".join(b"%d:%s" % (len(word), word) for word in words)


def listed(fields: Iterable[bytes]) -> tuple[bytes, set[bytes]]:
    """The version and the patterns, from the reply to HGETALL of the hash."""
    words = list(fields)
    found = dict(zip(words[::2], words[1::2], strict=True))
    return found.get(VERSION, b""), {name[1:] for name in found if name.startswith(b":")}


def verified(value: bytes | None, pattern: bytes, signer: Signer) -> bytes | None:
    """The row in the value of a rule's key; None if no proxy signed it."""
    signature, row = (value or b"")[:SIGNATURE_LENGTH], (value or b"")[SIGNATURE_LENGTH:]
    return row if signer.signed(signature, RULE, (pattern, row)) else None


# No script has a handler for these actions: due elements stay, and their key is parked.
_UNREADABLE = Action(b"? - 0", b"", b"")
# The destination is in another slot of a Cluster than the key.
_ELSEWHERE = Action(b"@ - 0", b"", b"")


class Delivery(NamedTuple):
    """An action as the reap script gets it.

    box, rest_box: the outboxes for `dest` and `rest`, where these are in other slots; else empty
    """

    how: bytes
    dest: bytes
    rest: bytes
    box: bytes
    rest_box: bytes

    @property
    def verb(self) -> bytes:
        return self.how.partition(b" ")[0]

    @property
    def has_box(self) -> bool:
        return bool(self.box or self.rest_box)

    @property
    def keys(self) -> list[bytes]:
        """The keys that the script writes to."""
        if self.verb in _BY_NAME:
            return []
        return [name for name in (self.box or self.dest, self.rest_box or self.rest) if name]


NO_DELIVERY: Final = Delivery(b"", b"", b"", b"", b"")


def delivery(action: Action, key: bytes, keys: Keys) -> Delivery:
    """The action as it is carried out for a key."""
    how = action.how.removesuffix(_OUTBOX)
    elsewhere = [to for to in action.keys if keys.clustered and slot(to) != slot(key)]
    if not elsewhere:
        return Delivery(how, action.dest, action.rest, b"", b"")
    if not action.has_outbox:
        return Delivery(*_ELSEWHERE, b"", b"")
    box, rest_box = (
        keys.outbox_to(key, slot(to)) if to in elsewhere else b""
        for to in (action.dest, action.rest)
    )
    return Delivery(how, action.dest, action.rest, box, rest_box)


def action_of(rule: bytes) -> Action:
    """The action of a rule, which may be written by hand or by a newer proxy: then none that a
    script can carry out."""
    try:
        how, dest, rest, *_ = words_of(rule)
    except ValueError:
        return _UNREADABLE
    return Action(how, dest, rest) if _HOW.fullmatch(how) else _UNREADABLE


def words_of(rule: bytes) -> Iterator[bytes]:
    """The words of a row of netstrings. Raises ValueError if it is none."""
    at = 0
    while at < len(rule):
        colon = rule.index(b":", at)
        if not rule[at:colon].isdigit():
            raise ValueError("not a row of netstrings")
        begin, at = colon + 1, colon + 1 + int(rule[at:colon])
        yield rule[begin:at]


class Actions:
    """The rules of one database; `version` is b"" if there are none."""

    def __init__(self, rows: Mapping[bytes, bytes], version: bytes = b"") -> None:
        """`rows`: pattern -> row of netstrings; only signed ones."""
        self.version = version
        rules = {pattern: action_of(row) for pattern, row in rows.items()}
        self.counts = any(action.counts for action in rules.values())
        self._named = rules
        self._patterns = Patterns(rules)
        self._found: dict[bytes, Action | None] = {}  # of keys that were asked about lately

    def __bool__(self) -> bool:
        return bool(self._named)

    def of(self, key: bytes) -> Action | None:
        """The action on the elements of a key; None if they are only deleted.

        A rule whose pattern equals the key's name wins, then the longest pattern.
        """
        if key in self._found:
            return self._found[key]
        action = self._of(key)
        if len(key) <= _LONGEST_REMEMBERED:
            if len(self._found) == _REMEMBERED:
                self._found.clear()
            self._found[key] = action
        return action

    def _of(self, key: bytes) -> Action | None:
        exact = self._named.get(key)
        if exact is not None:
            return _for(exact, key, Glob(key).match(key) or ())
        for pattern, glob in self._patterns.that_may_match(key):
            captured = glob.match(key)
            if captured is not None:
                return _for(self._named[pattern], key, captured)
        return None


class Patterns:
    """Patterns, indexed by the beginning and end of the names that they match.

    So patterns that cannot match a name are not tried, even if there are many.
    """

    def __init__(self, patterns: Iterable[bytes]) -> None:
        # The longest first; patterns of the same length in byte order.
        ordered = sorted(patterns, key=lambda pattern: (-len(pattern), pattern))
        self._ranked = [(pattern, Glob(pattern)) for pattern in ordered]
        self._ranks: dict[tuple[bytes, bytes], list[tuple[int, bytes]]] = {}
        for rank, (pattern, glob) in enumerate(self._ranked):
            if glob.head != pattern:  # else it is a plain name without wildcards
                self._ranks.setdefault((glob.head, glob.tail), []).append((rank, glob.core))
        self._lengths = {(len(head), len(tail)) for head, tail in self._ranks}

    def that_may_match(self, name: bytes) -> Iterator[tuple[bytes, Glob]]:
        """The patterns that may match, in the order of their precedence."""
        length, found = len(name), list[int]()
        for head, tail in self._lengths:
            if head + tail <= length:
                ranks = self._ranks.get((name[:head], name[length - tail :]), ())
                found += [rank for rank, core in ranks if core in name]
        return map(self._ranked.__getitem__, sorted(found))


def _for(action: Action, key: bytes, captured: Iterable[bytes]) -> Action:
    stars = list(captured)
    return Action(action.how, filled(action.dest, key, stars), filled(action.rest, key, stars))
