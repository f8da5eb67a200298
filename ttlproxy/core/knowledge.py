"""What a proxy knows that lists no keys: a key of a family that is known may be managed, and due.

The other way is the registry, which holds all managed keys. Here Redis is asked at the moment of
each request (proxy/checks.py). Knows no socket and no clock.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Final, cast

from ttlproxy.core.families import FamilyNames
from ttlproxy.core.families import Known as Families
from ttlproxy.core.registry import NOTHING_DUE, UNKNOWN, Owner, Place, Registry
from ttlproxy.core.write_rules import RuleBook, RuledNames

_NO_BOUNDS: Final[Mapping[bytes, int]] = {}


class Knowledge(Registry):
    """Which databases hold keys, and what all sessions share besides."""

    __slots__ = ("_announced", "_populated")

    def __init__(
        self,
        wake: Callable[[int, int], None] = lambda db, deadline_ms: None,
        has_action: Callable[[bytes], bool] = lambda key: False,
        book: RuleBook | None = None,
        families: Families | None = None,
    ) -> None:
        """As of `Registry`."""
        super().__init__(wake, has_action, book, families)
        self._populated: set[int] = set()
        self._announced: set[int] = set()  # databases, since Redis last told which hold keys

    def __bool__(self) -> bool:
        return True

    def databases(self) -> list[int]:
        return list(self._populated)

    # For sessions.

    def asker(self, databases: tuple[int, ...]) -> Asker:
        return Asker(self, databases)

    def due(self, key: bytes, now_ms: int) -> list[Place]:
        return self.places(key)

    def places(self, key: bytes) -> list[Place]:
        return [(db, key) for db in self._populated] if self.families.covers(key) else []

    def pin(self, db: int, key: bytes, owner: Owner) -> None:
        """Nothing is known of any key, so nothing need be kept."""

    # For the link.

    def announced(self, db: int, key: bytes, deadline_ms: int) -> None:
        """Only the reaper wants to hear of deadlines."""
        self._announced.add(db)
        self._populated.add(db)
        self._wake(db, deadline_ms)

    def populate(self, databases: Collection[int]) -> set[int]:
        """Redis has told that these databases hold keys; returns those that are new."""
        new = {*databases} - self._populated
        self._populated, self._announced = {*databases, *self._announced}, set()
        return new

    def set_first_deadline(self, place: Place, first_ms: int | None) -> None:
        """Nothing is kept of it."""

    def swapped(self, one: int, other: int) -> None:
        """Nothing is kept of either."""

    perhaps_swapped = swapped


class Asker:
    """What one session asks: of keys in the databases that its client may be in, and where its
    requests write to others.

    bounds, managed, names: as of `Registry`
    """

    __slots__ = ("_beyond", "_databases", "_have_index", "_knowledge", "_ruled", "managed")

    bounds = _NO_BOUNDS

    def __init__(self, knowledge: Knowledge, databases: tuple[int, ...]) -> None:
        self._knowledge = knowledge
        # key -> the databases besides these to which requests write it
        self._beyond: dict[bytes, set[int]] = {}
        # What Redis has told for the present chunk
        self._have_index: dict[Place, bool] = {}
        self._databases = databases
        # They have what sessions ask of a mapping.
        names = FamilyNames(_NO_BOUNDS, knowledge.families, UNKNOWN)
        self.managed = cast(Mapping[bytes, int], names)
        ruled = RuledNames(self.managed, knowledge.book, NOTHING_DUE)
        self._ruled = cast(Mapping[bytes, int], ruled)

    def select(self, databases: tuple[int, ...]) -> None:
        self._databases = databases

    @property
    def names(self) -> Mapping[bytes, int]:
        return self._ruled if self._knowledge.book else self.managed

    def reach(self, places: Iterable[Place]) -> None:
        """Requests write to these places: they are asked of, too."""
        for db, key in places:
            self._beyond.setdefault(key, set()).add(db)

    def reach_no_more(self) -> None:
        """Requests that write to other databases are over."""
        self._beyond = {}

    def databases(self) -> list[int]:
        return list(self._databases)

    def unheard(self, databases: Collection[int]) -> Collection[int]:
        return databases

    def due(self, key: bytes, now_ms: int) -> list[Place]:
        return self.places(key)

    def places(self, key: bytes) -> list[Place]:
        if not self._knowledge.families.covers(key):
            return []
        return [(db, key) for db in {*self._databases, *self._beyond.get(key, ())}]

    def may_have_index(self, key: bytes, owner: Owner) -> bool:
        return any(self._have_index.get(place, True) for place in self.places(key))

    def doubted(self, keys: Iterable[bytes]) -> list[Place]:
        """Where Redis has not told whether these keys have an index."""
        return [each for key in keys for each in self.places(key) if each not in self._have_index]

    def learn_indexes(self, places: Iterable[Place], found: Collection[Place]) -> None:
        """Of these places, those that were `found` have an index now."""
        self._have_index.update((place, place in found) for place in places)

    def forget_indexes(self) -> None:
        """The chunk is over."""
        self._have_index = {}

    def pin(self, db: int, key: bytes, owner: Owner) -> None:
        self._knowledge.pin(db, key, owner)

    def expect(self) -> None:
        self._knowledge.expect()

    @property
    def families(self) -> Families:
        return self._knowledge.families

    @property
    def book(self) -> RuleBook:
        return self._knowledge.book

    def has_action(self, key: bytes) -> bool:
        return self._knowledge.has_action(key)

    def perhaps_swapped(self, one: int, other: int) -> None:
        self._knowledge.perhaps_swapped(one, other)
