"""What a proxy knows of the keys that its own clients have named, in families that are known.

The other way is the registry, which holds all managed keys. Here a key is looked up when a client
names it first, if its family is known (core/families.py): others have no deadlines. Redis tells
when the answer may be another one; then the key is unknown again. What is unknown counts as managed
and due. Knows no socket and no clock.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from itertools import islice
from math import inf
from typing import Final, cast
from weakref import WeakValueDictionary

from ttlproxy.core.families import FamilyNames, Words
from ttlproxy.core.families import Known as Families
from ttlproxy.core.lately import Lately
from ttlproxy.core.registry import NOTHING_DUE, UNKNOWN, Owner, Place, Registry
from ttlproxy.core.write_rules import RuleBook, RuledNames

# The bound of a key that has no index.
UNMANAGED: Final = NOTHING_DUE + 1
# What a key that is known takes on average, in bytes, with a name of 30 bytes.
_BYTES: Final = 180
# How many keys are forgotten at a time where there is no room for more: one in so many. As many are
# remembered, up to twice, to tell that a key is named again.
_PART: Final = 16


class Finding:
    """A look-up that is under way: what changes meanwhile may be newer than its answer.

    changed: keys, in any database; is_void: all keys may have
    """

    __slots__ = ("changed", "is_void")

    def __init__(self) -> None:
        self.changed: set[bytes] = set()
        self.is_void = False


class Known:
    """What is known of the keys of one database.

    bounds: the bound of each key that was looked up
    """

    __slots__ = ("__weakref__", "_families", "bounds")

    def __init__(self, families: Families) -> None:
        self.bounds: dict[bytes, int] = {}
        self._families = families

    def bound(self, key: bytes) -> int:
        """That of any key: one whose family is not known has no index."""
        found = self.bounds.get(key)
        if found is None:
            return UNKNOWN if self._families.covers(key) else UNMANAGED
        return found

    def may_have_index(self, key: bytes) -> bool:
        return self.bound(key) < UNMANAGED


class _Earliest(Mapping[bytes, int]):
    """The earliest bounds in several databases, of the keys that are known in all of them."""

    __slots__ = ("_all_of",)

    def __init__(self, all_of: Callable[[bytes], Iterable[Known]]) -> None:
        """`all_of(key)`: what is known of each database that the key may be in."""
        self._all_of = all_of

    def __getitem__(self, key: bytes) -> int:
        return min([known.bounds[key] for known in self._all_of(key)])

    def __iter__(self) -> Iterator[bytes]:
        raise TypeError("keys are not listed by what a client may name")

    def __len__(self) -> int:
        raise TypeError("keys are not counted by what a client may name")

    def keys(self) -> Words:  # type: ignore[override]
        return Words(self)


class Knowledge(Registry):
    """All that is known, by database, and pins for keys that a request on its way may make managed.

    Clients may name any number of databases. What is known of those without keys lasts only as long
    as a session asks of it.
    """

    __slots__ = (
        "_announced",
        "_findings",
        "_is_in_doubt",
        "_known",
        "_lacking",
        "_most",
        "_named",
        "_others_known",
        "_populated",
        "_reaped",
    )

    def __init__(
        self,
        most_bytes: int,
        wake: Callable[[int, int], None] = lambda db, deadline_ms: None,
        has_action: Callable[[bytes], bool] = lambda key: False,
        book: RuleBook | None = None,
        families: Families | None = None,
    ) -> None:
        """`most_bytes`: about what all may take; the others are as of `Registry`."""
        super().__init__(wake, has_action, book, families)
        # Of the first database and of those that hold keys; and of others.
        self._known: dict[int, Known] = {0: Known(self.families)}
        self._others_known = WeakValueDictionary[int, Known]()
        self._reaped: dict[Place, Known] = {}  # so that `changed` looks where reaps are under way
        self._populated: set[int] = set()
        self._announced: set[int] = set()  # databases, since Redis last told which hold keys
        self._most = max(most_bytes // _BYTES, _PART)
        self._lacking: float = inf  # Redis has no database from this one on
        self._is_in_doubt = False
        self._findings: list[Finding] = []
        self._named = Lately[bytes](self._most // _PART)  # by reads

    def __len__(self) -> int:
        """Takes some 30 ns for each key that is known, also for those that are not managed."""
        each = [list(known.bounds.values()) for _, known in self._all()]
        return sum(sum(bound < UNMANAGED for bound in all_) for all_ in each)

    def __bool__(self) -> bool:
        return True

    def databases(self) -> list[int]:
        return list(self._populated)

    def listed(self, start: int, count: int) -> list[Place]:
        return []

    # For sessions.

    def asker(self, databases: tuple[int, ...]) -> Asker:
        return Asker(self, databases)

    def known(self, db: int) -> Known:
        found = self._known.get(db)
        if found is None:
            found = self._others_known.get(db)
        if found is None:
            found = self._others_known[db] = Known(self.families)
        return found

    def unknown(self, places: Iterable[Place]) -> list[Place]:
        """Those that are to be looked up."""
        covers = self.families.covers
        return [(db, key) for db, key in places if covers(key) and key not in self.known(db).bounds]

    def are_new(self, keys: Collection[bytes]) -> bool:
        """Whether this was not asked lately about any of these keys, in any database."""
        are_new = self._named.has_none(keys)
        self._named.add(keys)
        return are_new

    def due(self, key: bytes, now_ms: int) -> list[Place]:
        return [(db, key) for db, known in self._all() if known.bound(key) < now_ms]

    def places(self, key: bytes) -> list[Place]:
        return [(db, key) for db, known in self._all() if known.may_have_index(key)]

    def pin(self, db: int, key: bytes, owner: Owner) -> None:
        owners = self._pins[0].setdefault((db, key), set())
        if owners is not None:
            owners.add(owner)
        bounds = self.known(db).bounds
        if bounds.get(key) == UNMANAGED:
            bounds[key] = NOTHING_DUE
        self.expecting = True

    # For the link.

    def announced(self, db: int, key: bytes, deadline_ms: int) -> None:
        """Only the reaper wants to hear of deadlines; sessions hear of keys by `changed`."""
        self._announced.add(db)
        self._populated.add(db)
        self._wake(db, deadline_ms)

    def populate(self, databases: Collection[int]) -> set[int]:
        """Redis has told that these databases hold keys; returns those that are new."""
        new = {*databases} - self._populated
        self._populated, self._announced = {*databases, *self._announced}, set()
        for db in self._known.keys() - self._populated - {0}:
            self._others_known[db] = self._known.pop(db)
        for db in self._populated - self._known.keys():
            self._known[db] = self.known(db)
        return new

    def lacks(self, db: int) -> None:
        """Redis has told that it has no such database, so it has none with a higher number."""
        self._lacking = min(self._lacking, db)

    def may_have(self, db: int) -> bool:
        """Whether Redis may have this database."""
        return db < self._lacking

    def begin_reap(self, place: Place) -> None:
        self._reaped[place] = self.known(place[0])
        super().begin_reap(place)

    def end_reap(self, place: Place) -> None:
        super().end_reap(place)
        if place not in self._reaps_under_way:
            del self._reaped[place]

    def changed(self, key: bytes) -> None:
        """What is known of a key may not be true any more, or is not tracked by Redis."""
        for db, known in self._all():
            known.bounds.pop(key, None)
            if (db, key) in self._reaps_under_way:
                self._overtaken.add((db, key))
        for finding in self._findings:
            finding.changed.add(key)

    def begin_finding(self) -> Finding:
        """A look-up is about to be sent; `learn` may follow, `end_finding` must."""
        finding = Finding()
        self._findings.append(finding)
        return finding

    def end_finding(self, finding: Finding) -> None:
        """A look-up has been answered, or never will be."""
        self._findings.remove(finding)

    def learn(self, finding: Finding, db: int, firsts_ms: Mapping[bytes, int | None]) -> None:
        """A look-up has found these first deadlines of keys, None for one without an index.

        Ignored for a key that was `changed` meanwhile: the answer may be older than the change.
        """
        if finding.is_void or self._is_in_doubt:
            return
        bounds, changed = self.known(db).bounds, finding.changed
        while self._size() + len(firsts_ms) > self._most and self._make_room():
            pass
        for key, first_ms in firsts_ms.items():
            if key not in changed:
                bounds[key] = self._found((db, key), first_ms)

    def set_first_deadline(self, place: Place, first_ms: int | None) -> None:
        bounds = self.known(place[0]).bounds
        if place in self._overtaken or place[1] not in bounds:
            return
        if first_ms is None:
            del bounds[place[1]]
        else:
            bounds[place[1]] = self._bound(first_ms)

    def forget_all(self) -> None:
        """Any key may be another one now, or changes may have been missed. It may even be another
        server."""
        self._lacking = inf
        for _, known in self._all():
            known.bounds.clear()
        self._overtaken.update(self._reaps_under_way)
        for finding in self._findings:
            finding.is_void = True

    def swapped(self, one: int, other: int) -> None:
        self.forget_all()

    def perhaps_swapped(self, one: int, other: int) -> None:
        """Nothing is learnt until `settle`: it might be of the other database."""
        self.forget_all()
        self._is_in_doubt = True

    def settle(self) -> None:
        """No request on its way can exchange databases."""
        self._is_in_doubt = False

    def forget(self, has_gone: Callable[[bytes], bool]) -> None:
        super().forget(has_gone)
        for _, known in self._all():
            for key in list(filter(has_gone, known.bounds)):
                del known.bounds[key]

    # Inside.

    def _all(self) -> Iterable[tuple[int, Known]]:
        known, others = self._known.items(), self._others_known
        return [*known, *others.items()] if others else known

    def _size(self) -> int:
        return sum(len(known.bounds) for _, known in self._all())

    def _make_room(self) -> bool:
        """Forgets some keys; False if none is known."""
        fullest = max((known.bounds for _, known in self._all()), key=len)
        for key in list(islice(fullest, len(fullest) // _PART + 1)):
            del fullest[key]
        return bool(fullest)

    def _found(self, place: Place, first_ms: int | None) -> int:
        if first_ms is not None:
            return self._bound(first_ms)
        return NOTHING_DUE if any(place in pins for pins in self._pins) else UNMANAGED

    def _unpin(self, place: Place) -> None:
        bounds = self.known(place[0]).bounds
        if bounds.get(place[1]) == NOTHING_DUE:
            del bounds[place[1]]


class Asker:
    """What one session asks: of keys in the databases that its client may be in, and where its
    requests write to others.

    bounds, managed: as of `Registry`; `bounds` has keys without an index, too
    """

    __slots__ = ("_beyond", "_databases", "_knowledge", "_known", "_ruled", "bounds", "managed")

    def __init__(self, knowledge: Knowledge, databases: tuple[int, ...]) -> None:
        self._knowledge = knowledge
        # key -> the databases besides these to which requests write it
        self._beyond: dict[bytes, set[int]] = {}
        self.select(databases)

    def select(self, databases: tuple[int, ...]) -> None:
        self._databases = databases
        self._look_in(databases)

    @property
    def names(self) -> Mapping[bytes, int]:
        """As of `Registry`."""
        return self._ruled if self._knowledge.book else self.managed

    def reach(self, places: Iterable[Place]) -> None:
        """Requests write to these places: they are asked of, too."""
        for db, key in places:
            if not self._knowledge.may_have(db):
                continue
            self._beyond.setdefault(key, set()).add(db)
            if db not in self._known:
                self._known[db] = self._knowledge.known(db)
                self._publish()

    def reach_no_more(self) -> None:
        """Requests that write to other databases are over."""
        if self._beyond:
            self._beyond = {}
            self._look_in(self._databases)

    def _look_in(self, databases: Iterable[int]) -> None:
        beyond = set[int]().union(*self._beyond.values())
        self._known = {db: self._knowledge.known(db) for db in beyond.union(databases)}
        self._publish()

    def _publish(self) -> None:
        one, knowledge = len(self._known) == 1, self._knowledge
        bounds = self._known[self._databases[0]].bounds if one else _Earliest(self._all_of)
        names = FamilyNames(bounds, knowledge.families, UNKNOWN)
        # They have what sessions ask of a mapping.
        self.bounds: Mapping[bytes, int] = bounds
        self.managed = cast(Mapping[bytes, int], names)
        ruled = RuledNames(self.managed, knowledge.book, NOTHING_DUE)
        self._ruled = cast(Mapping[bytes, int], ruled)

    def _databases_of(self, key: bytes) -> Iterable[int]:
        beyond = self._beyond.get(key)
        return beyond.union(self._databases) if beyond else self._databases

    def _all_of(self, key: bytes) -> list[Known]:
        return [self._known[db] for db in self._databases_of(key)]

    def databases(self) -> list[int]:
        return list(self._databases)

    def unheard(self, databases: Collection[int]) -> Collection[int]:
        return databases

    def due(self, key: bytes, now_ms: int) -> list[Place]:
        known = self._known
        return [(db, key) for db in self._databases_of(key) if known[db].bound(key) < now_ms]

    def places(self, key: bytes) -> list[Place]:
        known = self._known
        return [(db, key) for db in self._databases_of(key) if known[db].may_have_index(key)]

    def unknown(self, keys: Iterable[bytes]) -> list[Place]:
        """The places that are to be looked up for these keys."""
        covers = self._knowledge.families.covers
        places = ((db, key) for key in keys if covers(key) for db in self._databases_of(key))
        return self._knowledge.unknown(places)

    def may_have_index(self, key: bytes, owner: Owner) -> bool:
        return any(known.may_have_index(key) for known in self._all_of(key))

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
