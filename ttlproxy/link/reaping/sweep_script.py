"""Sweeps: drops index entries whose element is gone, one page of an index at a time.

A sweep also tells the registry which keys have no index any more.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import compress

from redis.asyncio import Redis
from redis.exceptions import ResponseError

from ttlproxy.commands import Call
from ttlproxy.core.counters import Counters
from ttlproxy.core.registry import Place
from ttlproxy.link.connecting.pipeline import KEYS_PER_CALL, valid
from ttlproxy.link.connecting.refusals import is_elsewhere
from ttlproxy.link.connecting.single_calls import answered
from ttlproxy.link.shared.context import Context

_PAGE = b"500"


class SweepScript:
    """The sweep script, called until it has gone through a whole index."""

    def __init__(self, context: Context, counters: Counters) -> None:
        self._keys = context.keys
        self._script_calls = context.script_calls
        self._context = context
        self._counters = counters
        self._refusals = context.refusals

    async def __call__(self, redis: Redis, place: Place) -> ResponseError | None:
        """Sweeps one index; returns Redis's error if it refuses, else None.

        Raises redis-py's ConnectionError or TimeoutError.
        """
        cursor = b"0"
        while True:
            try:
                cursor, dropped = await self._page(redis, place, cursor)
            except ResponseError as refusal:
                self._refusals.note(f"to sweep in database {place[0]}", refusal)
                return refusal
            self._counters.swept_entries += dropped
            if cursor == b"0":
                return None

    async def with_index(self, redis: Redis, places: Iterable[Place]) -> list[Place]:
        """The places that have, or may have, an index; at the others there is nothing to sweep.

        Raises redis-py's ConnectionError or TimeoutError.
        """
        keys: dict[tuple[int, int], list[bytes]] = {}
        for db, key in places:
            keys.setdefault((db, self._keys.together(db, key)), []).append(key)
        found: list[Place] = []
        for (db, _), all_keys in keys.items():
            for at in range(0, len(all_keys), KEYS_PER_CALL):
                found += await self._look(redis, db, all_keys[at : at + KEYS_PER_CALL])
        return found

    async def _look(self, redis: Redis, db: int, keys: Sequence[bytes]) -> list[Place]:
        try:
            firsts = await self._firsts(redis, db, Call("keys_first", keys, ()))
        except ResponseError as refusal:
            if is_elsewhere(refusal):
                places = [(db, key) for key in keys]
                found = await self._context.may_be_indexed(redis, places)
                return list(compress(places, found))
            return [(db, key) for key in keys]  # the sweep will be refused as well, and reports it
        return [place for place, first_ms in firsts.items() if first_ms != -1]

    async def must_be_swept(
        self, redis: Redis, db: int, keys: Sequence[bytes], turn: int
    ) -> list[Place]:
        """The places whose index must be swept: see keys_recheck.lua.

        The registry learns of the others. Raises redis-py's RedisError.
        """
        firsts = await self._firsts(redis, db, Call("keys_recheck", keys, (b"%d" % turn,)))
        return [place for place, first_ms in firsts.items() if first_ms is None]

    async def _firsts(self, redis: Redis, db: int, call: Call) -> dict[Place, int | None]:
        """The first deadline of each key, as the script tells it: see `_learn`."""
        places = [(db, key) for key in call.keys]
        with self._asking(places):
            reply = valid(await answered(redis, self._script_calls, db, call))
            firsts = dict(zip(places, reply, strict=True))
            for place, first_ms in firsts.items():
                self._learn(place, first_ms)
        return firsts

    async def _page(self, redis: Redis, place: Place, cursor: bytes) -> tuple[bytes, int]:
        """Sweeps a page; returns the next cursor, and how many entries were dropped."""
        db, key = place
        call = Call("sweep", (key,), (cursor, _PAGE))
        with self._asking([place]):
            following, dropped, first_ms = valid(
                await answered(redis, self._script_calls, db, call)
            )
            self._learn(place, first_ms)
        return following, dropped

    @contextmanager
    def _asking(self, places: Sequence[Place]) -> Iterator[None]:
        """An announcement that comes within this counts more than what is learnt within."""
        registry = self._context.registry
        for place in places:
            registry.begin_reap(place)
        try:
            yield
        finally:
            for place in places:
                registry.end_reap(place)

    def _learn(self, place: Place, first_ms: int | None) -> None:
        """`first_ms`: the first deadline left in ms, -1 without an index, None if not told."""
        if first_ms is not None:
            self._context.registry.set_first_deadline(place, first_ms if first_ms >= 0 else None)
