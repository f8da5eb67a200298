"""Reaps for sessions: requests that come at the same moment share one round trip.

If Redis refuses something, only the sessions that wait for it are held up. It is tried again, with
pauses, until it is done or nobody waits any more.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

from redis.asyncio import Redis
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import MovedError, ReadOnlyError, ResponseError

from ttlproxy.core.registry import DbKey
from ttlproxy.errors import SlotMoved, UpstreamError
from ttlproxy.link.connecting.connections import Backoff
from ttlproxy.link.connecting.known_server import KnownServer
from ttlproxy.link.reaper.removal import ReapScript, SweepScript, Undelivered
from ttlproxy.link.reaper.schedules import Schedules
from ttlproxy.link.shared.context import Context
from ttlproxy.net.tasks import fail

_BACKOFF = Backoff(cap=0.5, base=0.01)


class ReapRequest:
    """A reap that a session waits for.

    done: set when nothing is due any more at these places and in all of these databases, and
    `unswept` is swept; has an UpstreamError if the link was lost before, SlotMoved if another
    master has the keys
    refusal: the error that keeps it from being done
    """

    __slots__ = ("databases", "done", "failures", "places", "refusal", "unswept")

    def __init__(
        self, places: Iterable[DbKey], databases: Iterable[int], unswept: Iterable[DbKey]
    ) -> None:
        self.places = set(places)
        self.databases = set(databases)
        self.unswept = set(unswept)
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.refusal: ResponseError | None = None
        self.failures = 0

    def served(self, refused: dict[DbKey, ResponseError], closed: dict[int, ResponseError]) -> None:
        """Takes the outcome of one attempt: Redis has refused these places, and these databases."""
        concerned = [refused[place] for place in self.places | self.unswept if place in refused]
        concerned += [closed[db] for db in self.databases if db in closed]
        if any(isinstance(why, MovedError) for why in concerned):
            fail(self.done, SlotMoved("another master has its slot"))
        elif concerned:
            self.failures += 1
            self.refusal = concerned[0]
        elif not self.done.done():
            self.done.set_result(None)


class ReapRequests:
    """Gathers what sessions want reaped, and serves it in rounds."""

    def __init__(
        self, context: Context, server: KnownServer, look_again: Callable[[], None]
    ) -> None:
        """`look_again()` has the server's role looked at, which may have changed."""
        self._context = context
        self._reap_script = ReapScript(context)
        self._sweep_script = SweepScript(context)
        self._schedules = Schedules(context)
        self._server = server
        self._look_again = look_again
        self._new: list[ReapRequest] = []
        self._served: list[ReapRequest] = []
        self._refused: list[ReapRequest] = []
        self._again: asyncio.TimerHandle | None = None
        self._asked = asyncio.Event()

    def add(
        self, places: Iterable[DbKey], databases: Iterable[int], unswept: Iterable[DbKey]
    ) -> ReapRequest:
        """Adds a request to the next round; a session that waits no more cancels its `done`."""
        request = ReapRequest(places, databases, unswept)
        self._new.append(request)
        self._asked.set()
        return request

    async def run(self, redis: Redis) -> None:
        """Serves until cancelled; then the caller must call `stop`.

        A lost connection is opened again; a second loss in a row is raised.
        """
        losses = 0
        while True:
            await self._asked.wait()
            self._asked.clear()
            self._served, self._new = self._new, []
            try:
                await self._serve(redis, self._served)
                losses = 0
            except RedisConnectionError:
                losses += 1
                if losses > 1:
                    raise
                self._asked.set()  # what is not served yet is asked for again
                self._new = _open(self._served) + self._new
                continue
            self._refused += _open(self._served)
            self._served = []
            self._ask_again_later()

    def stop(self) -> None:
        """Tells sessions that still wait to ask again."""
        if self._again is not None:
            self._again.cancel()
            self._again = None
        for request in (*self._new, *self._served, *self._refused):
            fail(request.done, UpstreamError("the link was lost"))
        self._new, self._served, self._refused = [], [], []

    def _ask_again_later(self) -> None:
        """Plans another attempt: BUSY passes, and errors may be fixed. Sessions limit their own
        wait."""
        if self._refused and self._again is None:
            failures = max(request.failures for request in self._refused)
            loop = asyncio.get_running_loop()
            self._again = loop.call_later(_BACKOFF.compute(failures), self._ask_again)

    def _ask_again(self) -> None:
        self._again = None
        self._new += _open(self._refused)
        self._refused = []
        if self._new:
            self._asked.set()

    async def _serve(self, redis: Redis, requests: list[ReapRequest]) -> None:
        """Makes one attempt at everything that was asked for."""
        refused: dict[DbKey, ResponseError] = {}
        unswept = set[DbKey]().union(*(each.unswept for each in requests))
        # A key of a family with deadlines may have no index, and a sweep is a write.
        for place in await self._sweep_script.with_index(redis, sorted(unswept)):
            if refusal := await self._sweep_script(redis, place):
                refused[place] = refusal
        now_ms, places = self._context.clock.now_ms(), set[DbKey]()
        places.update(*(each.places for each in requests))
        registry = self._context.registry
        if unknown := {(db, key) for db, key in places if key not in registry.bounds(db)}:
            due = await self._schedules.due_among(redis, unknown, now_ms)
            places = places - unknown | due
        refused |= await self._reap_places(redis, places)
        databases = set[int]().union(*(each.databases for each in requests))
        closed = await self._reap_databases(redis, databases, now_ms, refused)
        # Requests pass in spite of these: a replica can reap nothing; what cannot be handed on
        # stays.
        passing: tuple[type[Exception], ...] = (ReadOnlyError, Undelivered)
        if self._server.is_master:  # as far as is known: what is due must not be read there
            passing = (Undelivered,)
            if any(isinstance(why, ReadOnlyError) for why in refused.values()):
                self._look_again()
        refused = {at: why for at, why in refused.items() if not isinstance(why, passing)}
        closed |= {db: why for (db, _), why in refused.items()}
        for request in requests:
            request.served(refused, closed)

    async def _reap_databases(
        self, redis: Redis, databases: set[int], now_ms: int, refused: dict[DbKey, ResponseError]
    ) -> dict[int, ResponseError]:
        """Reaps all that was due at `now_ms`, and adds to `refused`; returns Redis's errors for
        schedules that it does not let us read."""
        met, closed = set[DbKey](), dict[int, ResponseError]()
        while databases:
            due, unread = await self._schedules.due(redis, databases, now_ms)
            # Each place once: it may be due by the clock here and not yet by the server's.
            places = set(due) - met
            met |= places
            refused |= await self._reap_places(redis, places)
            closed |= unread
            if not places:
                break
        return closed

    async def _reap_places(self, redis: Redis, places: set[DbKey]) -> dict[DbKey, ResponseError]:
        """Reaps until nothing is due at these places; returns what Redis refuses."""
        refused: dict[DbKey, ResponseError] = {}
        while places:
            limits = dict.fromkeys(places, self._context.settings.reap_batch)
            outcome = await self._reap_script(redis, limits)
            self._context.sweep_later(outcome.stale_entries)
            refused |= outcome.refused
            places = outcome.more.union(outcome.unreached)
        return refused


def _open(requests: list[ReapRequest]) -> list[ReapRequest]:
    """The requests for which a session still waits."""
    return [request for request in requests if not request.done.done()]
