"""The managed keys that a proxy knows, each with a lower bound of its first deadline.

These are hints: Redis holds the truth. An entry too many costs a reap; a missing entry would be an
error. So a key enters before a request that may make it managed is forwarded, and leaves only when
Redis has said so. Knows no socket and no clock: instants are ms of the Redis server's clock.
"""

from __future__ import annotations

from collections import ChainMap, Counter
from collections.abc import Callable, Collection, Iterable, Mapping, MutableMapping
from itertools import islice
from typing import Any, cast

from ttlproxy.core.families import FamilyNames, Known
from ttlproxy.core.keys import SLOTS
from ttlproxy.core.undo_log import UndoLog
from ttlproxy.core.write_rules import RuleBook, RuledNames

# The bound of a key in which nothing can fall due before its announcement arrives.
NOTHING_DUE = 1 << 62
# The bound of a key in which something may be due already.
UNKNOWN = 0
# How many barriers must be answered before a request counts as carried out: the first of them may
# have been sent before the request.
PIN_BARRIERS = 3
# The most pins that are kept for one connection because its requests may still be on their way.
MOST_KEPT = 4096
# A bound is rounded down by at most 1/1024 of the time left, so that keys share bounds: one number
# per key would cost 32 bytes. A read after the rounded bound costs one reap, which gives a closer.
_CUT = 1024
_MOST_BOUNDS = 8192

Place = tuple[int, bytes]
"""A key in a logical database: (db, key)."""


def _at_once() -> bool:
    return True


def _nothing() -> None:
    pass


class Owner:
    """The owner of pins: a connection to Redis, whose requests may make keys managed.

    has_settled: whether Redis has taken all, and nothing was sent or received since the last call;
      called at most once for each barrier
    is_swamped: the connection never rests and has more pins than are kept: its writes may meet
      deadlines that the registry does not know
    on_swamped: called when that begins
    """

    __slots__ = ("has_settled", "is_swamped", "on_swamped")

    def __init__(
        self,
        has_settled: Callable[[], bool] = _at_once,
        on_swamped: Callable[[], None] = _nothing,
    ) -> None:
        self.has_settled = has_settled
        self.on_swamped = on_swamped
        self.is_swamped = False

    def swamp(self) -> None:
        self.is_swamped = True
        self.on_swamped()

    def end(self) -> None:
        """Nothing more will come from it."""
        self.has_settled = _at_once
        self.on_swamped = _nothing


class _Earliest(ChainMap[bytes, int]):
    """Several databases as one mapping: key -> its earliest bound."""

    def __getitem__(self, key: bytes) -> int:
        bounds = [keys[key] for keys in self.maps if key in keys]
        if not bounds:
            raise KeyError(key)
        return min(bounds)


class Registry:
    """Managed keys by database, and pins for keys that a request on its way may make managed."""

    __slots__ = (
        "_bounds",
        "_dbs",
        "_expected_barriers",
        "_now_ms",
        "_others",
        "_overtaken",
        "_pins",
        "_reaps_under_way",
        "_staged",
        "_swamped",
        "_wake",
        "book",
        "bounds",
        "expecting",
        "families",
        "has_action",
        "managed",
        "names",
        "undo_log",
    )

    def __init__(
        self,
        wake: Callable[[int, int], None] = lambda db, deadline_ms: None,
        has_action: Callable[[bytes], bool] = lambda key: False,
        book: RuleBook | None = None,
        families: Known | None = None,
    ) -> None:
        """`wake(db, deadline_ms)` is called for each announced deadline; `has_action(key)` says
        whether a rule of ONEXPIRE may apply to the key; `book`: the rules of ONWRITE; `families`:
        those whose keys may have deadlines, though it is not known that they have."""
        self._dbs: dict[int, dict[bytes, int]] = {}
        self._bounds: dict[int, int] = {}  # bound -> the int object that keys share
        self._now_ms = NOTHING_DUE  # at the last heartbeat; before the first, no bound is rounded
        # (db, key) -> None if Redis is known to have an index for it, else the owners whose
        # requests may make one. One dict for each barrier.
        self._pins: list[dict[Place, set[Owner] | None]] = [{} for _ in range(PIN_BARRIERS)]
        self._swamped: set[Owner] = set()
        self._staged: dict[int, dict[bytes, int]] | None = None
        # Places of reaps under way -> how many; and those where an announcement came meanwhile.
        self._reaps_under_way: Counter[Place] = Counter()
        self._overtaken: set[Place] = set()
        self._wake = wake
        self.has_action = has_action
        self.book = RuleBook() if book is None else book
        self.families = Known() if families is None else families
        self.bounds: Mapping[bytes, int] = {}
        """key -> its earliest bound in all databases."""
        self.managed: Mapping[bytes, int] = self.bounds
        """The same, where keys of known families are there too: they may have deadlines."""
        self.names: Mapping[bytes, int] = self.bounds
        """The same, where keys that a rule of ONWRITE matches are there too. A look at `bounds`,
        and at how a name begins (`book.begins`), costs less."""
        self.expecting = True
        """Whether announcements may come: of other proxies, or of requests of our own clients."""
        self.undo_log: UndoLog | None = None
        """Of one of several masters: what this registry gives up of database 0."""
        self._others = True
        self._expected_barriers = 0

    def __len__(self) -> int:
        return sum(map(len, self._dbs.values()))

    def databases(self) -> list[int]:
        """The logical databases that have managed keys."""
        return list(self._dbs)

    def listed(self, start: int, count: int) -> list[Place]:
        """At most `count` managed keys from position `start`; positions shift as keys change."""
        found: list[Place] = []
        for db, keys in self._dbs.items():
            found += [(db, key) for key in islice(keys, start, start + count - len(found))]
            start = max(start - len(keys), 0)
        return found

    # For sessions.

    def asker(self, databases: tuple[int, ...]) -> Any:
        """What a session asks, whose client is in one of these databases."""
        return self

    def select(self, databases: tuple[int, ...]) -> None:
        """The client is in one of these databases now: all that matter are known here."""

    def unheard(self, databases: Collection[int]) -> Collection[int]:
        """Those of these databases where something may be due that sessions do not hear of."""
        return ()

    def due(self, key: bytes, now_ms: int) -> list[Place]:
        """The places where `key` may have elements past their deadline."""
        return [(db, key) for db, keys in self._dbs.items() if keys.get(key, now_ms) < now_ms]

    def places(self, key: bytes) -> list[Place]:
        """The places where `key` may be managed."""
        return [(db, key) for db, keys in self._dbs.items() if key in keys]

    def may_have_index(self, key: bytes, owner: Owner) -> bool:
        """Whether `key` is known to be managed, or a request of `owner` may make it managed.

        If not, only a request of another connection that has no reply yet can have made it managed.
        """
        for place in self.places(key):
            pinned = [pins[place] for pins in self._pins if place in pins]
            if not pinned or any(not owners or owner in owners for owners in pinned):
                return True
        return False

    def pin(self, db: int, key: bytes, owner: Owner) -> None:
        """A request of `owner` that may make `key` managed is about to be forwarded."""
        place = (db, key)
        newest = self._pins[0]
        if place in newest:
            owners = newest[place]
            if owners is not None:
                owners.add(owner)
            return
        keys = self._keys(db)
        known = key in keys and all(pins.get(place) is None for pins in self._pins)
        keys.setdefault(key, NOTHING_DUE)
        newest[place] = None if known else {owner}
        self.expecting = True

    def expect(self) -> None:
        """A request that is announced to all proxies is about to be forwarded."""
        self._expected_barriers = PIN_BARRIERS
        self.expecting = True

    # For the link.

    def announced(self, db: int, key: bytes, deadline_ms: int) -> None:
        """An announcement says that the first deadline of `key` is, or was, `deadline_ms`.

        Announcements of one moment come in any order, so the earliest deadline counts.
        """
        for dbs in (self._dbs, self._staged):
            if dbs is not None:
                keys = self._keys(db) if dbs is self._dbs else dbs.setdefault(db, {})
                keys[key] = min(self._bound(deadline_ms), keys.get(key, NOTHING_DUE))
        self.families.learn_of((key,))
        place = (db, key)
        if place in self._reaps_under_way:
            self._overtaken.add(place)
        self._confirm(place, True)
        self._wake(db, deadline_ms)

    def swapped(self, one: int, other: int) -> None:
        """Two databases have changed places: the bounds of their keys become UNKNOWN."""
        self._give_both(one, other, lambda keys: dict.fromkeys(keys, UNKNOWN))

    def perhaps_swapped(self, one: int, other: int) -> None:
        """Two databases may change places: each gets the keys of both, with the earlier bounds."""
        self._give_both(one, other, dict)

    def begin_reap(self, place: Place) -> None:
        """A reap or sweep is about to be sent; `set_first_deadline` may follow, `end_reap` must."""
        self._reaps_under_way[place] += 1

    def end_reap(self, place: Place) -> None:
        """A reap or sweep has been answered, or never will be."""
        self._reaps_under_way[place] -= 1
        if not self._reaps_under_way[place]:
            del self._reaps_under_way[place]
            self._overtaken.discard(place)

    def set_first_deadline(self, place: Place, first_ms: int | None) -> None:
        """A reap found that the first deadline left is `first_ms`; None: the index is gone.

        Ignored if an announcement came after the reap was sent, or while another reap was under
        way: the announcement may be newer.
        """
        db, key = place
        keys = self._dbs.get(db, {})
        if place in self._overtaken or key not in keys:
            return
        if self.undo_log is not None:
            self.undo_log.raised(key, keys[key])
        if first_ms is not None:
            keys[key] = self._bound(first_ms)
        elif self._confirm(place, False):
            keys[key] = NOTHING_DUE
        else:
            del keys[key]
            self._tidy(db)

    def forget(self, has_gone: Callable[[bytes], bool]) -> None:
        """Another server has the keys for which `has_gone` is true."""
        for dbs in (self._dbs, self._staged):
            for keys in (dbs or {}).values():
                for key in list(filter(has_gone, keys)):
                    del keys[key]
        for pins in self._pins:
            for place in [place for place in pins if has_gone(place[1])]:
                del pins[place]
        self._overtaken.update(place for place in self._reaps_under_way if has_gone(place[1]))
        for db in list(self._dbs):
            self._tidy(db)

    def beat(self, now_ms: int) -> None:
        """Redis's clock says `now_ms`."""
        self._now_ms = now_ms

    @property
    def wants_barrier(self) -> bool:
        """Whether the registry waits to learn that forwarded requests have been carried out."""
        return any(self._pins) or self._expected_barriers > 0 or bool(self._swamped)

    def barrier(self) -> None:
        """Redis has answered a barrier that was sent after the last call of this method.

        The oldest pins end, except those of connections that have not come to rest since.
        """
        ended = self._pins.pop()
        self._pins.insert(0, {})
        owners = self._swamped.union(*filter(None, ended.values()))
        restless = {owner for owner in owners if not owner.has_settled()}
        self._keep(ended, restless)
        for place, pin in ended.items():
            if pin is not None and not any(place in pins for pins in self._pins):
                self._unpin(place)
        for db in {place[0] for place in ended}:
            self._tidy(db)
        self._expected_barriers = max(self._expected_barriers - 1, 0)
        self.others(self._others)

    def _unpin(self, place: Place) -> None:
        """No request on its way can make this key managed, and no announcement has said so."""
        self._dbs.get(place[0], {}).pop(place[1], None)

    @property
    def has_others(self) -> bool:
        """Whether another proxy may announce something."""
        return self._others

    def others(self, may_be: bool) -> None:
        """Sets whether another proxy may announce something."""
        self._others = may_be
        self.expecting = may_be or any(self._pins) or self._expected_barriers > 0

    # Loading: entries too many only cost reaps, so the old ones stay until the new are complete.

    def begin_load(self, now_ms: int = NOTHING_DUE) -> None:
        """The schedules are about to be read; from now on announcements change old and new entries.

        Some may have been missed before, so replies to reaps that are under way are ignored.
        """
        self._now_ms = now_ms
        self._staged = {}
        self._overtaken.update(self._reaps_under_way)

    def load(self, db: int, bounds: Iterable[tuple[bytes, int]]) -> None:
        """Adds entries of a database's schedule: (key, lower bound in ms)."""
        if self._staged is None:
            raise RuntimeError("load outside begin_load and end_load")
        keys = self._staged.setdefault(db, {})
        for key, bound in bounds:
            keys[key] = min(self._bound(bound), keys.get(key, NOTHING_DUE))
        self.families.learn_of(keys)

    @property
    def loaded(self) -> int:
        """How many keys were read since `begin_load`."""
        return sum(map(len, (self._staged or {}).values()))

    def entries(self, db: int) -> dict[bytes, int]:
        """A copy of what is known of a database: key -> bound in ms."""
        return dict(self._dbs.get(db, {}))

    def adopt(self, db: int, entries: dict[bytes, int]) -> None:
        """Adds entries that another registry had. The caller gives them away.

        As `load`, which takes 0.5 us for each.
        """
        if self._staged is None:
            raise RuntimeError("adopt outside begin_load and end_load")
        self.families.learn_of(entries)
        for key, bound in self._staged.get(db, {}).items():
            entries[key] = min(bound, entries.get(key, bound))
        self._staged[db] = entries

    def load_known(self, db: int) -> None:
        """The schedule of a database cannot be read: its known entries stay."""
        self.load(db, self._dbs.get(db, {}).items())

    def end_load(self) -> None:
        """All schedules are read: keys that are neither in them nor pinned are forgotten."""
        if self._staged is None:
            raise RuntimeError("end_load without begin_load")
        self._dbs = {db: keys for db, keys in self._staged.items() if keys}
        self._staged = None
        if self.undo_log is not None:
            self.undo_log.interrupted(range(SLOTS))
        pinned = {place for pins in self._pins for place in pins}
        known = {(db, key) for db, key in pinned if key in self._dbs.get(db, {})}
        for pins in self._pins:
            for place, owners in pins.items():
                pins[place] = None if place in known else owners or set()
        for db, key in pinned:
            self._keys(db).setdefault(key, NOTHING_DUE)
        self._publish()

    # Inside.

    def _give_both(
        self, one: int, other: int, bounds: Callable[[_Earliest], dict[bytes, int]]
    ) -> None:
        """Gives two databases the keys of both, with the `bounds` that these have then."""
        for dbs in (self._dbs, self._staged):
            if dbs is not None:
                keys = bounds(_Earliest(dbs.get(one, {}), dbs.get(other, {})))
                dbs[one], dbs[other] = keys, dict(keys)
        self._overtaken.update(place for place in self._reaps_under_way if place[0] in (one, other))
        self._tidy(one)
        self._tidy(other)
        self._publish()

    def _bound(self, deadline_ms: int) -> int:
        """The bound to keep for a deadline: rounded down, but exact if the deadline is near."""
        left_ms = deadline_ms - self._now_ms
        if left_ms < _CUT:
            return deadline_ms
        step_ms = 1 << (left_ms // _CUT).bit_length() - 1
        if len(self._bounds) > _MOST_BOUNDS:
            self._bounds.clear()
        cut = deadline_ms - deadline_ms % step_ms
        return self._bounds.setdefault(cut, cut)

    def _keys(self, db: int) -> MutableMapping[bytes, int]:
        keys = self._dbs.get(db)
        if keys is None:
            keys = self._dbs[db] = {}
            self._publish()
        return keys

    def _confirm(self, place: Place, known: bool) -> bool:
        """Notes in each pin of `place` whether an index is known; gives whether there is a pin."""
        pinned = [pins for pins in self._pins if place in pins]
        for pins in pinned:
            pins[place] = None if known else pins[place] or set()
        return bool(pinned)

    def _keep(self, ended: dict[Place, set[Owner] | None], restless: set[Owner]) -> None:
        """Keeps the pins of connections that have not come to rest among the oldest pins.

        A connection with too many pins loses them and is swamped until it rests.
        """
        counts: Counter[Owner] = Counter()
        for owners in ended.values():
            counts.update(restless.intersection(owners or ()))
        swamped = {owner for owner in restless if counts[owner] > MOST_KEPT or owner.is_swamped}
        for owner in swamped - self._swamped:
            owner.swamp()
        for owner in self._swamped - swamped:
            owner.is_swamped = False
        self._swamped = swamped
        oldest = self._pins[-1]
        for place, owners in ended.items():
            staying = restless.intersection(owners or ()) - swamped
            if staying and oldest.get(place, staying) is not None:
                oldest[place] = staying.union(oldest.get(place) or ())

    def _tidy(self, db: int) -> None:
        if db in self._dbs and not self._dbs[db]:
            del self._dbs[db]
            self._publish()

    def _publish(self) -> None:
        """`names` is one plain dict if at most one database has managed keys: nearly always."""
        dbs = list(self._dbs.values()) or [{}]
        managed: Mapping[bytes, int] = dbs[0] if len(dbs) == 1 else _Earliest(*dbs)
        self.bounds = self.managed = self.names = managed
        # What follows has what sessions ask of a mapping.
        if self.families:
            names = FamilyNames(managed, self.families, NOTHING_DUE)
            self.managed = self.names = cast(Mapping[bytes, int], names)
        if self.book:
            ruled = RuledNames(self.managed, self.book, NOTHING_DUE)
            self.names = cast(Mapping[bytes, int], ruled)

    def rules_changed(self) -> None:
        """The rules of ONWRITE are others now, or in doubt."""
        self._publish()

    def families_changed(self) -> None:
        """There is a new family."""
        self.book.cover(self.families.heads)
        self._publish()
