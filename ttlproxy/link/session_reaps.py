"""Reaps for sessions: those that ask at the same moment share one round trip.

If Redis refuses something, only the sessions that wait for it are held up. It is tried again, with
pauses, until it is done or nobody waits any more.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext
from typing import NamedTuple

from redis.asyncio import Redis
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import NoScriptError, ReadOnlyError, ResponseError

from ttlproxy.commands import Call
from ttlproxy.config import Settings
from ttlproxy.core.counters import Metrics
from ttlproxy.core.expiry_actions import Action
from ttlproxy.core.registry import Place, Registry
from ttlproxy.errors import UpstreamError
from ttlproxy.link.action_cache import Rulebook
from ttlproxy.link.backoff import Backoff
from ttlproxy.link.pipeline import error, run, valid
from ttlproxy.link.refusals import Refusals
from ttlproxy.link.schedules import Schedules
from ttlproxy.link.server_clock import ServerClock
from ttlproxy.link.sweeps import Sweep
from ttlproxy.scripts.script_calls import Caller

# Keys of one call of the script. Each costs 15 us if few elements are due, a call itself 400 us.
TOGETHER = 128
# After this part of its budget a call begins no further key: that may be a large one.
_LAST_KEY = 0.4
_BACKOFF = Backoff(cap=0.5, base=0.01)
_NO_PADS = (b"", b"")
_NO_ACTION = Action(b"", b"", b"")


class Undelivered(ResponseError):  # noqa: N818 - the name says it
    """What a rule says cannot be done: due elements stay where they are, until it can."""


class Outcome(NamedTuple):
    """What a reap has left.

    more: where more may be due; stale_entries: where the index has entries without an element;
    refused: where Redis has answered an error; unreached: where the call had no time, in the order
    asked for; calls_ms: how long each call took Redis
    """

    more: set[Place]
    stale_entries: set[Place]
    refused: dict[Place, ResponseError]
    unreached: list[Place]
    calls_ms: list[float]


class _Batch(NamedTuple):
    """One call of the script: for at most `limit` elements of each key.

    actions: of each key, empty if the database has no rules; others: keys for which commands are
    deferred; pads: to verify the signatures of these
    """

    db: int
    keys: tuple[bytes, ...]
    limit: int
    budget_us: int
    version: bytes
    actions: tuple[Action | None, ...]
    others: tuple[bytes, ...]
    pads: tuple[bytes, bytes]

    @property
    def places(self) -> list[Place]:
        return [(self.db, key) for key in self.keys]

    @property
    def call(self) -> Call:
        ruled = any(self.actions)
        found = [action or _NO_ACTION for action in self.actions] if ruled else []
        dests = dict.fromkeys(self.others)
        dests |= dict.fromkeys(key for action in self.actions if action for key in action.keys)
        words = (word for action in found for word in action)
        numbers = (self.limit, self.budget_us, len(self.keys))
        limit, budget, count = (b"%d" % number for number in numbers)
        head = (limit, budget, self.version, *self.pads, count)
        return Call("reap", (*self.keys, *dests), (*head, *words))


class Reap:
    """Calls the reap script for several keys at once, and records its answers."""

    def __init__(
        self,
        caller: Caller,
        registry: Registry,
        clock: ServerClock,
        metrics: Metrics,
        refusals: Refusals,
        rulebook: Rulebook,
        budget_ms: Callable[[], int],
    ) -> None:
        """`budget_ms()`: how much of Redis's time one call may take now."""
        self._caller = caller
        self._budget_ms = budget_ms
        self._rulebook = rulebook
        self._registry = registry
        self._clock = clock
        self._metrics = metrics
        self._refusals = refusals

    async def __call__(
        self, redis: Redis, limits: dict[Place, int], turn: asyncio.Lock | None = None
    ) -> Outcome:
        """Removes due elements, at most `limits[place]` at each place; of a long list more.

        `turn`: shared by tasks that reap on one connection. While Redis works for one of them, the
        others prepare their next call, or record an answer. Raises redis-py's ConnectionError or
        TimeoutError.
        """
        for place in limits:
            self._registry.reaping(place)
        outcome = Outcome(set(), set(), {}, [], [])
        try:
            async with turn or nullcontext():
                known = await self._with_rules(redis, limits, outcome)
            # If one key of a call is refused, the whole call is: then each key is asked for alone.
            alone = await self._ask(redis, known, TOGETHER, outcome, turn)
            if alone:
                await self._ask(redis, alone, 1, outcome, turn)
            return outcome
        finally:
            for place in limits:
                self._registry.no_longer_reaping(place)

    async def _with_rules(
        self, redis: Redis, limits: dict[Place, int], outcome: Outcome
    ) -> dict[Place, int]:
        """Reads rules that are not known; returns the places whose rules are known then."""
        refused: dict[int, ResponseError] = {}
        for db in {db for db, _ in limits}:
            try:
                await self._rulebook.learn(redis, db)
            except ResponseError as refusal:
                refused[db] = refusal
        for place in limits:
            if place[0] in refused:
                self._refuse(place, refused[place[0]], outcome)
        return {place: limit for place, limit in limits.items() if place[0] not in refused}

    async def _ask(
        self,
        redis: Redis,
        limits: dict[Place, int],
        together: int,
        outcome: Outcome,
        turn: asyncio.Lock | None,
    ) -> dict[Place, int]:
        """Calls for `together` keys at a time; returns the keys of calls refused as a whole.

        Sends one call after the other: between requests that come together Redis serves no other
        client.
        """
        alone: dict[Place, int] = {}
        for batch in self._batches(limits, together):
            words = self._caller.words(batch.call, b"%d" % batch.db)
            async with turn or nullcontext():
                sent = self._clock.reading()
                (reply,) = await run(redis, [(batch.db, words)])
            if turn:  # lets the next task send its call before this answer is recorded
                await asyncio.sleep(0)
            if error(reply) and len(batch.keys) > 1:
                alone.update(dict.fromkeys(batch.places, batch.limit))
            else:
                self._learn(batch, reply, sent, outcome)
        return alone

    def _learn(self, batch: _Batch, reply: object, sent: float, outcome: Outcome) -> None:
        """Records the answers of one call."""
        if isinstance(reply, NoScriptError):
            self._caller.flushed()
            outcome.more.update(batch.places)
            return
        if reply is None:
            self._rulebook.stale(batch.db)
            outcome.more.update(batch.places)
            return
        if refusal := error(reply):
            for place in batch.places:
                self._refuse(place, refusal, outcome)
            return
        now_ms, took_us, *answers = valid(reply)
        self._rulebook.heeded(batch.db)
        self._metrics.reap_call_ms.observe(took_us / 1000)
        self._clock.learn(now_ms, sent)
        outcome.calls_ms.append(took_us / 1000)
        outcome.unreached.extend(batch.places[len(answers) :])
        for number, (place, answer) in enumerate(zip(batch.places, answers, strict=False)):
            if refusal := error(answer):
                self._refuse(place, Undelivered(str(refusal)), outcome)
                continue
            removed, first_ms, has_stale_entries, kind, late_ms, fired, dead_lettered, unsigned = (
                answer
            )
            self._registry.reaped(place, first_ms if first_ms >= 0 else None)
            self._metrics.reaped(kind.decode(), removed, late_ms)
            if fired:
                action = batch.actions[number]
                assert action
                self._metrics.fired(action.verb.decode(), fired, dead_lettered)
            if unsigned:
                self._refusals.unsigned("deferred", place[0], unsigned)
            if 0 <= first_ms < now_ms:
                outcome.more.add(place)
            elif has_stale_entries:
                outcome.stale_entries.add(place)

    def _refuse(self, place: Place, refusal: ResponseError, outcome: Outcome) -> None:
        self._refusals.note(f"to reap in database {place[0]}", refusal)
        outcome.refused[place] = refusal

    def _batches(self, limits: dict[Place, int], together: int) -> Iterator[_Batch]:
        """The calls for these places, each for at most `together` keys."""
        alike: dict[tuple[int, int], list[bytes]] = {}
        for (db, key), limit in limits.items():
            alike.setdefault((db, limit), []).append(key)
        for (db, limit), found in alike.items():
            rules = self._rulebook.of(db)
            for at in range(0, len(found), together):
                keys = tuple(found[at : at + together])
                actions = tuple(map(rules.of, keys)) if rules else ()
                deferring = map(self._caller.keys.deferring, keys)
                others = tuple(key for key in deferring if key is not None)
                pads = self._caller.signer.pads if others else _NO_PADS
                budget_us = round(self._budget_ms() * 1000 * _LAST_KEY)
                version = self._rulebook.version(db)
                yield _Batch(db, keys, limit, budget_us, version, actions, others, pads)


class Ask:
    """What a session waits for.

    done: nothing is due any more at these places and in all of these databases, and `unswept` is
      swept; an UpstreamError if the link was lost before
    refusal: the error that keeps it from being done
    """

    __slots__ = ("databases", "done", "failures", "places", "refusal", "unswept")

    def __init__(
        self, places: Iterable[Place], databases: Iterable[int], unswept: Iterable[Place]
    ) -> None:
        self.places = set(places)
        self.databases = set(databases)
        self.unswept = set(unswept)
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.refusal: ResponseError | None = None
        self.failures = 0

    def served(self, refused: dict[Place, ResponseError], closed: dict[int, ResponseError]) -> None:
        """All was tried; Redis has refused these places, and these databases."""
        concerned = [refused[place] for place in self.places | self.unswept if place in refused]
        concerned += [closed[db] for db in self.databases if db in closed]
        if concerned:
            self.failures += 1
            self.refusal = concerned[0]
        elif not self.done.done():
            self.done.set_result(None)

    def lost(self) -> None:
        """The session must ask again."""
        if not self.done.done():
            self.done.set_exception(UpstreamError("the link was lost"))
            self.done.exception()  # maybe nobody waits


class SessionReaps:
    """Gathers what sessions want reaped, and serves it in rounds."""

    def __init__(
        self,
        settings: Settings,
        reap: Reap,
        sweep: Sweep,
        schedules: Schedules,
        clock: ServerClock,
        on_stale: Callable[[Iterable[Place], int], None],
    ) -> None:
        self._settings = settings
        self._reap = reap
        self._sweep = sweep
        self._schedules = schedules
        self._clock = clock
        self._on_stale = on_stale
        self._new: list[Ask] = []
        self._served: list[Ask] = []
        self._refused: list[Ask] = []
        self._again: asyncio.TimerHandle | None = None
        self._asked = asyncio.Event()

    def ask(
        self, places: Iterable[Place], databases: Iterable[int], unswept: Iterable[Place]
    ) -> Ask:
        """Adds a request to the next round; a session that waits no more cancels its `done`."""
        ask = Ask(places, databases, unswept)
        self._new.append(ask)
        self._asked.set()
        return ask

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
                self._new = [ask for ask in self._served if not ask.done.done()] + self._new
                continue
            self._refused += [ask for ask in self._served if not ask.done.done()]
            self._served = []
            self._ask_again_later()

    def stop(self) -> None:
        """Tells sessions that still wait to ask again."""
        if self._again is not None:
            self._again.cancel()
            self._again = None
        for ask in (*self._new, *self._served, *self._refused):
            ask.lost()
        self._new, self._served, self._refused = [], [], []

    def _ask_again_later(self) -> None:
        """Tries again: BUSY passes, and errors may be mended. Sessions limit their own wait."""
        if self._refused and self._again is None:
            failures = max(ask.failures for ask in self._refused)
            loop = asyncio.get_running_loop()
            self._again = loop.call_later(_BACKOFF.compute(failures), self._ask_again)

    def _ask_again(self) -> None:
        self._again = None
        self._new += [ask for ask in self._refused if not ask.done.done()]
        self._refused = []
        if self._new:
            self._asked.set()

    async def _serve(self, redis: Redis, asks: list[Ask]) -> None:
        """One attempt at everything that was asked for."""
        refused: dict[Place, ResponseError] = {}
        for place in set[Place]().union(*(ask.unswept for ask in asks)):
            if refusal := await self._sweep(redis, place):
                refused[place] = refusal
        now_ms = self._clock.now_ms()
        refused |= await self._reap_all(redis, set().union(*(ask.places for ask in asks)))
        databases, met = set[int]().union(*(ask.databases for ask in asks)), set[Place]()
        closed: dict[int, ResponseError] = {}
        while databases:
            due, unread = await self._schedules.due(redis, databases, now_ms)
            # Each place once: it may be due by the clock here and not yet by the server's.
            places = set(due) - met
            met |= places
            refused |= await self._reap_all(redis, places)
            closed |= unread
            if not places:
                break
        # Requests pass these: a replica can reap nothing; what cannot be handed on stays.
        passing = (ReadOnlyError, Undelivered)
        refused = {at: why for at, why in refused.items() if not isinstance(why, passing)}
        closed |= {db: why for (db, _), why in refused.items()}
        for ask in asks:
            ask.served(refused, closed)

    async def _reap_all(self, redis: Redis, places: set[Place]) -> dict[Place, ResponseError]:
        """Reaps until nothing is due at these places; returns what Redis refuses."""
        refused: dict[Place, ResponseError] = {}
        while places:
            limits = dict.fromkeys(places, self._settings.reap_batch)
            outcome = await self._reap(redis, limits)
            self._on_stale(outcome.stale_entries, self._clock.now_ms())
            refused |= outcome.refused
            places = outcome.more.union(outcome.unreached)
        return refused
