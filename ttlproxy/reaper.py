"""The due-time loop: sleeps until the first deadline, then reaps in batches.

One proxy reaps for all while it holds the lease; nothing depends on the lease but economy, because
the reap script is atomic. Nothing is written to Redis while nothing is due.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, deque
from collections.abc import Iterable
from uuid import uuid4

from redis.asyncio import Redis
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import RedisError, ResponseError

from ttlproxy.commands import Call
from ttlproxy.config import Settings
from ttlproxy.errors import UpstreamError
from ttlproxy.link import (
    DUE,
    TOGETHER,
    Backoff,
    Link,
    answered,
    client,
    everywhere,
    passes,
    reason,
    run,
    valid,
    whole_ms,
)
from ttlproxy.metrics import Metrics
from ttlproxy.registry import Place
from ttlproxy.tasks import run_all

log = logging.getLogger(__name__)

_BACKOFF = Backoff(cap=2.0, base=0.05)
# A key, or a schedule, that Redis refuses is tried again until somebody has mended it.
_PARKED = Backoff(cap=30.0, base=0.05)
# What passes by itself does so for all keys at once: however often it was met, it may be over.
_PASSING = Backoff(cap=0.5, base=0.05)
# The longest sleep, for what no announcement told.
_LONGEST_SLEEP_MS = 5000
# The smallest batch.
_LEAST = 10
_NEVER = 1 << 62
_UNREAD_MS = 1000
# A request that was just forwarded has been carried out by then, unless something blocks it: what
# it leaves behind after that is found when it falls due.
_SWEEP_AFTER_MS = 200


def plan(queue: deque[Place], batch: int, together: int) -> dict[Place, int]:
    """Takes from the front of `queue` the keys of the next call, with a limit of elements for each.

    None is long at it with that limit, and the script itself leaves out those that it has no time
    for: so keys with much due, and keys with little, take part alike.
    """
    return {queue.popleft(): batch for _ in range(min(len(queue), together))}


def keys_together(asked: int, reached: int) -> int:
    """For how many keys the next call is, after one for `asked` of which `reached` were reached.

    Each that is not reached costs as much here as one that is.
    """
    return min(asked * 2 if reached == asked else reached + reached // 4 + 1, TOGETHER)


def adapt(batch: int, took_ms: float, budget_ms: float, largest: int) -> int:
    """The next batch, after one of `batch` elements took `took_ms`."""
    if took_ms > budget_ms:
        return max(batch // 2, _LEAST)
    if took_ms < budget_ms / 2:
        return min(batch * 2, largest)
    return batch


def rest_ms(took_ms: float, budget_ms: float, keys: int) -> float:
    """How long to leave the server to others, after a call that took longer than it should.

    What is due in a long list is found in one walk along it, which no smaller batch makes shorter.
    Where the call was for many keys, a smaller batch is enough, and most of the time was our own.
    """
    return took_ms if keys == 1 and took_ms > budget_ms else 0


def sweep_after_ms(took_ms: float) -> int:
    """How long to let requests pass before what they left is swept, where one key's sweep took so
    long: a long list whose consumers never pause is swept for a tenth of the time at most."""
    return max(_SWEEP_AFTER_MS, 10 * round(took_ms))


class Parked:
    """Keys whose reap Redis refuses: each is left alone for a while, and then for longer."""

    def __init__(self) -> None:
        self._until: dict[Place, tuple[int, int]] = {}  # ms of the server's clock, failures
        self._reasons: dict[Place, str] = {}

    def __len__(self) -> int:
        return len(self._until)

    @property
    def reasons(self) -> Counter[str]:
        """How many there are for each of the reasons in metrics.PARKED."""
        return Counter(self._reasons[place] for place in self._until)

    def park(self, place: Place, now_ms: int, why: str = "other", passes: bool = False) -> None:
        """It was refused just now, for a reason that `passes` by itself or does not."""
        failures = self._until.get(place, (0, 0))[1] + 1
        pause_s = (_PASSING if passes else _PARKED).compute(failures)
        self._until[place] = (now_ms + round(pause_s * 1000), failures)
        self._reasons[place] = why

    def holds(self, place: Place, now_ms: int) -> bool:
        """Whether it is not to be tried yet."""
        return self._until.get(place, (0, 0))[0] > now_ms

    def first_ms(self) -> int:
        """When one is to be tried again."""
        return min((until_ms for until_ms, _ in self._until.values()), default=_NEVER)

    def put_off_no_more(self) -> None:
        """Each is to be tried now."""
        self._until = {place: (0, failures) for place, (_, failures) in self._until.items()}

    def forget(self, now_ms: int) -> None:
        """All that could be tried by now has been: those that were not refused again are mended."""
        self._until = {place: held for place, held in self._until.items() if held[0] > now_ms}
        self._reasons = {place: self._reasons[place] for place in self._until}


class Reaper:
    """Deletes what is past its deadline, for everybody."""

    def __init__(self, settings: Settings, link: Link, metrics: Metrics) -> None:
        self._settings = settings
        self._link = link
        self._metrics = metrics
        self._holder = uuid4().hex.encode()
        self._batch = settings.reap_batch
        self._together = TOGETHER  # keys of one call
        self._wake = asyncio.Event()
        self._turn = asyncio.Lock()  # one request at a time on the connection
        self._rounds = 0
        self._next_ms = _NEVER  # of the server's clock
        self._sweeps: dict[Place, int] = {}  # when each is to be done
        self._parked = Parked()
        self._sweep_after_ms = _SWEEP_AFTER_MS
        self._lease_until_ms = 0.0  # of the local clock: Redis's may be set back
        link.registry.on_announcement(self._announced)
        link.on_ghosts = self.sweep
        link.clock.on_jump = self._look_now

    async def run(self) -> None:
        """Reaps until cancelled; what Redis refuses is tried again."""
        failures = 0
        while True:
            await self._link.ready.wait()
            redis, rounds = self._client(patient=True), self._rounds
            try:
                await self._link.while_it_lives(self._rounds_on(redis))
            except UpstreamError:
                self._lease_until_ms = 0  # it may be another server's
            except RedisError as trouble:
                failures = 1 if self._rounds > rounds else failures + 1
                if isinstance(trouble, ResponseError):
                    self._link.refusals.note("the reaper's requests", trouble)
                log.debug("the reaper waits: %s", trouble)
                if failures > 1 or not isinstance(trouble, RedisConnectionError):
                    await asyncio.sleep(_BACKOFF.compute(failures))
            finally:
                await redis.aclose()

    async def _rounds_on(self, redis: Redis) -> None:
        """Reaps over this connection, until it is lost or Redis refuses something."""
        await self._make_unevictable(redis)
        self._at_the_latest(self._link.clock.now_ms())  # no announcement tells what is due already
        while True:
            await self._round(redis)
            self._rounds += 1

    def sweep(self, places: Iterable[Place]) -> None:
        """A request that was forwarded may leave index entries whose element is gone."""
        due_ms = self._link.clock.now_ms() + self._sweep_after_ms
        for place in places:
            self._sweeps.setdefault(place, due_ms)
        self._at_the_latest(due_ms)

    async def drop_lease(self) -> None:
        """Lets another proxy reap at once; for the end, when `run` has been cancelled."""
        if self._lease_until_ms > self._link.clock.reading() and self._link.ready.is_set():
            redis = self._client(patient=False)
            try:
                await self._call(redis, "lease_drop", self._holder)
            except RedisError as trouble:
                log.debug("the lease stays until it ends: %s", trouble)
            finally:
                await redis.aclose()

    def _client(self, *, patient: bool) -> Redis:
        timeout_s, keepalive_s = self._settings.connect_timeout, self._settings.tcp_keepalive
        upstream = self._link.upstream
        return client(upstream, "ttlproxy:reaper", timeout_s, keepalive_s, patient=patient)

    def _announced(self, db: int, deadline_ms: int) -> None:
        self._at_the_latest(deadline_ms)

    def _look_now(self) -> None:
        """The server's clock was set: whatever was put off by it is done now."""
        self._sweeps = dict.fromkeys(self._sweeps, 0)
        self._parked.put_off_no_more()
        self._at_the_latest(0)

    def _at_the_latest(self, due_ms: int) -> None:
        """Wake up when the server's clock is past this."""
        if due_ms < self._next_ms:
            self._next_ms = due_ms
            self._wake.set()

    async def _round(self, redis: Redis) -> None:
        """Sleeps until something is due, then works through all that is."""
        await self._sleep()
        if self._link.clock.now_ms() <= self._next_ms:
            return
        next_ms, self._next_ms = self._next_ms, _NEVER
        try:
            await self._work(redis)
        except RedisError:
            self._at_the_latest(next_ms)  # it is still to be done
            raise

    async def _work(self, redis: Redis) -> None:
        """Does all that is due, and looks for when to go on."""
        await self._sweep(redis)
        databases = self._link.registry.databases()
        while True:
            now_ms = self._link.clock.now_ms()
            due = await self._due(redis, databases, now_ms)
            if not due:
                break
            if not await self._hold_lease(redis):
                # Somebody else is at it. See whether it is done well before the lease would end.
                self._at_the_latest(now_ms + self._settings.lease_ms // 3)
                return
            await self._reap(redis, due)
        self._parked.forget(now_ms)
        self._metrics.parked = self._parked.reasons
        await self._plan_next(redis, databases, now_ms)

    async def _sleep(self) -> None:
        """Until past the next deadline, or until woken."""
        now_ms = self._link.clock.now_ms()
        # "Past" is one ms later, and the clock as known here may be one ms fast.
        wait_ms = min(self._next_ms + 2 - now_ms, _LONGEST_SLEEP_MS)
        if wait_ms > 0:
            try:
                async with asyncio.timeout(wait_ms / 1000):
                    await self._wake.wait()
            except TimeoutError:
                self._next_ms = min(self._next_ms, now_ms)
        self._wake.clear()

    async def _due(self, redis: Redis, databases: Iterable[int], now_ms: int) -> list[Place]:
        """Keys that need attention now, but for those that are parked."""
        due, unread = await self._link.due(redis, databases, now_ms, DUE + len(self._parked))
        if unread:
            self._at_the_latest(now_ms + _UNREAD_MS)
        return [place for place in due if not self._parked.holds(place, now_ms)]

    async def _plan_next(self, redis: Redis, databases: Iterable[int], now_ms: int) -> None:
        """Wakes for what falls due next; all that was due by now has been reaped, or is parked."""
        self._at_the_latest(self._parked.first_ms())
        since = (b"ZRANGEBYSCORE", self._link.keys.schedule, now_ms, b"+inf")
        heads, _ = await everywhere(redis, databases, (*since, b"WITHSCORES", b"LIMIT", 0, 1))
        for head in heads.values():
            if head:
                self._at_the_latest(whole_ms(head[1]))

    async def _reap(self, redis: Redis, due: list[Place]) -> None:
        """Two take keys from one queue: while Redis works for one, the other does its part."""
        queue = deque(due)
        await run_all(*(self._reap_from(queue, redis) for _ in range(2)))

    async def _reap_from(self, queue: deque[Place], redis: Redis) -> None:
        """Goes round the due keys, so that a large one starves no other."""
        settings, clock = self._settings, self._link.clock
        while queue and await self._hold_lease(redis):
            limits = plan(queue, self._batch, self._together)
            outcome = await self._link.reap(redis, limits, self._turn)
            took_ms = max(outcome.calls_ms, default=0)
            self._batch = adapt(self._batch, took_ms, settings.reap_budget_ms, settings.reap_batch)
            reached = len(limits) - len(outcome.unreached)
            self._together = keys_together(len(limits), reached)
            await asyncio.sleep(rest_ms(took_ms, settings.reap_budget_ms, reached) / 1000)
            queue.extendleft(reversed(outcome.unreached))
            queue.extend(outcome.more)
            self.sweep(outcome.ghosts)
            for place, refusal in outcome.refused.items():
                self._parked.park(place, clock.now_ms(), reason(refusal), passes(refusal))
            self._metrics.parked = self._parked.reasons

    async def _hold_lease(self, redis: Redis) -> bool:
        """Takes the lease, or keeps it while more than two thirds of it are left."""
        now_ms, lease_ms = self._link.clock.reading(), self._settings.lease_ms
        if self._lease_until_ms - now_ms > lease_ms * 2 // 3:
            return True
        words = (self._holder, b"%d" % lease_ms)
        async with self._turn:
            held = valid(await self._call(redis, "lease_take", *words))
        if held:
            self._lease_until_ms = now_ms + lease_ms
        return bool(held)

    async def _sweep(self, redis: Redis) -> None:
        """Goes through the indexes that are to be swept by now."""
        clock, sweep, longest_ms = self._link.clock, self._link.sweep, 0.0
        now_ms = clock.now_ms()
        due = [place for place, due_ms in self._sweeps.items() if due_ms < now_ms]
        left = {place: self._sweeps.pop(place) for place in due}
        try:
            for place in await sweep.with_index(redis, due):
                began = clock.reading()
                await sweep(redis, place)
                longest_ms = max(longest_ms, clock.reading() - began)
                del left[place]
        except RedisError:
            self._sweeps = left | self._sweeps
            raise
        self._sweep_after_ms = sweep_after_ms(longest_ms)
        for due_ms in self._sweeps.values():
            self._at_the_latest(due_ms)

    async def _call(self, redis: Redis, script: str, *argv: bytes) -> object:
        return await answered(redis, self._link.caller, 0, Call(script, (), argv))

    async def _make_unevictable(self, redis: Redis) -> None:
        """The reaper must get through when clients are evicted; older servers refuse the words."""
        await run(
            redis, [(0, (b"CLIENT", b"NO-EVICT", b"ON")), (0, (b"CLIENT", b"NO-TOUCH", b"ON"))]
        )
