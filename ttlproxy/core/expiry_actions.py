"""What becomes of elements at their deadline: the rules of ONEXPIRE, as they stand in Redis.

Each stands in a key of its database that is named for its pattern: a signature, and behind it a row
of netstrings: how it is done, the destination, that of what has been handed on too often, then the
words as the client gave them. A hash lists the patterns, as fields `:pattern`; another field of it,
`version`, changes with each rule, and only ever grows.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from ttlproxy.core.glob import Glob
from ttlproxy.core.signing import SIGNATURE_LENGTH, Signer

_MARK = re.compile(rb"%([K1-9])")
_VERSION = b"version"
_HOW = re.compile(rb"\S+ \S+ \d+( \S+)*")
# Keys whose action is remembered, at most, and the longest name of such a key: 1 MB at the worst.
_REMEMBERED = 1024
_LONGEST_REMEMBERED = 256
# What can be done with elements.
VERBS = frozenset({b"LPUSH", b"RPUSH", b"XADD", b"PUBLISH", b"SPUBLISH", b"KEEP"})
_BY_NAME = frozenset({b"PUBLISH", b"SPUBLISH", b"KEEP", b"?"})


class Action(NamedTuple):
    """What is done with elements of one key.

    how: the verb, the payload or `-`, how often at most or 0, and the words of XADD's trimming
    dest: a key, or a channel; rest: the same, for what has been handed on too often
    """

    how: bytes
    dest: bytes
    rest: bytes

    @property
    def verb(self) -> bytes:
        return self.how.partition(b" ")[0]

    @property
    def counts(self) -> bool:
        """Whether it is counted how often an element is handed on."""
        return self.how.split(b" ")[2] != b"0"

    @property
    def keys(self) -> tuple[bytes, ...]:
        """The destinations that are keys."""
        if self.verb in _BY_NAME:
            return ()
        return (self.dest, self.rest) if self.counts else (self.dest,)


def marks(template: bytes) -> set[bytes]:
    """What stands behind each `%` that will be replaced: `K`, or the number of a star."""
    return set(_MARK.findall(template))


def filled(template: bytes, key: bytes, captured: Iterable[bytes]) -> bytes:
    """A destination with `%K` replaced by the key and `%1` to `%9` by what the stars matched."""
    values = {b"K": key} | {b"%d" % number: word for number, word in enumerate(captured, 1)}
    return _MARK.sub(lambda mark: values.get(mark[1], mark[0]), template)


def written(action: Action, words: Iterable[bytes]) -> bytes:
    """A rule as it stands in Redis."""
    return b"".join(b"%d:%s" % (len(word), word) for word in (*action, *words))


def listed(fields: Iterable[bytes]) -> tuple[bytes, set[bytes]]:
    """The version and the patterns that HGETALL tells of the hash."""
    words = list(fields)
    found = dict(zip(words[::2], words[1::2], strict=True))
    return found.get(_VERSION, b""), {name[1:] for name in found if name.startswith(b":")}


def verified(value: bytes | None, pattern: bytes, signer: Signer) -> bytes | None:
    """The row that stands in the key of a rule; None where no proxy has signed it."""
    signature, row = (value or b"")[:SIGNATURE_LENGTH], (value or b"")[SIGNATURE_LENGTH:]
    return row if signer.signed(signature, b"rule", (pattern, row)) else None


# For this no script has a handler: what is due stays, and its key is parked.
_UNREADABLE = Action(b"? - 0", b"", b"")


def _action(rule: bytes) -> Action:
    """What a rule says, also one that was written by hand, or by a newer proxy."""
    try:
        how, dest, rest, *_ = _words(rule)
    except ValueError:
        return _UNREADABLE
    return Action(how, dest, rest) if _HOW.fullmatch(how) else _UNREADABLE


def _words(rule: bytes) -> Iterator[bytes]:
    at = 0
    while at < len(rule):
        colon = rule.index(b":", at)
        if not rule[at:colon].isdigit():
            raise ValueError("not a row of netstrings")
        begin, at = colon + 1, colon + 1 + int(rule[at:colon])
        yield rule[begin:at]


class Actions:
    """The rules of one database; `version` is b"" where there are none."""

    def __init__(self, rows: Mapping[bytes, bytes], version: bytes = b"") -> None:
        """`rows`: of netstrings, by pattern, signed ones only."""
        self.version = version
        rules = {pattern: _action(row) for pattern, row in rows.items()}
        self.counts = any(action.counts for action in rules.values())
        self._named = rules
        self._patterns = _Patterns(rules)
        self._found: dict[bytes, Action | None] = {}  # of keys that were asked about lately

    def __bool__(self) -> bool:
        return bool(self._named)

    def of(self, key: bytes) -> Action | None:
        """What is done with the elements of a key, None where they are deleted and no more.

        A rule whose pattern is the key's very name wins, then the longest pattern.
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


class _Patterns:
    """Patterns by what the names that they match begin and end with.

    So those that cannot match a name need not be asked, however many there are.
    """

    def __init__(self, patterns: Iterable[bytes]) -> None:
        # The longest first, and of the same length in the order of their bytes.
        ordered = sorted(patterns, key=lambda pattern: (-len(pattern), pattern))
        self._ranked = [(pattern, Glob(pattern)) for pattern in ordered]
        self._ranks: dict[tuple[bytes, bytes], list[tuple[int, bytes]]] = {}
        for rank, (pattern, glob) in enumerate(self._ranked):
            if glob.head != pattern:  # else it is one name, and no pattern
                self._ranks.setdefault((glob.head, glob.tail), []).append((rank, glob.core))
        self._lengths = {(len(head), len(tail)) for head, tail in self._ranks}

    def that_may_match(self, name: bytes) -> Iterator[tuple[bytes, Glob]]:
        """Those worth asking, the one that counts most first."""
        length, found = len(name), list[int]()
        for head, tail in self._lengths:
            if head + tail <= length:
                ranks = self._ranks.get((name[:head], name[length - tail :]), ())
                found += [rank for rank, core in ranks if core in name]
        return map(self._ranked.__getitem__, sorted(found))


def _for(action: Action, key: bytes, captured: Iterable[bytes]) -> Action:
    stars = list(captured)
    return Action(action.how, filled(action.dest, key, stars), filled(action.rest, key, stars))
