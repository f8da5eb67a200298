"""The managed keys that need attention soon, as far as a proxy knows.

Before `until_ms` only keys in `bounds` do. A script announces each first deadline that is less than
a minute ahead, so what a schedule did not have when it was read up to there cannot fall due before,
unless it was announced. From then on, and where nothing was read, Redis is asked at each request
(proxy/checks.py).

These are hints for reads: a superfluous entry costs one needless reap. Knows no socket and no
clock: instants are ms of the Redis server's clock.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Final, cast
from weakref import WeakValueDictionary

from ttlproxy.core.families import FamilyNames, Known
from ttlproxy.core.write_rules import RuleBook, RuledNames
from ttlproxy.wire import NOTHING_DUE

# The bound of a key in which something may be due already.
UNKNOWN: Final = 0
# Scripts announce a first deadline that is less than this ahead.
ANNOUNCED_MS: Final = 60_000
# The most bounds of reaps that are kept where schedules are not read.
_MOST_KEPT: Final = 200_000

DbKey = tuple[int, bytes]
"""A key in a logical database: (db, key)."""


class _Database:
    """bounds: key -> when it needs attention at the earliest, in ms"""

    __slots__ = ("__weakref__", "bounds")

    def __init__(self) -> None:
        self.bounds: dict[bytes, int] = {}


class Registry:
    """
    until_ms: only keys with bounds need attention before; UNKNOWN if nothing is known
    hears: whether all that scripts announce is heard here
    expecting: whether announcements are looked at before each chunk: others may have told something
      on which it depends, or announcements may be missed without notice
    """

    __slots__ = (
        "_announced",
        "_expects",
        "_keeps_until_ms",
        "_known",
        "_managed",
        "_manages",
        "_others_known",
        "_overtaken",
        "_populated",
        "_readings",
        "_reads_until_ms",
        "_reaps_under_way",
        "_wake",
        "expecting",
        "families",
        "has_action",
        "hears",
        "rules",
        "until_ms",
    )

    def __init__(
        self,
        wake: Callable[[int, int], None] = lambda db, deadline_ms: None,
        has_action: Callable[[bytes], bool | None] = lambda key: False,
        rules: RuleBook | None = None,
        families: Known | None = None,
    ) -> None:
        """`wake(db, deadline_ms)` is called for deadlines that are announced, and for the first of
        those that are read; `has_action(key)` says whether a rule of ONEXPIRE applies to the key,
        None while rules are being read; `rules`: the rules of ONWRITE; `families`: those whose keys
        may have deadlines."""
        self.until_ms = UNKNOWN
        self.hears = True
        self.has_action = has_action
        self.rules = RuleBook() if rules is None else rules
        self.families = Known() if families is None else families
        # The first database and those that hold keys; and others, as long as a session asks about
        # them: clients may name any number of databases.
        self._known: dict[int, _Database] = {0: _Database()}
        self._others_known = WeakValueDictionary[int, _Database]()
        self._populated: set[int] = set()
        self._announced: set[int] = set()  # databases, since Redis last told which hold keys
        self._readings = 0  # how often all was forgotten
        self._keeps_until_ms = UNKNOWN  # what a reap has found holds so long
        self._reads_until_ms = UNKNOWN
        self.expecting = True
        self._expects = self._manages = self._managed = False
        # Places of reaps under way -> how many; and those where an announcement came meanwhile.
        self._reaps_under_way: Counter[DbKey] = Counter()
        self._overtaken: set[DbKey] = set()
        self._wake = wake

    def databases(self) -> list[int]:
        """The logical databases that hold keys."""
        return list(self._populated)

    # Sessions call these.

    def view(self, databases: tuple[int, ...]) -> RegistryView:
        """The registry as the session of a client in one of these databases sees it."""
        return RegistryView(self, databases)

    def known(self, db: int) -> _Database:
        found = self._known.get(db)
        if found is None:
            found = self._others_known.get(db)
        if found is None:
            found = self._others_known[db] = _Database()
        return found

    def bounds(self, db: int) -> dict[bytes, int]:
        return self.known(db).bounds

    def places(self, key: bytes) -> list[DbKey]:
        """The places where `key` may be managed."""
        return [(db, key) for db in self._populated] if self.families.covers(key) else []

    def manages(self, databases: Iterable[int]) -> None:
        """A request that gives keys of these databases deadlines is about to be forwarded."""
        self._manages = True
        for db in databases:
            self._announced.add(db)
            self._populate(db)

    def expect(self) -> None:
        """A request that is announced to all proxies is about to be forwarded."""
        self._expects = self.expecting = True

    # The link calls these.

    def others(self, may_be: bool) -> None:
        """Sets whether another proxy may announce something."""
        self.expecting = may_be or self._expects

    def families_changed(self) -> None:
        """Notes that there is a new family."""
        self.rules.cover(self.families.prefixes)

    def beat(self, now_ms: int) -> None:
        """Redis's clock says `now_ms`."""
        self._managed, self._manages = self._manages, False
        if (
            self.until_ms == UNKNOWN
            and sum(len(known.bounds) for known in self._known.values()) > _MOST_KEPT
        ):
            self.forget_all()
        self._keeps_until_ms = now_ms + ANNOUNCED_MS if self.hears else UNKNOWN

    @property
    def has_managed(self) -> bool:
        """Whether a key has been given deadlines here since the last `beat` but one: schedules that
        were read may not have it."""
        return self._manages or self._managed

    def announced(self, db: int, key: bytes, deadline_ms: int) -> None:
        """An announcement says that `key` needs attention, or needed it, at `deadline_ms`.

        Announcements of one moment come in any order, so the earliest deadline counts.
        """
        self._announced.add(db)
        self._populate(db)
        self.families.add_of((key,))
        self._wake(db, deadline_ms)
        if self.hears:
            self._take(db, ((key, deadline_ms),))
        place = (db, key)
        if place in self._reaps_under_way:
            self._overtaken.add(place)

    def populate(self, databases: Collection[int]) -> set[int]:
        """Redis has told that these databases hold keys; returns those that are new."""
        new = {*databases} - self._populated
        for db in self._populated.difference(databases, self._announced, (0,)):
            self._populated.discard(db)
            self._others_known[db] = self._known.pop(db)
        self._announced = set()
        for db in databases:
            self._populate(db)
        return new

    def begin_reading(self, until_ms: int) -> int:
        """Schedules are about to be read, as far as keys need attention before `until_ms`; returns
        what `end_reading` takes."""
        self._reads_until_ms = until_ms
        return self._readings

    def read(self, db: int, entries: Iterable[tuple[bytes, int]]) -> None:
        """Schedules have these entries: (key, when it needs attention at the earliest, in ms).

        Without announcements an entry may be too late a moment later, so none is kept.
        """
        if self.hears:
            first_ms = self._take(db, entries)
        else:
            first_ms = min((bound for _, bound in entries), default=NOTHING_DUE)
        if first_ms < NOTHING_DUE:
            self._wake(db, first_ms)

    def end_reading(self, reading: int, until_ms: int) -> None:
        """Notes that all was read that needs attention before `until_ms`, since `begin_reading`."""
        if self.hears and reading == self._readings:
            self.until_ms = max(until_ms, self.until_ms)

    def past(self, db: int, now_ms: int) -> list[bytes]:
        """The keys that needed attention before `now_ms`, as far as is known: another proxy may
        have seen to them since."""
        return [key for key, bound in self.bounds(db).items() if bound < now_ms]

    def forget_all(self) -> None:
        """Any key may be another one now, or announcements may have been missed. It may even be
        another server."""
        self.until_ms = self._keeps_until_ms = self._reads_until_ms = UNKNOWN
        self._readings += 1
        for known in (*self._known.values(), *self._others_known.values()):
            known.bounds.clear()
        self._overtaken.update(self._reaps_under_way)

    def forget(self, has_gone: Callable[[bytes], bool]) -> None:
        """Forgets the keys for which `has_gone` is true: another server has them."""
        for known in self._known.values():
            for key in list(filter(has_gone, known.bounds)):
                del known.bounds[key]
        self._overtaken.update(place for place in self._reaps_under_way if has_gone(place[1]))

    def begin_reap(self, place: DbKey) -> None:
        """A reap or sweep is about to be sent; `set_first_deadline` may follow, `end_reap` must."""
        self._reaps_under_way[place] += 1

    def end_reap(self, place: DbKey) -> None:
        """A reap or sweep has been answered, or never will be."""
        self._reaps_under_way[place] -= 1
        if not self._reaps_under_way[place]:
            del self._reaps_under_way[place]
            self._overtaken.discard(place)

    @contextmanager
    def reaping(self, places: Collection[DbKey]) -> Iterator[None]:
        """Marks places as being looked at: an announcement that comes meanwhile counts more than
        what the look finds."""
        for place in places:
            self.begin_reap(place)
        try:
            yield
        finally:
            for place in places:
                self.end_reap(place)

    def set_first_deadline(self, place: DbKey, first_ms: int | None) -> None:
        """A reap found that the first deadline left is `first_ms`; None: the index is gone.

        Ignored if an announcement came after the reap was sent, or while another reap was under
        way: the announcement may be newer. Entries of the present reading count already: the
        schedule may have been read before the reap.
        """
        db, key = place
        bounds = self.bounds(db)
        if place in self._overtaken:
            return
        bound = NOTHING_DUE if first_ms is None else first_ms
        most_ms = max(self.until_ms, self._reads_until_ms)
        is_kept = bound < most_ms
        if self.until_ms == UNKNOWN:
            most_ms = max(most_ms, self._keeps_until_ms)
            is_kept = self.hears and most_ms != UNKNOWN
        if is_kept:
            bounds[key] = min(bound, most_ms)
        else:
            bounds.pop(key, None)

    # Inside.

    def _take(self, db: int, entries: Iterable[tuple[bytes, int]]) -> int:
        """Returns the first of those that are new, or earlier."""
        bounds, most_ms = self.bounds(db), max(self.until_ms, self._reads_until_ms)
        first_ms = NOTHING_DUE
        for key, bound in entries:
            if bound < bounds.get(key, most_ms):
                bounds[key] = bound
                first_ms = min(first_ms, bound)
        return first_ms

    def _populate(self, db: int) -> None:
        if db not in self._populated:
            self._populated.add(db)
            self._known[db] = self.known(db)


class RegistryView:
    """The registry as one session sees it: keys in the databases that its client may be in, and in
    others to which its requests write.

    bounds: key -> its bound, where only one database matters; else empty
    managed: the same, where keys of known families are there too
    """

    __slots__ = ("_beyond", "_databases", "_known", "_registry", "_ruled", "bounds", "managed")

    def __init__(self, registry: Registry, databases: tuple[int, ...]) -> None:
        self._registry = registry
        # key -> the databases besides these to which requests write it
        self._beyond: dict[bytes, set[int]] = {}
        self.select(databases)

    def select(self, databases: tuple[int, ...]) -> None:
        """The client is in one of these databases now."""
        self._databases = databases
        self._look()

    @property
    def until_ms(self) -> int:
        """`Registry.until_ms`; UNKNOWN in several databases."""
        return self._registry.until_ms if self._is_in_one else UNKNOWN

    @property
    def names(self) -> Mapping[bytes, int]:
        """The managed keys, and those that a rule of ONWRITE matches. A look at `bounds`,
        and at how a name begins (`rules.first_bytes`), costs less."""
        return self._ruled if self._registry.rules else self.managed

    def include(self, places: Iterable[DbKey]) -> None:
        """Requests write to these places: they are asked of, too."""
        for db, key in places:
            self._beyond.setdefault(key, set()).add(db)
        if self._beyond:
            self._look()

    def include_no_more(self) -> None:
        """Requests that write to other databases are over."""
        if self._beyond:
            self._beyond = {}
            self._look()

    @property
    def _is_in_one(self) -> bool:
        return len(self._databases) == 1 and not self._beyond

    def _look(self) -> None:
        self._known = self._registry.known(self._databases[0]) if self._is_in_one else _Database()
        self.bounds: Mapping[bytes, int] = self._known.bounds
        # They have what sessions ask of a mapping.
        names = FamilyNames(self.bounds, self._registry.families, self)
        self.managed = cast(Mapping[bytes, int], names)
        ruled = RuledNames(self.managed, self._registry.rules, NOTHING_DUE)
        self._ruled = cast(Mapping[bytes, int], ruled)

    def databases(self) -> list[int]:
        """The logical databases that the client may be in; none where no key is managed."""
        return list(self._databases) if self._registry.families else []

    def places(self, key: bytes) -> list[DbKey]:
        """The places where `key` may be managed."""
        if not self._registry.families.covers(key):
            return []
        return [(db, key) for db in {*self._databases, *self._beyond.get(key, ())}]

    def has_action(self, key: bytes) -> bool | None:
        return self._registry.has_action(key)

    @property
    def families(self) -> Known:
        return self._registry.families

    @property
    def rules(self) -> RuleBook:
        return self._registry.rules

    def manages(self, databases: Iterable[int]) -> None:
        self._registry.manages(databases)

    def expect(self) -> None:
        self._registry.expect()

    def forget_all(self) -> None:
        self._registry.forget_all()
