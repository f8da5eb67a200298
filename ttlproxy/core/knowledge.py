"""What a proxy knows of the keys that its own clients have named, and of no others.

The other way is the registry, which holds all managed keys. Here a key is looked up when a client
names it first. Redis tells when the answer may be another one; then the key is unknown again. What
is unknown counts as managed and due. Knows no socket and no clock.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import islice
from math import inf
from typing import Any, Final
from weakref import WeakValueDictionary

from ttlproxy.core.families import Known as Families
from ttlproxy.core.lately import Lately
from ttlproxy.core.registry import NOTHING_DUE, UNKNOWN, Owner, Place, Registry
from ttlproxy.core.write_rules import RuleBook

# The bound of a key that has no index.
UNMANAGED: Final = 1 << 63
# The same in a family whose keys may have deadlines: it counts as managed, except for who asks
# whether there is an index.
OF_FAMILY: Final = NOTHING_DUE + 1
# The same where a rule of ONWRITE matches: it counts as managed, except for who asks `managed`.
RULED: Final = NOTHING_DUE + 2
# What a key that is known takes on average, in bytes, with a name of 30 bytes.
_BYTES: Final = 180
# How many keys are forgotten at a time where there is no room for more: one in so many. As many are
# remembered, up to twice, to tell that a key is named again.
_PART: Final = 16


class _Words:
    """The keys of `Known`, for one question only."""

    __slots__ = ("_bounds",)

    def __init__(self, bounds: dict[bytes, int]) -> None:
        self._bounds = bounds

    def isdisjoint(self, words: Iterable[bytes]) -> bool:
        """Whether none of these words, which need not be keys, is known as a managed key."""
        bounds = self._bounds
        return all(bounds.get(word, UNMANAGED) == UNMANAGED for word in words)


class _Managed:
    """The keys of some `Known` that may have an index: a rule of ONWRITE alone does not count."""

    __slots__ = ("_all_of",)

    def __init__(self, all_of: Callable[[bytes], Iterable[Known]]) -> None:
        self._all_of = all_of

    def __contains__(self, key: bytes) -> bool:
        return any(known.bounds.get(key, UNKNOWN) < RULED for known in self._all_of(key))

    def keys(self) -> _Managed:
        return self

    def isdisjoint(self, words: Iterable[bytes]) -> bool:
        """Whether none of these words, which need not be keys, is known to be there."""
        return not any(
            known.bounds.get(word, RULED) < RULED for word in words for known in self._all_of(word)
        )


class _ManagedHere:
    """The same of one `Known`, for less."""

    __slots__ = ("_bounds",)

    def __init__(self, bounds: dict[bytes, int]) -> None:
        self._bounds = bounds

    def __contains__(self, key: bytes) -> bool:
        return self._bounds.get(key, UNKNOWN) < RULED

    def keys(self) -> _ManagedHere:
        return self

    def isdisjoint(self, words: Sequence[bytes]) -> bool:
        bounds = self._bounds
        if bounds.keys().isdisjoint(words):  # nearly always, and it takes a tenth of the time
            return True
        return not any(bounds.get(word, RULED) < RULED for word in words)


class Finding:
    """A look-up that is under way: what changes meanwhile may be newer than its answer.

    changed: keys, in any database; is_void: all keys may have
    """

    __slots__ = ("changed", "is_void")

    def __init__(self) -> None:
        self.changed: set[bytes] = set()
        self.is_void = False


class Known:
    """The keys of one database as a session asks for them: `key in known` means that it may be
    managed, and `known[key]` is its bound then.

    bounds: the bound of each key that is known, UNMANAGED if it has no index
    """

    __slots__ = ("__weakref__", "bounds")

    def __init__(self) -> None:
        self.bounds: dict[bytes, int] = {}

    def __contains__(self, key: bytes) -> bool:
        return self.bounds.get(key, UNKNOWN) != UNMANAGED

    def __getitem__(self, key: bytes) -> int:
        return self.bounds.get(key, UNKNOWN)

    def get(self, key: bytes, default: int) -> int:
        bound = self.bounds.get(key, UNKNOWN)
        return default if bound == UNMANAGED else bound

    def keys(self) -> _Words:
        return _Words(self.bounds)

    @property
    def managed(self) -> _Managed | _ManagedHere:
        return _ManagedHere(self.bounds)


class _Earliest(dict[bytes, int]):
    """The earliest bounds of several `Known`, of the keys that are known in all of them. Nothing is
    kept here, so a look takes some times as long as in another dict."""

    __slots__ = ("_all_of",)

    def __init__(self, all_of: Callable[[bytes], Iterable[Known]]) -> None:
        super().__init__()
        self._all_of = all_of

    def __missing__(self, key: bytes) -> int:
        return min([known.bounds[key] for known in self._all_of(key)])

    def get(self, key: bytes, default: Any = None) -> Any:
        try:
            return self[key]
        except KeyError:
            return default


class _Several(Known):
    """The same for a client whose requests may concern a key in several databases.

    all_of: what is known of each, for one key
    """

    __slots__ = ("_all_of",)

    def __init__(self, all_of: Callable[[bytes], Iterable[Known]]) -> None:
        self.bounds = _Earliest(all_of)
        self._all_of = all_of

    @property
    def managed(self) -> _Managed:
        return _Managed(self._all_of)


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
        self._known: dict[int, Known] = {0: Known()}
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
        return sum(sum(bound < OF_FAMILY for bound in all_) for all_ in each)

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
            found = self._others_known[db] = Known()
        return found

    def unknown(self, places: Iterable[Place]) -> list[Place]:
        """Those of which nothing is known."""
        return [place for place in places if place[1] not in self.known(place[0]).bounds]

    def are_new(self, keys: Collection[bytes]) -> bool:
        """Whether this was not asked lately about any of these keys, in any database."""
        are_new = self._named.has_none(keys)
        self._named.add(keys)
        return are_new

    def due(self, key: bytes, now_ms: int) -> list[Place]:
        return [(db, key) for db, known in self._all() if known[key] < now_ms]

    def places(self, key: bytes) -> list[Place]:
        return [(db, key) for db, known in self._all() if key in known.managed]

    def pin(self, db: int, key: bytes, owner: Owner) -> None:
        owners = self._pins[0].setdefault((db, key), set())
        if owners is not None:
            owners.add(owner)
        bounds = self.known(db).bounds
        if bounds.get(key) in (UNMANAGED, RULED, OF_FAMILY):
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
        is_plain = not (any(self._pins) or self.book or self.families)
        for key, first_ms in firsts_ms.items():
            if key in changed:
                continue
            if first_ms is None and is_plain:
                bounds[key] = UNMANAGED
            else:
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

    def rules_changed(self) -> None:
        self.forget_all()

    def families_changed(self) -> None:
        super().families_changed()
        self.forget_all()

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
        if any(place in pins for pins in self._pins):
            return NOTHING_DUE
        if self.families.covers(place[1]):
            return OF_FAMILY
        return RULED if self.book.matches_in(*place) else UNMANAGED

    def _unpin(self, place: Place) -> None:
        bounds = self.known(place[0]).bounds
        if bounds.get(place[1]) == NOTHING_DUE:
            del bounds[place[1]]


class Asker:
    """What one session asks: of keys in the databases that its client may be in, and where its
    requests write to others."""

    __slots__ = ("_beyond", "_databases", "_knowledge", "_known", "names")

    def __init__(self, knowledge: Knowledge, databases: tuple[int, ...]) -> None:
        self._knowledge = knowledge
        # key -> the databases besides these to which requests write it
        self._beyond: dict[bytes, set[int]] = {}
        self.names = Known()
        self.select(databases)

    def select(self, databases: tuple[int, ...]) -> None:
        self._databases = databases
        self._look_in(databases)

    def reach(self, places: Iterable[Place]) -> None:
        """Requests write to these places: they are asked of, too."""
        for db, key in places:
            if not self._knowledge.may_have(db):
                continue
            self._beyond.setdefault(key, set()).add(db)
            if db not in self._known:
                self._known[db] = self._knowledge.known(db)
                self.names = _Several(self._all_of)

    def reach_no_more(self) -> None:
        """Requests that write to other databases are over."""
        if self._beyond:
            self._beyond = {}
            self._look_in(self._databases)

    def _look_in(self, databases: Iterable[int]) -> None:
        beyond = set[int]().union(*self._beyond.values())
        self._known = {db: self._knowledge.known(db) for db in beyond.union(databases)}
        one = self._known[self._databases[0]]
        self.names = one if len(self._known) == 1 else _Several(self._all_of)

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
        return [(db, key) for db in self._databases_of(key) if known[db][key] < now_ms]

    def places(self, key: bytes) -> list[Place]:
        known = self._known
        return [(db, key) for db in self._databases_of(key) if key in known[db].managed]

    def unknown(self, keys: Iterable[bytes]) -> list[Place]:
        """The places where nothing is known of these keys."""
        if len(self._known) == 1:
            (db,), bounds = self._databases, self.names.bounds
            return [(db, key) for key in keys if key not in bounds]
        places = ((db, key) for key in keys for db in self._databases_of(key))
        return self._knowledge.unknown(places)

    def may_have_index(self, key: bytes, owner: Owner) -> bool:
        return any(known.bounds.get(key, UNKNOWN) < OF_FAMILY for known in self._all_of(key))

    def pin(self, db: int, key: bytes, owner: Owner) -> None:
        self._knowledge.pin(db, key, owner)

    def expect(self) -> None:
        self._knowledge.expect()

    @property
    def families(self) -> Families:
        return self._knowledge.families

    @property
    def bounds(self) -> _Managed | _ManagedHere:
        """As of `Registry`."""
        return self.names.managed

    @property
    def book(self) -> RuleBook:
        return self._knowledge.book

    def has_action(self, key: bytes) -> bool:
        return self._knowledge.has_action(key)

    def perhaps_swapped(self, one: int, other: int) -> None:
        self._knowledge.perhaps_swapped(one, other)
