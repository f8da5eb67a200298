"""Families of keys: all keys whose names begin alike. Only keys of a family that all proxies know
may have deadlines, so a write elsewhere goes to Redis as it came (decisions/0036).

A family is a beginning of names, such as `user:` for `user:42:cart`, in any database. It is known
for as long as the process lives: one too many only makes writes dearer. Knows no socket.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Final, Protocol
from weakref import WeakSet

# A word is what stands between these.
_DELIMITERS: Final = rb":./_|{}#,;@ -"
_WORD_WITH_DIGIT: Final = re.compile(rb"[^%b]*?[0-9][^%b]*" % ((re.escape(_DELIMITERS),) * 2))
_LETTERS_AND_NUMBER: Final = re.compile(rb"([a-zA-Z]*[g-zG-Z][a-zA-Z]*)[0-9]+\Z")
_LAST_DELIMITER: Final = re.compile(rb".*[%b]" % re.escape(_DELIMITERS), re.DOTALL)
_FIRST_DELIMITER: Final = re.compile(rb"[^%b]*[%b]" % ((re.escape(_DELIMITERS),) * 2))
# No family has a longer name.
_LONGEST: Final = 128
# Beyond so many families a new one is as wide as its first word, beyond so many it is all keys.
MOST: Final = 64
MOST_WIDE: Final = 96
ALL: Final = b""
"""The family of all keys."""


def family_of(key: bytes) -> bytes:
    """The beginning of names of keys like this one: all before the first word with a digit, or all
    up to the last delimiter. `user:42:cart` is of `user:`, `user42` of `user`, `cart` of `cart`."""
    found = _WORD_WITH_DIGIT.search(key := key[:_LONGEST])
    if found is None:
        whole = _LAST_DELIMITER.match(key)
        return whole.group() if whole else key
    # A word of letters and then a number; one like `a7f3` or `abc123` may be a number in itself.
    named = _LETTERS_AND_NUMBER.match(found.group())
    return key[: found.start()] + (named.group(1) if named else b"")


def wide_family_of(key: bytes) -> bytes:
    """The wide family of a key, for when there are many: the first word alone."""
    found = _FIRST_DELIMITER.match(key[:_LONGEST])
    return found.group() if found and not re.search(rb"[0-9]", found.group()) else ALL


class Known:
    """The families that a process knows, for all servers.

    all: all that it has heard of; prefixes: those of them that do not begin as another does
    has_state: whether the state that proxies share is in Redis, without which nothing else of ours
      may be; None if that is not known: see link/server/shared_state.py
    """

    def __init__(self) -> None:
        self.has_state: bool | None = True  # the link asks before anybody is served
        self.all: set[bytes] = set()
        self.prefixes: tuple[bytes, ...] = ()
        self._observers: list[Callable[[], None]] = []

    def __bool__(self) -> bool:
        return bool(self.prefixes)

    def covers(self, key: bytes) -> bool:
        """A word that is no bulk string is no key."""
        return key.__class__ is bytes and key.startswith(self.prefixes)

    def of(self, key: bytes) -> bytes:
        """The family of a key: the one that is known, or a new one."""
        for head in self.prefixes:
            if key.startswith(head):
                return head
        if len(self.prefixes) < MOST:
            return family_of(key)
        return wide_family_of(key) if len(self.prefixes) < MOST_WIDE else ALL

    def add_of(self, keys: Iterable[bytes]) -> None:
        """Notes that these keys have deadlines, or are about to get some."""
        for key in keys:
            if not key.startswith(self.prefixes):
                self.add([self.of(key)])

    def add(self, families: Iterable[bytes]) -> None:
        new = {*families} - self.all
        if not new:
            return
        self.all |= new
        self.prefixes = tuple(sorted(each for each in self.all if not _is_within(each, self.all)))
        for observer in self._observers:
            observer()

    def add_observer(self, observer: Callable[[], None]) -> None:
        """`observer()` is called after each change."""
        self._observers.append(observer)

    def remove_observer(self, observer: Callable[[], None]) -> None:
        """Ends the calls of `observer`."""
        self._observers.remove(observer)


def _is_within(family: bytes, families: set[bytes]) -> bool:
    """Whether another of these families has all keys of this one."""
    return any(family != other and family.startswith(other) for other in families)


class WritingClient(Protocol):
    """A client whose writes are on their way to Redis as they came, where no family was known."""

    def mark(self) -> object:
        """The argument of `has_landed`: it stands for all that was sent until now."""

    def has_landed(self, mark: object) -> bool:
        """Whether Redis has answered all of that which writes."""


class Families:
    """The families in front of one server.

    known: those that this process knows; sure: how the names begin that all proxies know;
    senders: its clients
    """

    def __init__(self, known: Known | None = None) -> None:
        self.known = Known() if known is None else known
        self.senders = WeakSet[WritingClient]()
        self.sure: tuple[bytes, ...] = ()

    def are_sure(self, key: bytes) -> bool:
        """Whether all proxies know the family of a key, so that it may get deadlines."""
        return key.startswith(self.sure)

    def confirm(self, families: Iterable[bytes]) -> None:
        """Notes that all proxies know these."""
        self.sure = tuple({*self.sure, *families})

    def doubt(self) -> None:
        """Notes that other proxies no longer see what this one knows."""
        self.sure = ()


class _Names(Protocol):
    """A mapping that cannot list its keys."""

    def __contains__(self, key: bytes, /) -> bool: ...


class Words:
    """The keys of known families, for one question only."""

    __slots__ = ("_names",)

    def __init__(self, names: _Names) -> None:
        self._names = names

    def isdisjoint(self, words: Iterable[bytes]) -> bool:
        """Whether none of these words, which need not be keys, is there."""
        names = self._names
        return not any(word in names for word in words)


class Horizon(Protocol):
    """until_ms: what has no bound does not need attention before"""

    @property
    def until_ms(self) -> int: ...


class FamilyNames:
    """Keys whose bounds are known, and all other keys of families that are known: these have one
    bound."""

    __slots__ = ("_bounds", "_known", "_other")

    def __init__(self, bounds: Mapping[bytes, int], known: Known, other: Horizon) -> None:
        self._bounds = bounds
        self._known = known
        self._other = other

    def __bool__(self) -> bool:
        """Whether a family is known: all keys with bounds are of families."""
        return bool(self._known)

    def __contains__(self, key: bytes) -> bool:
        return key in self._bounds or self._known.covers(key)

    def __getitem__(self, key: bytes) -> int:
        bound = self._bounds.get(key)
        if bound is not None:
            return bound
        if self._known.covers(key):
            return self._other.until_ms
        raise KeyError(key)

    def get(self, key: bytes, default: int | None = None) -> int | None:
        bound = self._bounds.get(key)
        if bound is not None:
            return bound
        return self._other.until_ms if self._known.covers(key) else default

    def keys(self) -> Words:
        return Words(self)
