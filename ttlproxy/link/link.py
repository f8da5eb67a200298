"""The link: everything the proxy itself asks of Redis, and whether Redis is there.

A life of the link belongs to one server. It ends when that server cannot be reached or is no master
any more, or when new connections reach another server. The clients' sessions end with it unless the
next life is with the same server in the same role. A connection that is lost alone is opened again
within the life: the heartbeat and the reaps notice at their next request, and while there is no
push connection nothing is served.

How long the link waits: its connections have no time-out for replies (`patient` in `connections`),
because servers may pause or sleep, and clients without a proxy would wait, too. What must not wait
for ever runs within a life: if no heartbeat is answered for connect_timeout and no new TCP
connection is accepted either, the life ends, which cancels all that waits (`while_it_lives`).
`look_again` makes the heartbeat look at once.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable, Mapping
from contextlib import AsyncExitStack, suppress
from typing import TypeVar

from redis.asyncio import Redis
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import NoPermissionError, RedisError, ResponseError

from ttlproxy.addresses import Upstream
from ttlproxy.commands import Router, grants, natives
from ttlproxy.config import Settings
from ttlproxy.core.counters import Metrics
from ttlproxy.core.permissions import COUNTING
from ttlproxy.core.registry import Place
from ttlproxy.errors import ReapRefused, ServerChanged, UpstreamError
from ttlproxy.link import compatibility
from ttlproxy.link.backoff import Backoff
from ttlproxy.link.barriers import PATIENCE_S, Barriers
from ttlproxy.link.confirmations import Looks
from ttlproxy.link.connections import client
from ttlproxy.link.context import Context
from ttlproxy.link.heartbeat import Beats
from ttlproxy.link.list_waiters import Waits
from ttlproxy.link.native_deadlines import Adopt
from ttlproxy.link.orphans import Orphans
from ttlproxy.link.outage_log import Outages
from ttlproxy.link.pipeline import error, everywhere, run, valid
from ttlproxy.link.pushes import Pushes, announcing
from ttlproxy.link.reachability import accepts, met
from ttlproxy.link.recheck import Recheck
from ttlproxy.link.schedules import Schedules
from ttlproxy.link.server_identity import INFO, Identity, cached_scripts, fields, is_loading
from ttlproxy.link.session_reaps import Ask, Reap, SessionReaps
from ttlproxy.link.shared_state import State
from ttlproxy.link.sweeps import Sweep
from ttlproxy.net.tasks import Task, cancel, run_together
from ttlproxy.scripts import Traits

log = logging.getLogger(__name__)

_BACKOFF = Backoff(cap=2.0, base=0.05)
# A connection may be lost, or fail to open, so often in a row before its server counts as away.
_MOST_LOSSES = 3
# For a push connection that is lost again and again while the server is there.
_PUSHES_AGAIN = Backoff(cap=0.25, base=0.005)
# A life, or a push connection, that was shorter counts as a failure.
_HEALTHY_MS = 1000
# Between two probes of which server new connections reach.
_PROBE_S = 1.0
# How long serving waits until other proxies are greeted: a write, which may be paused.
_GREETING_S = 0.1
_PAGE = 1000
# Between two walks over all keys.
_SEARCH_MS = 600_000
# Attempts to read all schedules while databases are swapped; the next is a heartbeat later.
_MOST_LOADS = 5
# Due keys that are read at a time.
DUE = 4096
_HASH_DEADLINES = {"HPEXPIRETIME", "HPEXPIREAT", "HPERSIST"}
_EVENTS = (b"CONFIG", b"GET", b"notify-keyspace-events")
Result = TypeVar("Result")


class Link:
    """Keeps the proxy's connections to Redis, and with them what it knows of managed keys.

    serving, ready: while scripts are loaded, announcements arrive and the registry is whole; a
      plain flag for the hot path, and an event to wait for
    tried: the first attempt to serve is over
    server: the one that the link last spoke to; term: how often that or its role has changed, so
      that a client can tell whether its server is still this one
    context: what the link, the reaper and all sessions share
    round_trip_ms: how long the last heartbeat's requests took, as the event loop saw it
    """

    def __init__(
        self,
        settings: Settings,
        upstream: Upstream,
        metrics: Metrics,
        context: Context,
        on_change: Callable[[], None] = lambda: None,
        on_stale: Callable[[Iterable[Place], int], None] = lambda places, now_ms: None,
    ) -> None:
        """`on_change` is called when sessions must end because their server has changed,
        `on_stale(places, now_ms)` for keys whose index has entries without an element."""
        self.context = context
        self.keys = context.keys
        self.scripts = context.scripts
        self.caller = context.caller
        self.registry = context.registry
        self.rights = context.rights
        self.clock = context.clock
        self.overdue = context.overdue
        self.refusals = context.refusals
        self.rulebook = context.rulebook
        self.looks = Looks(self.caller.claims)
        self.round_trip_ms = 0.0
        self.ready = asyncio.Event()
        self.serving = False
        self.tried = asyncio.Event()
        self.server: Identity | None = None
        self.term = 0
        self.upstream = upstream
        self.state = State(
            self.caller,
            self.refusals,
            lambda: self.rights.trusts_schedules,
            shares_secret=not context.has_own_secret,
        )
        self.schedules = Schedules(self.caller, self.registry, self.rulebook, self.refusals)
        self.reap = Reap(
            self.caller,
            self.registry,
            self.clock,
            metrics,
            self.refusals,
            self.rulebook,
            lambda: settings.reap_budget_ms,
        )
        self.adopt = Adopt(self.caller, self.rulebook, self.refusals)
        self.sweep = Sweep(self.caller, self.registry, metrics, self.refusals)
        self.waits = Waits(upstream, lambda: settings.connect_timeout)
        self._on_change = on_change
        self._on_stale = on_stale
        self._settings = settings
        self._pushes: Pushes | None = None
        self._session_reaps: SessionReaps | None = None
        self._barriers = Barriers(self.caller, self.registry, self._client)
        self._reload = False
        self._swaps = 0  # of databases, as announced
        self._beats = Beats()
        self._outages = Outages(upstream.shown)
        self._answers = 0  # heartbeats that were answered
        self._greetings = 0  # received from other proxies
        self._whole: Pushes | None = None  # the push connection since which the registry is whole
        self._newcomers = asyncio.Event()  # clients have connected since the last probe
        self._served = False  # in the present life
        self._demoted = False  # the server was a master when we met it, and is a replica
        self._over = asyncio.Event()  # set while there is no life
        self._over.set()
        self._sees_users = True
        self._heard: dict[bytes, list[bytes]] = {}
        self._heard_at: object = None  # how many commands the server had, for these
        self._hears = True
        self._doubts = 0  # about scripts, at the last look
        self._loaded: Traits | None = None  # the traits of the scripts that were last loaded
        self._pauses_script = False  # whether a pause of writes delays SCRIPT
        self._cached = 0  # how many scripts Redis had, where their number is asked for
        self._notifies = ""  # notify-keyspace-events, as last read
        self._failures = 0
        self._next_search_ms = 0.0
        self._bloated = False

    def receive_pushes(self) -> None:
        """Takes what Redis has announced so far, without waiting."""
        if self._pushes is not None:
            self._pushes.receive()

    async def reaped(
        self,
        places: Iterable[Place],
        databases: Iterable[int],
        unswept: Iterable[Place],
        only_reads: bool,
    ) -> None:
        """Reaps what is due now at these places and in all of these databases; sweeps `unswept`.

        While writes are paused in Redis nothing can be reaped: a request that `only_reads` is not
        held then, others are until the pause is over. After hold_max, pauses not counted, raises
        ReapRefused if Redis answers errors, TimeoutError if it is away.
        """
        ask: Ask | None = None
        try:
            async with asyncio.timeout(self._settings.hold_max) as limit:
                while True:
                    await self.ready.wait()
                    if only_reads and self._barriers.holds:
                        return
                    assert self._session_reaps
                    ask = self._session_reaps.ask(places, databases, unswept)
                    with suppress(UpstreamError):  # the link was lost: ask in its next life
                        await self._done(ask.done, only_reads, limit)
                        return
        except TimeoutError:
            if ask is None or ask.refusal is None:
                raise
            raise ReapRefused(str(ask.refusal)) from None

    async def _done(
        self, done: asyncio.Future[None], only_reads: bool, limit: asyncio.Timeout
    ) -> None:
        """Ends when `done` is, or when writes are paused and the request `only_reads`.

        Time in which Redis answers nobody, or no writes, does not count for the limit.
        """
        loop, barriers = asyncio.get_running_loop(), self._barriers
        while True:
            await asyncio.wait({done}, timeout=PATIENCE_S)
            if done.done():
                return done.result()
            end_s, since_s = limit.when(), loop.time()
            limit.reschedule(None)
            await _unless(done, barriers.judged())
            if barriers.holds and only_reads:
                done.cancel()
                return None
            await _unless(done, barriers.released())
            limit.reschedule((end_s or since_s) + loop.time() - since_s)

    async def due(
        self, redis: Redis, databases: Iterable[int], now_ms: int, most: int = DUE
    ) -> tuple[list[Place], dict[int, ResponseError]]:
        """Keys that need attention, the earliest of each database first, at most `most` of each.

        And Redis's errors for schedules that it does not let us read, by database.
        """
        words = (b"ZRANGEBYSCORE", self.keys.schedule, b"-inf", b"(%d" % now_ms, b"LIMIT", 0, most)
        pages, refused = await everywhere(redis, databases, words)
        for db, refusal in refused.items():
            self._unread(db, refusal)
        return [(db, key) for db, page in pages.items() for key in page], refused

    async def run(self) -> None:
        """Connects, stays connected, and starts anew after a loss. Raises UnfitUpstream only."""
        while True:
            began = self.clock.reading()
            try:
                await run_together(life=self._live(), silence=self._end_where_unreachable())
            except (RedisError, OSError, UpstreamError) as trouble:
                self._outages.lost(trouble)
                if isinstance(trouble, ServerChanged):
                    self._change()
            finally:
                self.tried.set()
            was_healthy = self._served and self.clock.reading() - began > _HEALTHY_MS
            self._failures = 0 if was_healthy else self._failures + 1
            if self._failures:  # the first attempt after a healthy life comes at once
                await asyncio.sleep(_BACKOFF.compute(self._failures))

    async def while_it_lives(self, work: Coroutine[None, None, Result]) -> Result:
        """Does `work`; raises UpstreamError if the present life of the link ends before.

        For tasks that have patient connections of their own.
        """
        working = asyncio.create_task(work, name="within a life of the link")
        ending = asyncio.create_task(self._over.wait(), name="the end of a life of the link")
        try:
            await asyncio.wait({working, ending}, return_when=asyncio.FIRST_COMPLETED)
            if not working.done():
                raise UpstreamError("the link was lost")
            return working.result()
        finally:
            await cancel(working, ending)

    def look_again(self) -> None:
        """A request may have changed what the link has seen: the link looks at once.

        It looks again a second later, because the request may not have been carried out yet.
        """
        self._beats.be_thorough()
        self.looks.beat()

    def client_connects(self) -> None:
        """A connection to Redis is opened for a client: it may reach another server."""
        self._newcomers.set()

    @property
    def trouble(self) -> str:
        """Why Redis is away; empty while it is there."""
        return self._outages.reason

    async def _live(self) -> None:
        """One life of the link: from connecting to its end, which is raised."""
        self._served = False
        self._beats = Beats()
        async with AsyncExitStack() as stack:
            stack.callback(self._over.set)
            redis = await self._open(stack, "ttlproxy:link")
            reaping = await self._open(stack, "ttlproxy:reaps")
            await self._prepare(redis)
            self.rulebook.forget_all()
            self._session_reaps = SessionReaps(
                self.reap,
                self.sweep,
                self.due,
                self.clock,
                reaping,
                self._settings.reap_batch,
                self._on_stale,
            )
            stack.callback(self._session_reaps.stop)
            stack.callback(self._is_serving, False)  # before waiting sessions are told to ask anew
            self._over.clear()
            await run_together(
                pushes=self._keep_announced(),
                reaps=self._session_reaps.run(),
                heartbeat=self._beat(redis),
                address=self._watch_address(),
                barriers=self._barriers.run(),
            )

    async def _end_where_unreachable(self) -> None:
        """Raises UpstreamError when nothing is answered and no new connection is accepted."""
        while True:
            answers = self._answers
            await asyncio.sleep(self._settings.connect_timeout)
            if answers == self._answers:
                self.tried.set()  # clients may connect, and wait
                log.debug("Redis has not answered for a while: is it still there?")
                if not await accepts(self.upstream, self._settings.connect_timeout):
                    raise UpstreamError("it does not answer, and takes no new connection")

    async def _watch_address(self) -> None:
        """Raises ServerChanged when new connections reach another server than the link's."""
        while True:
            await self._newcomers.wait()
            self._newcomers.clear()
            found = await met(self.upstream, self._settings.connect_timeout)
            if found is not None and self.server is not None and self.server.is_other(found):
                raise ServerChanged("another server is at its address now")
            await asyncio.sleep(_PROBE_S)

    def _change(self) -> None:
        """Sessions end: their server is not served any more."""
        self.term += 1
        self._on_change()

    async def _keep_announced(self) -> None:
        """Opens a push connection, and a new one after each loss; serving pauses meanwhile."""
        failures = 0
        while True:
            began = self.clock.reading()
            try:
                await self._hear_announcements()
            except TimeoutError:  # Redis is silent: `_end_where_unreachable` finds out more
                log.debug("the push connection is not opened yet: Redis does not answer")
            except (UpstreamError, OSError):
                if failures >= _MOST_LOSSES:
                    raise  # it is not just this connection
            failures = 0 if self.clock.reading() - began > _HEALTHY_MS else failures + 1
            if failures > 1:
                await asyncio.sleep(_PUSHES_AGAIN.compute(failures - 1))

    async def _hear_announcements(self) -> None:
        """Opens a push connection; ends when that is lost."""
        lost, settings = asyncio.Event(), self._settings

        def on_loss() -> None:
            self._is_serving(False)  # from here on announcements are missed
            lost.set()

        pushes = Pushes(
            self.keys,
            self.registry.announced,
            self._swapped,
            self.rulebook.changed,
            self._flushed,
            self._greeted,
            on_loss,
        )
        greeting: list[asyncio.Task[None]] = []
        try:
            await pushes.open(self.upstream, settings.connect_timeout, settings.tcp_keepalive)
            self._pushes = pushes
            greeting.append(asyncio.create_task(self._greet(), name="greeting"))
            await asyncio.wait(greeting, timeout=_GREETING_S)
            self.looks.beat()  # this reads the registry, and lets clients be served
            await lost.wait()
        finally:
            self._is_serving(False)
            self._pushes = None
            pushes.close()
            await cancel(*greeting)

    async def _greet(self) -> None:
        """Tells other proxies that there is one more.

        If the server refuses the write, they still notice: they count the clients that track keys.
        """
        redis = self._client("ttlproxy:hello")
        try:
            await run(redis, [(0, words) for words in announcing(self.keys.hello)])
        except (RedisError, OSError) as trouble:
            log.debug("other proxies are not greeted: %s", trouble)
        finally:
            await redis.aclose()

    def _client(self, name: str) -> Redis:
        """One connection of the link's own, which waits for replies as long as a life lasts."""
        timeout_s, keepalive_s = self._settings.connect_timeout, self._settings.tcp_keepalive
        return client(self.upstream, name, timeout_s, keepalive_s, patient=True)

    async def _open(self, stack: AsyncExitStack, name: str) -> Redis:
        redis = self._client(name)
        stack.push_async_callback(redis.aclose)
        await redis.initialize()
        return redis

    async def _prepare(self, redis: Redis) -> None:
        """Learns what the server can do and whether we may use it; loads the scripts.

        Of a server that is known only the role and the scripts may have changed.
        """
        self._sees_users = True
        try:
            (info,) = await run(redis, [(0, INFO)])
        except ResponseError as refusal:  # the connection could not be opened
            compatibility.check_greeting(refusal)
            raise
        if error(info):  # maybe renamed: that does not pass, so it is reported
            await compatibility.check_commands(redis)
        said = fields(valid(info))
        compatibility.check_server(said)
        known, found = self.server, Identity.of(said)
        if known is None or not known.run_id or known.run_id != found.run_id:
            await self._meet(redis, said)
            if known is not None:
                self._change()
        elif known.is_master and not found.is_master:
            self._change()
        was_master = self._demoted or (known is not None and known.is_master)
        self._demoted = was_master and not found.is_master
        self.server = found
        await self._load_scripts(redis)

    async def _meet(self, redis: Redis, said: Mapping[str, str]) -> None:
        """Learns about a new server; `said`: the fields of INFO."""
        self._heard_at = None
        self.scripts.loaded = False
        self._pauses_script = compatibility.pauses_script(said)
        await compatibility.check_commands(redis)
        await compatibility.warn(redis)
        try:
            (commands,) = await run(redis, [(0, (b"COMMAND",))])
            found = list(natives(valid(commands)))
        except ResponseError as refused:
            log.warning("Redis refuses COMMAND, so every word may be a key: %s", refused)
            found = []
        self._hears = bool(found)
        self.context.router = Router(found, self._heard, compatibility.forms(said))
        counting = [grants(found, name) for name in COUNTING]
        self.rights.suit(grants(found, "ACL", "CAT"), counting)
        (events,) = await run(redis, [(0, _EVENTS)])
        names = {native.name for native in found}
        traits = Traits(
            names >= _HASH_DEADLINES,
            compatibility.has_subkey_events(said),
            counting=self.scripts.traits.counting,
            ruled=self.scripts.traits.ruled,
            flags="EVAL_RO" in names,
        )
        self._notifies = _setting(events)
        self.scripts.suit(traits.notifying(self._notifies))
        self.scripts.by_text = await compatibility.wants_text(redis)
        await self._learn_users(redis)
        await self.state.claim(redis)

    async def _load_scripts(self, redis: Redis) -> None:
        """Loads the scripts that Redis does not have."""
        if self.scripts.by_text:
            self.scripts.loaded = False
            return
        traits, doubts = self.scripts.traits, self.scripts.doubts
        scripts = list(self.scripts.values())
        words = (b"SCRIPT", b"EXISTS", *(script.sha for script in scripts))
        (known,) = await run(redis, [(0, words)])
        missing = [
            script for script, is_known in zip(scripts, valid(known), strict=True) if not is_known
        ]
        self.scripts.loaded = self.scripts.loaded and not missing
        for reply in await run(redis, [(0, (b"SCRIPT", b"LOAD", each.text)) for each in missing]):
            valid(reply)
        self._loaded = traits
        self.scripts.loaded = (self.scripts.traits, self.scripts.doubts) == (traits, doubts)

    async def _load(self, redis: Redis) -> None:
        """Reads all schedules into the registry, while announcements go on arriving.

        Schedules that are not trusted only add to what is known: then indexes are searched for if
        announcements may have been missed, or most known keys are not managed any more.

        If databases are swapped meanwhile, one of them may have been read twice and the other not
        at all: all is read again before it counts. The push of a swap that came before a page was
        read is there when the page is.
        """
        pushes = self._pushes
        missed = self._whole is not pushes
        if missed:
            await self._learn_users(redis)
        for _ in range(_MOST_LOADS):
            swaps = self._swaps
            await self._read_schedules(redis, missed or self._bloated)
            self.receive_pushes()
            if self._swaps == swaps:
                break
        self.registry.end_load()
        self._bloated = False
        self._whole = pushes

    async def _read_schedules(self, redis: Redis, anew: bool) -> None:
        self._reload = False
        sent = self.clock.reading()
        (now,) = await run(redis, [(0, (b"TIME",))])
        if error(now):
            self.registry.begin_load()
        else:
            self._tell(now, sent)
            self.registry.begin_load(self.clock.now_ms())
        for db in await self._databases(redis):
            try:
                if not self.rights.trusts_schedules and anew:
                    await self.schedules.search(redis, db)
                elif not self.rights.trusts_schedules:
                    self.registry.load_known(db)
                await self.rulebook.learn(redis, db)
                await self.schedules.load(redis, db)
            except ResponseError as refusal:
                self._unread(db, refusal)
                if not self.serving:
                    raise  # nothing is known yet, so nothing can be promised
                self.registry.load_known(db)

    def _unread(self, db: int, refusal: ResponseError) -> None:
        self.refusals.note(f"to read the schedule of database {db}", refusal)

    async def _rebuild(self, redis: Redis, db: int) -> None:
        try:
            await self.schedules.rebuild(redis, db)
        except ResponseError as refusal:
            self.refusals.note(f"to make the schedule of database {db} anew", refusal)

    async def _databases(self, redis: Redis) -> list[int]:
        """The logical databases that hold keys."""
        (info,) = await run(redis, [(0, (b"INFO", b"keyspace"))])
        return Identity.of(fields(valid(info))).databases

    async def _beat(self, redis: Redis) -> None:
        """Looks at Redis once a second, and at once if there is a reason."""
        orphans = Orphans(self.caller, self.refusals, lambda: self.rights.trusts_schedules)
        recheck = Recheck(
            self.registry, self.sweep, self.refusals, self._found_stale, self._would_wait
        )
        failures = 0
        while True:
            self._beats.begin()
            try:
                await self._refresh(redis)
                await self.state.keep(redis)
                if self._beats.regular:
                    await orphans.look(redis, self.server.databases if self.server else [])
                    await recheck.look(redis)
                self._answers += 1
                await self.looks.until_beat(self._beats.left_s, redis, self._look)
                failures = 0
            except RedisConnectionError:
                failures += 1
                if failures > _MOST_LOSSES:
                    raise  # else it is opened again at the next request
            except ResponseError as refusal:  # it was not refused at the beginning, or may pass
                if not self.serving:
                    raise
                self._reload = True
                self.refusals.note("the heartbeat", refusal)
                await asyncio.sleep(max(self._beats.left_s, 0))

    def _found_stale(self, places: Iterable[Place]) -> None:
        self._on_stale(places, self.clock.now_ms())

    async def _look(self, redis: Redis) -> None:
        """Looks at what a client's request may have changed."""
        traits = self.scripts.traits
        if await self._learn_users(redis):
            self.looks.changed = True
        known, events = await run(redis, [(0, self._exists()), (0, _EVENTS)])
        if not error(known):
            await self._learn_scripts(redis, traits, self._found(known), events)

    def _exists(self) -> tuple[bytes, ...]:
        """Asks for one script, as a flush takes all; for their number, if a pause delays SCRIPT."""
        if self._pauses_script:
            return (b"INFO", b"memory")
        return (b"SCRIPT", b"EXISTS", next(iter(self.scripts.values())).sha)

    def _found(self, reply: object) -> list[int]:
        """What the reply to `_exists` says; raises an error of Redis."""
        if not self._pauses_script:
            found: list[int] = valid(reply)
            return found
        before, self._cached = self._cached, cached_scripts(valid(reply))
        return [int(self._cached >= before)]

    async def _learn_scripts(
        self, redis: Redis, traits: Traits, known: list[int], events: object
    ) -> None:
        """Learns whether Redis knows scripts made for these traits, and which events it publishes.

        A request that has just passed may be carried out yet, so it counts until the next look.
        `events`: None if they were not asked for
        """
        scripts = self.scripts
        is_calm, self._doubts = self._doubts == scripts.doubts, scripts.doubts
        told = events is not None and not error(events)
        notifies = _setting(events) if told else self._notifies
        if notifies != self._notifies or (traits == self._loaded and not all(known)):
            self.looks.changed = True
        self._notifies = notifies
        if scripts.traits == traits:
            suited = traits.notifying if is_calm else traits.perhaps_notifying
            scripts.suit(suited(notifies))
        if not (is_calm and all(known)):
            self._loaded = None  # until all are asked for: the next count may look unchanged
        if is_calm and not (scripts.traits == traits == self._loaded):
            if not await self._would_wait():
                await self._load_scripts(redis)
        elif is_calm:
            scripts.loaded = not scripts.by_text

    async def _would_wait(self) -> bool:
        """Whether a pause of writes, where there is one, holds back SCRIPT and all scripts, too."""
        return self._pauses_script and await self._barriers.judged()

    async def _refresh(self, redis: Redis) -> None:
        """Looks at what may have changed without a push."""
        greetings, traits = self._greetings, self.scripts.traits
        sent = self.clock.reading()
        info, now, known = await run(redis, [(0, INFO), (0, (b"TIME",)), (0, self._exists())])
        self.round_trip_ms = self.clock.reading() - sent
        refused = [refusal for reply in (info, now, known) if (refusal := error(reply))]
        lacks_right = all(isinstance(refusal, NoPermissionError) for refusal in refused)
        self.rights.running = (not error(known) or lacks_right) and not is_loading(info)
        if not lacks_right:
            return  # BUSY and the like pass by themselves, and nothing is missed meanwhile
        for refusal in refused:
            self.refusals.note("the heartbeat", refusal)
        if not error(now):
            self._tell(now, sent)
        if not error(info):
            self._recognize(Identity.of(fields(valid(info))), greetings == self._greetings)
        events = await self._look_thoroughly(redis) if self._beats.thorough else None
        if not error(known):
            await self._learn_scripts(redis, traits, self._found(known), events)
        else:
            self.scripts.loaded = False  # as far as can be known
        if self._beats.regular:
            await self.overdue.look(redis, self.registry.databases(), self.clock.now_ms())
            for db in self.overdue.broken:
                await self._rebuild(redis, db)
            self.registry.beat(self.clock.now_ms())
            swapped = self.caller.claims.wants_reading()
            self._bloated = await self._is_bloated(redis)
            self._reload = self._reload or swapped or self._bloated
        await self._keep_whole(redis)
        if self._beats.regular:
            await self._learn_rules(redis)

    def _recognize(self, met: Identity, is_ungreeted: bool) -> None:
        """Raises ServerChanged if it is another server, or was a master and is a replica now."""
        known = self.server
        assert known is not None
        if known.run_id != met.run_id:
            raise ServerChanged("it is another server, or was started anew")
        if known.is_master and not met.is_master:
            raise ServerChanged("it is no master any more")
        self.server = met
        if met.is_master and not known.is_master:
            log.info("Redis at %s is a master now", self.upstream.shown)
            self._demoted = False
            self._reload = True
            self.look_again()
        if self._demoted:
            self._newcomers.set()  # the address may move to the new master at any time
        # A replica gets other proxies' announcements by replication, and counts only its own.
        alone = met.is_master and met.trackers <= 1
        self.registry.others(not (alone and is_ungreeted))

    async def _look_thoroughly(self, redis: Redis) -> object:
        """Looks at what seldom changes: users and commands; returns the keyspace events."""
        await self._learn_users(redis)
        await self._hear_categories(redis)
        (events,) = await run(redis, [(0, _EVENTS)])
        return events

    async def _keep_whole(self, redis: Redis) -> None:
        """Reads the registry if it may lack something; serves clients when it is whole."""
        pushes = self._pushes
        if pushes is None or not (self._beats.regular or self._whole is not pushes):
            return
        if self._reload or self._whole is not pushes:
            await self._load(redis)
        if not self.serving and self._whole is self._pushes:
            self._is_serving(True)
            self._outages.over(len(self.registry))

    async def _learn_rules(self, redis: Redis) -> None:
        """Reads rules that have changed. If Redis refuses, reaps that need them tell so."""
        for db in self.rulebook.unread:
            try:
                await self.rulebook.learn(redis, db)
            except ResponseError as refusal:
                self.refusals.note(f"to read the rules of database {db}", refusal)
        if self.scripts.traits.field_ttls:
            await self.adopt(redis)

    def _tell(self, now: object, sent: float) -> None:
        """Gives the clock TIME's reply to a request sent at that moment."""
        seconds, microseconds = valid(now)
        self.clock.learn(int(seconds) * 1000 + int(microseconds) // 1000, sent)

    async def _learn_users(self, redis: Redis) -> bool:
        """Reads what users may do; returns whether that has changed.

        Redis logs each refusal of ACL LIST, so one is enough.
        """
        if not self._sees_users:
            return False
        (users,) = await run(redis, [(0, (b"ACL", b"LIST"))])
        self._sees_users = not isinstance(users, NoPermissionError)
        return self.rights.learn(valid(users) if not error(users) else None)

    async def _hear_categories(self, redis: Redis) -> None:
        """Asks ACL CAT, which no script may; again when modules bring or take commands.

        Not if Redis does not show the users' rights, or has refused once: it logs each refusal.
        """
        if not (self._sees_users and self._hears):
            self._heard.clear()
            return
        (count,) = await run(redis, [(0, (b"COMMAND", b"COUNT"))])
        if count == self._heard_at:
            return
        names = self.context.router.categories
        replies = [count, *await run(redis, [(0, (b"ACL", b"CAT", name)) for name in names])]
        self._hears = not any(isinstance(reply, NoPermissionError) for reply in replies)
        if not any(map(error, replies)):
            self._heard.update(zip(names, map(valid, replies[1:]), strict=True))
            self._heard_at = count

    async def _is_bloated(self, redis: Redis) -> bool:
        """Whether others have reaped most of the keys that the registry holds.

        If it takes a walk over all keys to read it anew, at most once in `_SEARCH_MS`.
        """
        is_early = self.clock.reading() < self._next_search_ms
        if len(self.registry) < 2 * _PAGE or (is_early and not self.rights.trusts_schedules):
            return False
        words = (b"ZCARD", self.keys.schedule)
        sizes, refused = await everywhere(redis, self.registry.databases(), words)
        if refused or len(self.registry) <= 2 * sum(sizes.values()):
            return False
        self._next_search_ms = self.clock.reading() + _SEARCH_MS
        return True

    def _is_serving(self, serving: bool) -> None:
        self.serving = serving
        if serving:
            self._served = True
            self.tried.set()
            self.ready.set()
        else:
            self.ready.clear()

    def _greeted(self) -> None:
        """Another proxy is about to serve."""
        self._greetings += 1
        self.registry.others(True)

    def _swapped(self, one: int, other: int) -> None:
        """Two databases were swapped: until they are read anew, each has the keys of both."""
        self.registry.swapped(one, other)
        self.rulebook.forget(one, other)
        self._reload = True
        self.looks.first(self.state.keep)
        self._swaps += 1

    def _flushed(self) -> None:
        """Any key may be gone. Until all is read anew, entries too many only cost reaps."""
        self.rulebook.flushed()
        self._reload = True
        self.looks.first(self.state.keep)


def _setting(reply: object) -> str:
    """The value in a CONFIG GET's reply; empty if we may not call CONFIG or it is missing."""
    if isinstance(reply, dict):
        reply = [word for pair in reply.items() for word in pair]
    return reply[1].decode() if isinstance(reply, list) and len(reply) > 1 else ""


async def _unless(done: asyncio.Future[None], work: Coroutine[None, None, object]) -> None:
    """Does `work`, unless `done` comes first."""
    working: Task = asyncio.create_task(work, name="a wait for a barrier")
    try:
        await asyncio.wait({done, working}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        await cancel(working)
