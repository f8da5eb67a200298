"""Effects of a client's requests: actions besides sending them to Redis. Knows the registry."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Set
from typing import Any, Final, TypeVar

from ttlproxy.core.registry import Asker, Place

# What is gathered begins as this: an empty set of its own takes 216 bytes, and most clients need
# none.
_NOTHING: Final[frozenset[Any]] = frozenset()
Element = TypeVar("Element")


def _with(gathered: Set[Element], more: Iterable[Element]) -> Set[Element]:
    """`more` is added to what was gathered; in a new set only if that was nothing."""
    if not isinstance(gathered, set):
        return set(more)
    gathered.update(more)
    return gathered


class Effects:
    """Gathered from the requests of a chunk, and returned with the bytes as a `Step`.

    reap_places: places whose due elements must be gone before the bytes go on
    reap_databases: databases in which all due elements must be gone before the bytes go on
    sweep_before: places that must be swept before the bytes go on
    sweep_after: keys that a forwarded request may have changed without their index
    date_after: places where elements without a deadline get that of a rule of ONWRITE afterwards
    unsure: places of which all proxies must know the family before the bytes go on
    """

    __slots__ = (
        "_blocked",
        "_blocked_dates",
        "date_after",
        "reap_databases",
        "reap_places",
        "registry",
        "sweep_after",
        "sweep_before",
        "unsure",
    )

    def __init__(self, registry: Asker) -> None:
        self.registry = registry
        self.begin_step()
        # Keys that the last blocking commands may have changed by the time the next request comes.
        self._blocked: Set[bytes] = _NOTHING
        self._blocked_dates: Set[Place] = _NOTHING

    def begin_step(self) -> None:
        """Starts empty: what was gathered so far has been handed over."""
        self.reap_places: Set[Place] = _NOTHING
        self.reap_databases: Set[int] = _NOTHING
        self.unsure: Set[Place] = _NOTHING
        self.sweep_after: Set[bytes] = _NOTHING
        self.sweep_before: Set[Place] = _NOTHING
        self.date_after: Set[Place] = _NOTHING

    def names(self, keys: Collection[bytes], now_ms: int) -> None:
        """A request names these keys: what is due there must be gone."""
        bounds = self.registry.names
        for key in keys:
            if bounds.get(key, now_ms) < now_ms:
                self.reap_places = _with(self.reap_places, self.registry.places(key))

    def sees_all(self) -> None:
        """A request may see any key of its client's database."""
        self.sees(self.registry.databases())

    def sees(self, databases: Iterable[int]) -> None:
        """A request may show any key of these databases."""
        self.reap_databases = _with(self.reap_databases, databases)

    def writes(self, keys: Iterable[bytes]) -> None:
        """A request may change these keys without their index."""
        managed = self.registry.names
        self.sweep_after = _with(self.sweep_after, (key for key in keys if key in managed))

    def fills(self, keys: Iterable[bytes]) -> None:
        """A new element must not get the deadline of an equal element that is gone."""
        for key in keys:
            self.sweep_before = _with(self.sweep_before, self.registry.places(key))

    def must_be_sure(self, places: Iterable[Place]) -> None:
        """All proxies must know the families of these before the bytes go on."""
        self.unsure = _with(self.unsure, places)

    def dates(self, places: Iterable[Place]) -> None:
        """A request puts elements there to which it gives no deadlines by rules of ONWRITE."""
        matches = self.registry.book.matches_in
        ruled = (place for place in places if matches(*place))
        self.date_after = _with(self.date_after, ruled)

    def blocks_on(self, keys: Iterable[bytes], filled: Iterable[Place]) -> None:
        """A request may wait before it changes these keys, and puts elements into some."""
        self._blocked = _with(self._blocked, keys)
        self._blocked_dates = _with(self._blocked_dates, filled)

    def unblock(self) -> None:
        """A client that sends again usually has its element: the keys it blocked on are swept."""
        if self._blocked:
            blocked, self._blocked = self._blocked, _NOTHING
            Effects.writes(self, blocked)  # not State.writes, which notes for EXEC
            Effects.dates(self, self._blocked_dates)
            self._blocked_dates = _NOTHING
