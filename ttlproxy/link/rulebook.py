"""The rules of ONEXPIRE in each database, as far as this proxy has read them.

A script that acts on them is told their version, and refuses any but that of now: what is known
here may be old, and does no harm.
"""

from __future__ import annotations

from collections.abc import Callable

from redis.asyncio import Redis

from ttlproxy.actions import Actions
from ttlproxy.keys import Keys
from ttlproxy.link.pipeline import run, valid

_NONE = Actions({})


class Rulebook:
    """Rules by database; `on_counting(counts)` is told whether any may have a MAX."""

    def __init__(self, keys: Keys, on_counting: Callable[[bool], None]) -> None:
        self._keys = keys
        self._on_counting = on_counting
        self._known: dict[int, Actions] = {}
        self._changed: set[int] = set()
        self._changes = 0
        self.unheeded: set[int] = set()
        """Databases where keys may have had deadlines before they had a rule."""

    def of(self, db: int) -> Actions:
        """Those that are known of a database."""
        return self._known.get(db, _NONE)

    @property
    def unread(self) -> list[int]:
        """Databases whose rules have changed since they were read."""
        return sorted(self._changed)

    def governs(self, key: bytes) -> bool:
        """Whether a rule may say what becomes of a key's elements, in any database."""
        return bool(self._changed) or any(rules.of(key) for rules in self._known.values() if rules)

    async def learn(self, redis: Redis, db: int) -> None:
        """Reads the rules of a database, unless they are known. Raises redis-py's RedisError."""
        while db not in self._known:
            changes = self._changes
            (reply,) = await run(redis, [(db, (b"HGETALL", self._keys.rules))])
            if changes == self._changes:
                words = valid(reply)
                self._learnt(db, Actions(dict(zip(words[::2], words[1::2], strict=True))))

    def forget(self, *databases: int) -> None:
        """The rules there are other ones now, or may be."""
        self._changes += 1
        self._changed.update(databases)
        for db in databases:
            self._known.pop(db, None)

    def forget_all(self) -> None:
        self.forget(*self._known)

    def flushed(self) -> None:
        """There may be none any more, and where there were none there are none."""
        self.forget(*(db for db, rules in self._known.items() if rules))

    def changed(self, db: int, counts: bool) -> None:
        """They have just changed; `counts`: whether one of them has a MAX."""
        self.forget(db)
        self.unheeded.add(db)
        if counts:
            self._on_counting(True)

    def _learnt(self, db: int, rules: Actions) -> None:
        self._known[db] = rules
        self._changed.discard(db)
        if not self._changed:
            self._on_counting(any(known.counts for known in self._known.values()))
