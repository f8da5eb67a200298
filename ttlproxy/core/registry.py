"""What a proxy knows of managed keys: a lower bound of each one's first deadline.

Hints only: Redis holds the truth. An entry too many costs a reap; a missing one would be an error,
so a key enters before the request that may make it managed is forwarded, and leaves only when Redis
has said so. Knows no socket and no clock: instants come in as ms of the Redis server's clock.
"""

from __future__ import annotations

from collections import ChainMap, Counter
from collections.abc import Callable, Iterable, Mapping, MutableMapping
from itertools import islice

# Of a key that nothing can fall due in before its announcement arrives.
NOTHING_DUE = 1 << 62
# Of a key that anything may be due in.
UNKNOWN = 0
# Barriers that must have been passed since a request before it counts as carried out: the first may
# have been sent before it was.
PIN_BARRIERS = 3
# Pins of one connection that are kept because requests of its own may still be on their way.
MOST_KEPT = 4096
# Bounds are cut by at most this part of the time left, so that keys share them: a number of its own
# costs 32 bytes a key. What is read in the time that was cut off is reaped once, which tells more.
_CUT = 1024
_MOST_BOUNDS = 8192

Place = tuple[int, bytes]
"""A key in a logical database: (db, key)."""


def _at_once() -> bool:
    return True


def _nothing() -> None:
    pass


class Owner:
    """Whose requests pins stand for: a connection to Redis.

    has_settled: asked at most once for each barrier; whether nothing was given to the connection or
      came from it since it was last asked
    is_swamped: it goes on without a rest, and has had more pins than are kept: whatever it writes
      may meet a deadline that the registry does not know of
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
    """Several databases as one: the earliest bound of a key."""

    def __getitem__(self, key: bytes) -> int:
        bounds = [keys[key] for keys in self.maps if key in keys]
        if not bounds:
            raise KeyError(key)
        return min(bounds)


class Registry:
    """Managed keys by database, with pins for those that a request on its way may make managed."""

    __slots__ = (
        "_bounds",
        "_dbs",
        "_expected_barriers",
        "_now_ms",
        "_others",
        "_overtaken",
        "_pins",
        "_reaping",
        "_staged",
        "_swamped",
        "_wake",
        "expecting",
        "has_action",
        "names",
    )

    def __init__(
        self,
        wake: Callable[[int, int], None] = lambda db, deadline_ms: None,
        has_action: Callable[[bytes], bool] = lambda key: False,
    ) -> None:
        """`wake(db, deadline_ms)` is called for each announced deadline; `has_action(key)`:
        whether a rule of ONEXPIRE may say what becomes of a key's elements."""
        self._dbs: dict[int, dict[bytes, int]] = {}
        self._bounds: dict[int, int] = {}  # each by itself: those that keys share
        self._now_ms = NOTHING_DUE  # at the last heartbeat: nothing is far before the first
        # (db, key) -> None where Redis is known to have an index for it, else whose requests may
        # make one. One dict for each barrier.
        self._pins: list[dict[Place, set[Owner] | None]] = [{} for _ in range(PIN_BARRIERS)]
        self._swamped: set[Owner] = set()
        self._staged: dict[int, dict[bytes, int]] | None = None
        # Places of reaps that are out -> how many, and those where an announcement came meanwhile.
        self._reaping: Counter[Place] = Counter()
        self._overtaken: set[Place] = set()
        self._wake = wake
        self.has_action = has_action
        self.names: Mapping[bytes, int] = {}
        """key -> bound, the earliest of all databases: what a session asks first."""
        self.expecting = True
        """Whether anything may be announced: by others, or by a request of our own clients."""
        self._others = True
        self._expected_barriers = 0

    def __len__(self) -> int:
        return sum(map(len, self._dbs.values()))

    def databases(self) -> list[int]:
        """The logical databases that have managed keys."""
        return list(self._dbs)

    def listed(self, start: int, count: int) -> list[Place]:
        """So many of the managed keys, from one number on; keys that come or go move the others."""
        found: list[Place] = []
        for db, keys in self._dbs.items():
            found += [(db, key) for key in islice(keys, start, start + count - len(found))]
            start = max(start - len(keys), 0)
        return found

    # What sessions ask and say.

    def due(self, key: bytes, now_ms: int) -> list[Place]:
        """Where `key` has, or may have, elements past their deadline."""
        return [(db, key) for db, keys in self._dbs.items() if keys.get(key, now_ms) < now_ms]

    def places(self, key: bytes) -> list[Place]:
        """Where `key` is, or may be, managed."""
        return [(db, key) for db, keys in self._dbs.items() if key in keys]

    def may_have_index(self, key: bytes, owner: Owner) -> bool:
        """Whether `key` is known to be managed, or may be made so by a request of `owner`.

        Else it is managed at most by what others have asked for, and have no reply to.
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
        """A request that all proxies will be told of is about to be forwarded."""
        self._expected_barriers = PIN_BARRIERS
        self.expecting = True

    # What the link says.

    def announced(self, db: int, key: bytes, deadline_ms: int) -> None:
        """Redis says that the first deadline of `key` is `deadline_ms`, or was in between.

        Announcements of one moment come in no particular order, so the earliest counts.
        """
        for dbs in (self._dbs, self._staged):
            if dbs is not None:
                keys = self._keys(db) if dbs is self._dbs else dbs.setdefault(db, {})
                keys[key] = min(self._bound(deadline_ms), keys.get(key, NOTHING_DUE))
        place = (db, key)
        if place in self._reaping:
            self._overtaken.add(place)
        self._confirm(place, True)
        self._wake(db, deadline_ms)

    def swapped(self, one: int, other: int) -> None:
        """Two databases have changed places: what was known of each key's bound is not any more."""
        for dbs in (self._dbs, self._staged):
            if dbs is not None:
                keys = dict.fromkeys({**dbs.get(one, {}), **dbs.get(other, {})}, UNKNOWN)
                dbs[one], dbs[other] = keys, dict(keys)
        self._overtaken.update(place for place in self._reaping if place[0] in (one, other))
        self._tidy(one)
        self._tidy(other)
        self._publish()

    def perhaps_swapped(self, one: int, other: int) -> None:
        """Two databases may change places: each has the keys of both, and their earlier bounds."""
        for dbs in (self._dbs, self._staged):
            if dbs is not None:
                keys = dict(_Earliest(dbs.get(one, {}), dbs.get(other, {})))
                dbs[one], dbs[other] = keys, dict(keys)
        self._overtaken.update(place for place in self._reaping if place[0] in (one, other))
        self._tidy(one)
        self._tidy(other)
        self._publish()

    def reaping(self, place: Place) -> None:
        """A reap or sweep is about to be sent; `reaped` may follow, `no_longer_reaping` will."""
        self._reaping[place] += 1

    def no_longer_reaping(self, place: Place) -> None:
        """A reap has been answered, or never will be."""
        self._reaping[place] -= 1
        if not self._reaping[place]:
            del self._reaping[place]
            self._overtaken.discard(place)

    def reaped(self, place: Place, first_ms: int | None) -> None:
        """A reap found `first_ms` as the first deadline left, or None: no index.

        Nothing is learnt from it where an announcement came since the reap was sent, or while
        another one was out: the answer may be older than that.
        """
        db, key = place
        keys = self._dbs.get(db, {})
        if place in self._overtaken or key not in keys:
            return
        if first_ms is not None:
            keys[key] = self._bound(first_ms)
        elif self._confirm(place, False):
            keys[key] = NOTHING_DUE
        else:
            del keys[key]
            self._tidy(db)

    def beat(self, now_ms: int) -> None:
        """It is so late by Redis's clock."""
        self._now_ms = now_ms

    @property
    def wants_barrier(self) -> bool:
        """Whether it matters here that what was forwarded has been carried out."""
        return any(self._pins) or self._expected_barriers > 0 or bool(self._swamped)

    def barrier(self) -> None:
        """Redis carries out writes: it has answered one that was sent after the last call of this.

        The oldest pins end, but for those of connections that have not come to rest since.
        """
        ended = self._pins.pop()
        self._pins.insert(0, {})
        owners = self._swamped.union(*filter(None, ended.values()))
        restless = {owner for owner in owners if not owner.has_settled()}
        self._keep(ended, restless)
        for place, pin in ended.items():
            if pin is not None and not any(place in pins for pins in self._pins):
                self._dbs.get(place[0], {}).pop(place[1], None)
        for db in {place[0] for place in ended}:
            self._tidy(db)
        self._expected_barriers = max(self._expected_barriers - 1, 0)
        self.others(self._others)

    def others(self, may_be: bool) -> None:
        """Whether another proxy may announce something."""
        self._others = may_be
        self.expecting = may_be or any(self._pins) or self._expected_barriers > 0

    # Loading: false positives only cost a reap, so the old entries stay until the new are whole.

    def begin_load(self, now_ms: int = NOTHING_DUE) -> None:
        """The schedules are about to be read; announcements count for both from here on.

        Some may have been missed before: the answers of reaps that are out may be older than those.
        """
        self._now_ms = now_ms
        self._staged = {}
        self._overtaken.update(self._reaping)

    def load(self, db: int, bounds: Iterable[tuple[bytes, int]]) -> None:
        """Entries of the schedule of a database: (key, lower bound in ms)."""
        if self._staged is None:
            raise RuntimeError("load outside begin_load and end_load")
        keys = self._staged.setdefault(db, {})
        for key, bound in bounds:
            keys[key] = min(self._bound(bound), keys.get(key, NOTHING_DUE))

    def load_known(self, db: int) -> None:
        """The schedule of a database cannot be read: what was known of it stays."""
        self.load(db, self._dbs.get(db, {}).items())

    def end_load(self) -> None:
        """All schedules are read: what is neither in them nor pinned is forgotten."""
        if self._staged is None:
            raise RuntimeError("end_load without begin_load")
        self._dbs = {db: keys for db, keys in self._staged.items() if keys}
        self._staged = None
        for pins in self._pins:
            for (db, key), owners in pins.items():
                known = key in self._keys(db)
                pins[db, key] = None if known else owners or set()
                self._dbs[db].setdefault(key, NOTHING_DUE)
        self._publish()

    # Inside.

    def _bound(self, deadline_ms: int) -> int:
        """What to remember of a deadline: exact where it is near."""
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
        """Notes for each pin of `place` whether it is known to have an index; is there a pin?"""
        pinned = [pins for pins in self._pins if place in pins]
        for pins in pinned:
            pins[place] = None if known else pins[place] or set()
        return bool(pinned)

    def _keep(self, ended: dict[Place, set[Owner] | None], restless: set[Owner]) -> None:
        """Pins of connections that have not come to rest stay among the oldest.

        Not where one has too many: it is told so, until it rests.
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
        """One dict where at most one database has managed keys, which is nearly always."""
        dbs = list(self._dbs.values()) or [{}]
        self.names = dbs[0] if len(dbs) == 1 else _Earliest(*dbs)
