"""The reaper: sleeps until the first deadline, then reaps in batches.

One proxy reaps for all while it holds the lease. The lease only saves work, because the reap script
is atomic. While nothing is due, nothing is written to Redis.

The last holder of the lease leads: only its reaper wakes at deadlines. Until there has been a
holder, the reaper of each proxy wakes, if there are few proxies. The heartbeats of the others see
what is late, and some of these then try for the lease, when it ends. So no proxy has to know which
others are ready to take over.

The size of a request is computed without Redis and without a clock (`plan`, `OneCall`,
`ManyCalls`).
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable
from random import random
from typing import TYPE_CHECKING, Final, NamedTuple
from uuid import uuid4

from redis.asyncio import Redis
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import RedisError, ResponseError

from ttlproxy.commands import Call
from ttlproxy.core.registry import UNKNOWN, DbKey
from ttlproxy.errors import UpstreamError
from ttlproxy.link.connecting.connections import Backoff, client, close, open_now
from ttlproxy.link.connecting.failures import passes, reason
from ttlproxy.link.connecting.pipeline import KEYS_PER_CALL, answered, valid
from ttlproxy.link.reaper.outboxes import Outboxes
from ttlproxy.link.reaper.removal import ReapScript, SweepScript
from ttlproxy.link.reaper.ruled_deadlines import TtlScript
from ttlproxy.link.reaper.schedules import Schedules
from ttlproxy.link.shared.agenda import SWEEP_AFTER_MS
from ttlproxy.link.shared.schedule_queries import DUE
from ttlproxy.net.tasks import run_all
from ttlproxy.wire import NOTHING_DUE

if TYPE_CHECKING:
    from ttlproxy.link.life.link import Link

_NO_EVICT: Final = (b"CLIENT", b"NO-EVICT", b"ON")
# Not before a Cluster: a master of Redis 8.2 may crash with it.
_NO_TOUCH: Final = (b"CLIENT", b"NO-TOUCH", b"ON")
# The smallest batch.
_LEAST = 10
# Keys of the first calls that are sent together.
_FIRST_KEYS = 4
# At most this number of batches is taken from all keys of calls that are sent together: in the time
# that this many batches take, each for a key of its own, Redis serves nobody else.
_BATCHES = 4


class Portion(NamedTuple):
    """The size of the next request: `batch` elements of each of `keys` keys at most."""

    batch: int
    keys: int


class Done(NamedTuple):
    """The outcome of the last request.

    asked, reached, more: keys that were asked for, those that the script got to, and those of them
    with more that is due
    took_ms: the time that all took Redis
    median_removed: the median number of elements that were removed from a key
    """

    asked: int
    reached: int
    more: int
    took_ms: float
    median_removed: int


def plan(queue: deque[DbKey], pace: Portion) -> dict[DbKey, int]:
    """Takes the keys of the next request from the front of `queue`; returns a limit of elements for
    each.

    So keys with many due elements do not delay keys with few.
    """
    return {queue.popleft(): pace.batch for _ in range(min(len(queue), pace.keys))}


class OneCall:
    """The pace if one call is for all keys: the script leaves out keys that it has no time for."""

    def __init__(self, largest: int) -> None:
        self.pace = Portion(largest, KEYS_PER_CALL)
        self._largest = largest

    def adapt(self, done: Done, budget_ms: float) -> None:
        batch, _ = self.pace
        if done.took_ms > budget_ms:
            batch = max(batch // 2, _LEAST)
        elif done.took_ms < budget_ms / 2:
            batch = min(batch * 2, self._largest)
        self.pace = Portion(batch, _within_a_call(done))


class ManyCalls:
    """The pace in front of a Cluster, where a call is for one slot: calls that are sent together
    share the budget of one. With fewer keys at a time, more of the budget is left for each: so many
    keys are taken that one call finishes most of them."""

    def __init__(self, largest: int) -> None:
        self._largest, self._batch = largest, largest
        self.pace = self._of(_FIRST_KEYS)

    def adapt(self, done: Done, budget_ms: float) -> None:
        quarter = done.asked // 4 + 1
        keys = min(done.asked, _within_a_call(done))
        if done.took_ms > budget_ms:
            if done.asked == 1:
                self._batch = max(self._batch // 2, _LEAST)
            keys = min(keys, int(done.asked * budget_ms / done.took_ms))
        elif done.more * 2 > done.asked and self.pace.batch < self._batch:
            keys = min(keys, done.asked - quarter)
        elif done.took_ms < budget_ms / 2:
            self._batch = min(self._batch * 2, self._largest)
            whole = self._largest * _BATCHES // max(done.median_removed, 1)
            keys = min(done.asked + quarter, _within_a_call(done), whole)
        self.pace = self._of(max(keys, 1))

    def _of(self, keys: int) -> Portion:
        return Portion(min(self._batch, max(self._largest * _BATCHES // keys, _LEAST)), keys)


def _within_a_call(done: Done) -> int:
    """Returns the number of keys of the next request, by how many a call gets to.

    A key that is not reached costs the proxy as much as one that is.
    """
    if done.reached == done.asked:
        return min(done.asked * 2, KEYS_PER_CALL)
    return min(done.reached + done.reached // 4 + 1, KEYS_PER_CALL)


def pause_ms(took_ms: float, budget_ms: float, keys: int) -> float:
    """Returns the time in ms to leave the server to others after a call that took too long.

    The script finds what is due in a long list by one walk, which no smaller batch makes shorter.
    If the call was for many keys, a smaller batch is enough.
    """
    return took_ms if keys == 1 and took_ms > budget_ms else 0


def sweep_after_ms(took_ms: float) -> int:
    """Returns the time in ms from a request to the sweep of its keys, if a sweep took `took_ms`: a
    long list whose consumers never pause is swept for a tenth of the time at most."""
    return max(SWEEP_AFTER_MS, 10 * round(took_ms))


log = logging.getLogger(__name__)

_BACKOFF = Backoff(cap=2.0, base=0.05)
# The longest sleep of the proxy that leads, for deadlines that were not announced.
_LONGEST_SLEEP_MS = 5000
# About this number of proxies try for the lease when it ends, if there are many and something is
# late.
_CANDIDATES: Final = 16
# Time until a schedule that could not be read is read again.
_UNREAD_MS = 1000


class Reaper:
    """Reaps what is past its deadline, for all clients and proxies."""

    def __init__(self, link: Link, owner: Callable[[int], Link | None] | None = None) -> None:
        """`owner(slot)` returns the link of the master of a Cluster that has the slot; None if no
        such master is served. Without it this master has all slots."""
        self._settings = link.context.settings
        self._link = link
        self._context = link.context
        self._agenda = link.context.agenda
        self._schedules = Schedules(link.context)
        self._reap_script = ReapScript(link.context)
        self._sweep_script = SweepScript(link.context)
        self._ttl_script = TtlScript(link.context)
        self._outboxes = Outboxes(link, owner or (lambda number: link))
        self._holder = uuid4().hex.encode()
        self._pacing: OneCall | ManyCalls = OneCall(self._settings.reap_batch)
        self._turn = asyncio.Lock()  # one request at a time on the connection
        self._rounds = 0
        self._lease_until_ms = 0.0  # of the local clock: Redis's may be set back
        self._flushes = 0  # flushes when the lease was last asked for: they remove it, too
        self._is_new = True  # the server

    async def run(self) -> None:
        """Reaps until cancelled; what Redis refuses is tried again."""
        failures = 0
        while True:
            await self._link.serving.ready.wait()
            if self._is_new:
                self._agenda.begin(leads=self._context.fleet.are_few)
                self._is_new = False
            redis, rounds = self._client(patient=True), self._rounds
            try:
                await self._link.while_it_lives(self._rounds_on(redis))
            except UpstreamError:
                self._lease_until_ms, self._is_new = 0, True  # the next server may be another one
            except RedisError as trouble:
                failures = 1 if self._rounds > rounds else failures + 1
                if isinstance(trouble, ResponseError):
                    self._context.refusals.note("to reap", trouble)
                else:
                    self._lease_until_ms = 0  # as above
                log.debug("the reaper is waiting: %s", trouble)
                if failures > 1 or not isinstance(trouble, RedisConnectionError):
                    await asyncio.sleep(_BACKOFF.compute(failures))
            finally:
                await self._outboxes.stop()
                await close(redis)

    async def _rounds_on(self, redis: Redis) -> None:
        """Reaps over this connection, until it is lost or Redis refuses something.

        A reaper that does not lead opens it at the first request: most proxies of a fleet never
        send one.
        """
        if self._agenda.leads:
            await open_now(redis)
        pacing = ManyCalls if self._context.keys.clustered else OneCall
        self._pacing = pacing(self._settings.reap_batch)
        now_ms = self._context.clock.now_ms()
        self._agenda.look_at(now_ms)  # no announcement tells what is due already
        while True:
            await self._round(redis)
            self._rounds += 1

    async def drop_lease(self) -> None:
        """Gives up the lease, so that another proxy can reap at once; for the end, after `run` was
        cancelled."""
        if self._lease_until_ms > self._context.clock.reading() and self._link.serving.now:
            redis = self._client(patient=False)
            try:
                await self._call(redis, "lease_drop", self._holder)
            except RedisError as trouble:
                log.debug(
                    "the lease could not be released, and stays until it expires: %s", trouble
                )
            finally:
                await close(redis)

    def _client(self, *, patient: bool) -> Redis:
        timeout_s, keepalive_s = self._settings.connect_timeout, self._settings.tcp_keepalive
        upstream, clustered = self._link.upstream, self._context.keys.clustered
        return client(
            upstream,
            "ttlproxy:reaper",
            timeout_s,
            keepalive_s,
            patient=patient,
            more=(_NO_EVICT,) if clustered else (_NO_EVICT, _NO_TOUCH),
            dials=self._context.counters.dials,
        )

    async def _round(self, redis: Redis) -> None:
        """Sleeps until something is due, then works through all that is."""
        await self._sleep()
        agenda = self._agenda
        if self._context.clock.now_ms() <= agenda.next_ms:
            return
        next_ms, agenda.next_ms = agenda.next_ms, NOTHING_DUE
        try:
            await self._work(redis)
        except RedisError:
            self._agenda.look_at(next_ms)  # it is still to be done
            raise

    async def _work(self, redis: Redis) -> None:
        """Sweeps and, if it leads, reaps all that is due, and plans the next round."""
        await self._sweep(redis)
        if not (self._agenda.leads or await self._takes_over(redis)):
            return
        databases = self._context.registry.databases()
        now_ms = self._context.clock.now_ms()
        while True:
            now_ms = min(now_ms, self._context.clock.now_ms())  # the clock may be set back
            due = await self._due(redis, databases, now_ms)
            if not due:
                break
            if not await self._hold_lease(redis):
                return
            queue = deque(self._outboxes.carry(due))
            # Two tasks take keys from one queue: one works here while Redis works for the other.
            await run_all(*(self._reap_from(queue, redis) for _ in range(2)))
        self._agenda.parked.forget(now_ms, self._outboxes.holds)
        self._context.node_counts.parked = self._agenda.parked.reasons
        self._agenda.look_at(self._agenda.parked.first_ms(now_ms))
        next_ms = await self._context.schedule_queries.next_ms(redis, databases, now_ms)
        if next_ms is not None:
            self._agenda.look_at(next_ms)

    async def _takes_over(self, redis: Redis) -> bool:
        """Tries for the lease if it is time; returns whether this proxy leads now."""
        agenda, now_ms = self._agenda, self._context.clock.now_ms()
        if now_ms <= agenda.take_over_ms:
            agenda.look_at(agenda.take_over_ms)
            return False
        agenda.take_over_ms = NOTHING_DUE
        return await self._hold_lease(redis)

    async def _sleep(self) -> None:
        """Sleeps until the next deadline has passed, or until woken."""
        agenda, now_ms = self._agenda, self._context.clock.now_ms()
        # "Past" is one ms later, and the clock as known here may be one ms fast.
        wait_ms = agenda.next_ms + 2 - now_ms
        # In case deadlines are not announced yet, where schedules are not read ahead.
        polls = agenda.leads and self._context.registry.until_ms == UNKNOWN
        if agenda.leads:
            wait_ms = min(wait_ms, _LONGEST_SLEEP_MS)
        if wait_ms > 0:
            is_planned = polls or agenda.next_ms < NOTHING_DUE
            try:
                async with asyncio.timeout(wait_ms / 1000 if is_planned else None):
                    await agenda.woken.wait()
            except TimeoutError:
                agenda.next_ms = min(agenda.next_ms, now_ms)
        agenda.woken.clear()

    async def _due(self, redis: Redis, databases: Iterable[int], now_ms: int) -> list[DbKey]:
        """Returns keys that need attention now, without parked ones and outboxes that are being
        carried."""
        parked, outboxes = self._agenda.parked, self._outboxes
        most = DUE + len(parked) + len(outboxes)
        due, unread = await self._schedules.due(redis, databases, now_ms, most)
        if unread:
            self._agenda.look_at(now_ms + _UNREAD_MS)
        return [at for at in due if not (parked.holds(at, now_ms) or outboxes.holds(at))]

    async def _reap_from(self, queue: deque[DbKey], redis: Redis) -> None:
        """Reaps the keys in turn, so that a large one starves no other."""
        settings, clock = self._settings, self._context.clock
        while queue and await self._hold_lease(redis):
            limits = plan(queue, self._pacing.pace)
            outcome = await self._reap_script(redis, limits, self._turn)
            took_ms = max(outcome.calls_ms, default=0)
            asked, reached = len(limits), len(limits) - len(outcome.unreached)
            removed = sorted(outcome.removed) or [0]
            median = removed[len(removed) // 2]
            done = Done(asked, reached, len(outcome.more), took_ms, median)
            self._pacing.adapt(done, settings.reap_budget_ms)
            await asyncio.sleep(pause_ms(took_ms, settings.reap_budget_ms, reached) / 1000)
            queue.extendleft(reversed(outcome.unreached))
            queue.extend(outcome.more)
            self._context.sweep_later(outcome.stale_entries)
            for place, refusal in outcome.refused.items():
                why, said = reason(refusal), str(refusal)
                self._agenda.parked.park(place, clock.now_ms(), why, passes(refusal), said=said)
            self._context.node_counts.parked = self._agenda.parked.reasons

    async def _hold_lease(self, redis: Redis) -> bool:
        """Takes or renews the lease, unless more than two thirds of it are left; returns whether it
        is held. After a flush of the server it is asked for again."""
        now_ms, lease_ms = self._context.clock.reading(), self._settings.lease_ms
        flushes = self._link.announcements.flushes
        if flushes == self._flushes and self._lease_until_ms - now_ms > lease_ms * 2 // 3:
            return True
        words = (self._holder, b"%d" % lease_ms)
        async with self._turn:
            others_ms = valid(await self._call(redis, "lease_take", *words))
        if others_ms >= 0:
            self._follow(others_ms)
            return False
        self._lease_until_ms, self._flushes = now_ms + lease_ms, flushes
        self._agenda.leads = True
        return True

    def _follow(self, others_ms: int) -> None:
        """Notes that another proxy has the lease for `others_ms`, unless it renews it."""
        agenda, fleet = self._agenda, self._context.fleet
        agenda.leads, self._lease_until_ms = False, 0
        agenda.take_over_ms = NOTHING_DUE
        agenda.parked.drop(lambda key: True)  # the other one parks them
        self._context.node_counts.parked = agenda.parked.reasons
        self._outboxes.leave()
        # The number of heartbeats that see within a lease that something is late.
        looks = fleet.attached / fleet.stretch * self._settings.lease_ms / 1000
        if fleet.are_few or random() * looks < _CANDIDATES:
            agenda.take_over(self._context.clock.now_ms() + others_ms)

    async def _sweep(self, redis: Redis) -> None:
        """Sweeps the indexes whose sweep is due, and gives deadlines by rules."""
        clock, sweep, longest_ms = self._context.clock, self._sweep_script, 0.0
        left = self._agenda.take_sweeps(clock.now_ms())
        awaiting_ttl = self._agenda.take_awaiting_ttl(left)
        try:
            for place in list(awaiting_ttl):
                await self._ttl_script(redis, place)
                awaiting_ttl.discard(place)
            for place in await sweep.with_index(redis, list(left)):
                began = clock.reading()
                await sweep(redis, place)
                longest_ms = max(longest_ms, clock.reading() - began)
                del left[place]
        except (RedisError, asyncio.CancelledError):
            self._agenda.put_back(left, awaiting_ttl)
            raise
        self._agenda.sweep_after_ms = sweep_after_ms(longest_ms)
        self._agenda.look_at_sweeps()

    async def _call(self, redis: Redis, script: str, *argv: bytes) -> object:
        return await answered(redis, self._context.script_calls, 0, Call(script, (), argv))
