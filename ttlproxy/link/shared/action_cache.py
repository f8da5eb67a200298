"""The rules of ONEXPIRE and ONWRITE in each database that this proxy has read.

A script that acts on rules is given their version, and refuses all but the current one. So old
rules here do no harm. In front of a Cluster each slot knows the version; a script refuses older
ones. Clients may write to the list of rules, so a known rule ends only with its own key, and a rule
that no proxy has signed is ignored.
"""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable

from redis.asyncio import Redis
from redis.exceptions import ResponseError

from ttlproxy.core.expiry_actions import Actions, listed, verified
from ttlproxy.core.keys import Keys
from ttlproxy.core.signing import Signer
from ttlproxy.core.write_rules import RuleBook, WriteRules, parted
from ttlproxy.link.connecting.failures import Refusals, is_wrong_type
from ttlproxy.link.connecting.pipeline import run, valid

_NONE = Actions({})
# After this many attempts older rules are used: constant changes must not keep others from reaping.
_PATIENCE = 3
# As the version: the script accepts any rules.
_ANY = b"*"
_TOGETHER = 500


class ActionCache:
    """The rules by database; all masters of a Cluster share one cache. `keys`: of the server that
    is read."""

    def __init__(self, keys: Keys, signer: Signer, refusals: Refusals) -> None:
        self._keys = keys
        self._signer = signer
        self._refusals = refusals
        self._observers: list[Callable[[bool, bool], None]] = []
        self._known: dict[int, Actions] = {}
        # All patterns ever known of a database, until their keys are gone.
        self._patterns: defaultdict[int, set[bytes]] = defaultdict(set)
        self._outdated: Counter[int] = Counter()  # calls in a row with an old version
        self._changed: set[int] = set()
        self._rewound: dict[int, bytes] = {}
        self._changes = 0
        self.rules = RuleBook()
        """The rules of ONWRITE."""
        self._reading: asyncio.Future[None] | None = None  # while rules of ONWRITE are in doubt
        self._write_observers: list[Callable[[], None]] = []
        self.set_anew: Counter[int] = Counter()
        """How often a rule of a database was set: keys may have had deadlines before."""

    def add_observer(self, observer: Callable[[bool, bool], None]) -> None:
        """Calls `observer(ruled, counting)` now and after changes: whether there may be rules, and
        rules with a MAX."""
        self._observers.append(observer)
        known = self._known.values()
        observer(any(known), any(rules.counts for rules in known))

    def remove_observer(self, observer: Callable[[bool, bool], None]) -> None:
        """Calls this observer no more."""
        self._observers.remove(observer)

    def add_write_observer(self, observer: Callable[[], None]) -> None:
        """Calls `observer()` from now on when what sessions ask of `rules` may have changed."""
        self._write_observers.append(observer)

    def reading(self) -> asyncio.Future[None]:
        """Returns a future that is done when no rule of ONWRITE is in doubt."""
        loop = asyncio.get_running_loop()
        if self._reading is None:
            self._reading = loop.create_future()
            if not self.rules.in_doubt:
                self._reading.set_result(None)
        return self._reading

    @property
    def has_rules(self) -> bool:
        """Whether there are rules, as far as is known; while rules are to be read again, the old
        ones may still be there."""
        return bool(self.rules) or any(self._known.values()) or any(self._patterns.values())

    def knows(self, db: int) -> bool:
        return db in self._known

    def of(self, db: int) -> Actions:
        """Returns the known rules of a database."""
        return self._known.get(db, _NONE)

    def version(self, db: int) -> bytes:
        """Returns the version of these rules, for a script."""
        known = self.of(db).version
        if self._outdated[db] >= _PATIENCE or self._rewound.get(db) == known:
            return _ANY
        return b"+" + known if self._keys.clustered else known

    def accepted(self, db: int) -> None:
        """Notes that a script has accepted the version."""
        del self._outdated[db]

    def refused(self, db: int) -> None:
        """Notes that a script has refused the version, because the rules have changed.

        In a Cluster the rules are written before the slots are told. If the same version is read
        again, the home slot was flushed, or has lost its last writes in a failover.
        """
        self._outdated[db] += 1
        if self._keys.clustered and db in self._known:  # else another refusal came first
            self._rewound[db] = self.of(db).version
        self.forget(db)

    def named(self, db: int, patterns: Iterable[bytes]) -> None:
        """Notes that rules for these patterns have keys, whether or not the list has them."""
        self._patterns[db].update(patterns)

    @property
    def unread(self) -> list[int]:
        """Databases whose rules have changed since they were read."""
        return sorted(self._changed | self.rules.in_doubt)

    def has_action(self, key: bytes) -> bool | None:
        """Whether a rule of any database may apply to a key; None if one that is not read may."""
        if any(rules.of(key) for rules in self._known.values() if rules):
            return True
        return None if self._changed else False

    async def read(self, redis: Redis, db: int) -> None:
        """Reads the rules of a database, unless they are known. Raises redis-py's RedisError.

        If they change again and again meanwhile, those of ONWRITE are in doubt afterwards: no
        script refuses old ones.
        """
        for _ in range(_PATIENCE):
            if db in self._known and db not in self.rules.in_doubt:
                return
            changes = self._changes
            actions, of_writes = await self._read(redis, db)
            if changes == self._changes:
                self._learnt(db, actions)
                self._learnt_of_writes(db, of_writes)
                return
        self._learnt(db, actions)
        if of_writes or self.rules:
            self._doubt([db])

    def drop_rules(self, db: int) -> None:
        """Notes that the rules of a database cannot be read: until they are, no rule of ONWRITE
        counts there."""
        self._learnt_of_writes(db, WriteRules({}))

    async def _read(self, redis: Redis, db: int) -> tuple[Actions, WriteRules]:
        version, patterns = await self._listed(redis, db)
        wanted = sorted(patterns | self._patterns[db])
        values: list[bytes | None] = []
        for at in range(0, len(wanted), _TOGETHER):
            names = map(self._keys.rule, wanted[at : at + _TOGETHER])
            (reply,) = await run(redis, [(db, (b"MGET", *names))])
            values += valid(reply)
        found = {name: value for name, value in zip(wanted, values, strict=True) if value}
        self._patterns[db].update(found)
        self._patterns[db].difference_update(name for name in wanted if name not in found)
        rows = {name: verified(value, name, self._signer) for name, value in found.items()}
        signed = {name: row for name, row in rows.items() if row is not None}
        if len(signed) < len(found):
            self._refusals.unsigned("rule", db, len(found) - len(signed))
        acting = {name: row for name, row in signed.items() if parted(name) is None}
        return Actions(acting, version), WriteRules(signed)

    async def _listed(self, redis: Redis, db: int) -> tuple[bytes, set[bytes]]:
        (reply,) = await run(redis, [(db, (b"HGETALL", self._keys.home(self._keys.rules)))])
        if isinstance(reply, ResponseError) and is_wrong_type(reply):
            return b"", set()
        return listed(valid(reply))

    def version_announced(self, version: bytes) -> None:
        """Takes the version of the rules that slots of a Cluster know, empty if the rules may be
        gone. After a flush a slot may know a newer one than the home slot."""
        if not version or _number(version) > _number(self.of(0).version):
            self.forget(0)
            self._doubt([0])

    def home_has(self, version: bytes) -> None:
        """Takes the version that is in force in a Cluster, if changes may have been missed."""
        if version != self.of(0).version:
            self.forget(0)

    def forget(self, *databases: int) -> None:
        """Notes that the rules there have changed, or may have."""
        self._changes += 1
        self._changed.update(databases)
        together = set[bytes]().union(*(self._patterns[db] for db in databases))
        for db in databases:  # two databases may have been swapped
            self._known.pop(db, None)
            self._patterns[db] |= together
        if self.rules.has_rules:
            self._doubt(databases)

    def forget_all(self) -> None:
        self._changes += 1  # rules may just be read for the first time
        for db in list(self._known):
            self.forget(db)

    def changed(self, db: int, counts: bool, pattern: bytes) -> None:
        """Notes that the rule of a pattern has just changed; `counts`: whether it has a MAX."""
        self.forget(db)
        self._patterns[db].add(pattern)
        if parted(pattern) is not None:
            self._doubt([db])
            return
        self.set_anew[db] += 1
        self._say(True, counts or any(known.counts for known in self._known.values()))

    def _learnt(self, db: int, rules: Actions) -> None:
        self._known[db] = rules
        self._changed.discard(db)
        if not self._changed:
            known = self._known.values()
            self._say(any(known), any(rules.counts for rules in known))

    def _doubt(self, databases: Iterable[int]) -> None:
        self.rules.doubt(databases)
        if self._reading is not None and self._reading.done():
            self._reading = None
        self._say_of_writes()

    def _learnt_of_writes(self, db: int, rules: WriteRules) -> None:
        if self.rules.replace(db, rules):
            self._say_of_writes()
        if not (self.rules.in_doubt or self._reading is None or self._reading.done()):
            self._reading.set_result(None)

    def _say_of_writes(self) -> None:
        for observer in self._write_observers:
            observer()

    def _say(self, ruled: bool, counting: bool) -> None:
        for observer in self._observers:
            observer(ruled, counting)


def _number(version: bytes) -> int:
    return int(version) if version.isdigit() else 0
