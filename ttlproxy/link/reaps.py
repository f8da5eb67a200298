"""Reaps on behalf of sessions: those that ask in the same moment share one round trip."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeAlias

from redis.asyncio import Redis
from redis.backoff import ExponentialWithJitterBackoff
from redis.exceptions import NoScriptError, ReadOnlyError, ResponseError

from ttlproxy.caller import Caller
from ttlproxy.commands import Call
from ttlproxy.errors import UpstreamError
from ttlproxy.link.clock import ServerClock
from ttlproxy.link.pipeline import run
from ttlproxy.link.sweeps import Sweep
from ttlproxy.metrics import Metrics
from ttlproxy.registry import Place, Registry

# Elements that a key may always lose in one call, however many keys share the batch.
_LEAST = 16
_BACKOFF = ExponentialWithJitterBackoff(cap=0.5, base=0.01)


Due: TypeAlias = Callable[[Redis, Iterable[int], int], Awaitable[list[Place]]]
"""Some of the keys in these databases that need attention at an instant: see Link.due."""


class Reap:
    """The reap script: called for a number of keys at once, its answers written down."""

    def __init__(
        self, caller: Caller, registry: Registry, clock: ServerClock, metrics: Metrics
    ) -> None:
        self._caller = caller
        self._registry = registry
        self._clock = clock
        self._metrics = metrics

    async def __call__(
        self, redis: Redis, limits: dict[Place, int]
    ) -> tuple[set[Place], set[Place]]:
        """Removes due elements, at most `limits[place]` at each place.

        Gives the places where more may be due, and those whose index has entries without an
        element. Raises redis-py's exceptions.
        """
        sent = self._clock.reading()
        for place in limits:
            self._registry.reaping(place)
        try:
            replies = await run(
                redis, ((place[0], self._words(place, limit)) for place, limit in limits.items())
            )
            return self._learn(limits, replies, sent)
        finally:
            for place in limits:
                self._registry.no_longer_reaping(place)

    def _learn(
        self, limits: dict[Place, int], replies: list[object], sent: float
    ) -> tuple[set[Place], set[Place]]:
        """Writes the answers down; gives what `__call__` does."""
        more, ghosts = set(), set()
        for place, reply in zip(limits, replies, strict=True):
            if isinstance(reply, NoScriptError):
                self._caller.flushed()
                more.add(place)
                continue
            if isinstance(reply, Exception):
                raise reply
            assert isinstance(reply, list)
            now_ms, removed, first_ms, has_ghosts, kind = reply
            self._clock.learn(now_ms, sent)
            self._registry.reaped(place, first_ms if first_ms >= 0 else None)
            self._metrics.reaped(kind.decode(), removed)
            if 0 <= first_ms < now_ms:
                more.add(place)
            elif has_ghosts:
                ghosts.add(place)
        return more, ghosts

    def _words(self, place: Place, limit: int) -> tuple[bytes, ...]:
        db, key = place
        call = Call("reap", (key,), (b"%d" % limit,))
        return self._caller.words(call, b"%d" % db)


class SessionReaps:
    """Gathers what sessions want reaped; one round trip at a time."""

    def __init__(
        self,
        reap: Reap,
        sweep: Sweep,
        due: Due,
        clock: ServerClock,
        redis: Redis,
        batch: int,
        on_ghosts: Callable[[Iterable[Place]], None],
    ) -> None:
        self._reap = reap
        self._sweep = sweep
        self._due = due
        self._clock = clock
        self._redis = redis
        self._batch = batch
        self._on_ghosts = on_ghosts
        self._wanted: set[Place] = set()
        self._databases: set[int] = set()
        self._unswept: set[Place] = set()
        self._done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._asked = asyncio.Event()

    def ask(
        self, places: Iterable[Place], databases: Iterable[int], unswept: Iterable[Place]
    ) -> asyncio.Future[None]:
        """Done when what was due, at the time of asking, is gone: there, and in those databases.

        And when what is `unswept` has been swept.
        """
        self._wanted.update(places)
        self._databases.update(databases)
        self._unswept.update(unswept)
        self._asked.set()
        return self._done

    async def run(self) -> None:
        """Serves until cancelled; a failure ends it, and those who wait get an UpstreamError."""
        while True:
            await self._asked.wait()
            wanted, databases, unswept = self._wanted, self._databases, self._unswept
            done = self._done
            self._wanted, self._databases, self._unswept = set(), set(), set()
            self._done = asyncio.get_running_loop().create_future()
            self._asked.clear()
            try:
                await self._serve(wanted, databases, unswept)
            except BaseException:
                _fail(done)
                raise
            done.set_result(None)

    def stop(self) -> None:
        """Sessions that still wait have to ask anew."""
        _fail(self._done)

    async def _serve(self, places: set[Place], databases: set[int], unswept: set[Place]) -> None:
        now_ms, failures = self._clock.now_ms(), 0
        met: set[Place] = set()
        while True:
            try:
                for place in list(unswept):
                    await self._sweep(self._redis, place)
                    unswept.remove(place)
                if databases and not places:
                    # Once for each: what is due by the clock here may not yet be by the server's.
                    places = set(await self._due(self._redis, databases, now_ms)) - met
                    met |= places
                if not places:
                    return
                limit = max(self._batch // len(places), _LEAST)
                places, ghosts = await self._reap(self._redis, dict.fromkeys(places, limit))
            except ReadOnlyError:
                return  # before a replica nothing can be reaped: reads pass
            except ResponseError:
                # BUSY, LOADING, MASTERDOWN: it passes. How long a session waits is its own matter.
                failures += 1
                await asyncio.sleep(_BACKOFF.compute(failures))
                continue
            self._on_ghosts(ghosts)


def _fail(done: asyncio.Future[None]) -> None:
    done.set_exception(UpstreamError("the link was lost"))
    done.exception()  # nobody need be waiting
