"""The link: everything the proxy itself wants of Redis, and whether Redis is there."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from contextlib import AsyncExitStack, suppress
from typing import Any

from redis.asyncio import Redis
from redis.exceptions import NoPermissionError, RedisError, ResponseError

from ttlproxy.addresses import Upstream
from ttlproxy.caller import Caller
from ttlproxy.commands import Rules, grants, natives
from ttlproxy.config import Settings
from ttlproxy.errors import ReapRefused, UpstreamError
from ttlproxy.keys import Keys
from ttlproxy.link import fitness
from ttlproxy.link.adoption import Adopt
from ttlproxy.link.backoff import Backoff
from ttlproxy.link.clock import ServerClock
from ttlproxy.link.connections import client
from ttlproxy.link.looks import Looks
from ttlproxy.link.overdue import Overdue
from ttlproxy.link.pipeline import error, everywhere, run, valid
from ttlproxy.link.pushes import Pushes
from ttlproxy.link.reaps import Ask, Reap, SessionReaps
from ttlproxy.link.refusals import Refusals
from ttlproxy.link.rulebook import Rulebook
from ttlproxy.link.scores import whole_ms
from ttlproxy.link.state import State
from ttlproxy.link.status import section
from ttlproxy.link.strays import Strays
from ttlproxy.link.sweeps import Sweep
from ttlproxy.link.waits import Waits
from ttlproxy.metrics import Metrics
from ttlproxy.registry import Place, Registry
from ttlproxy.rights import Rights
from ttlproxy.scripts import Scripts, Traits
from ttlproxy.signing import Signer, new_secret
from ttlproxy.tasks import run_together

log = logging.getLogger(__name__)

_BEAT_S = 1.0
_BACKOFF = Backoff(cap=2.0, base=0.05)
_PAGE = 1000
# Attempts at reading all schedules while databases change places; the next is a heartbeat later.
_MOST_LOADS = 5
# Due keys that are looked up at a time.
DUE = 4096
_HASH_DEADLINES = {"HPEXPIRETIME", "HPEXPIREAT", "HPERSIST"}
_EVENTS = (b"CONFIG", b"GET", b"notify-keyspace-events")


class Link:
    """Keeps the proxy's connections to Redis, and with them what it knows of managed keys.

    serving, ready: while scripts are loaded, announcements arrive and the registry is whole; a
      plain flag for the hot path, and the event for those who wait
    tried: the first attempt to get there is over
    rules: of the server that the link last spoke to
    overdue: what should have been reaped, at the last heartbeat
    round_trip_ms: how long the last heartbeat's requests took, as the event loop saw it
    """

    def __init__(self, settings: Settings, upstream: Upstream, metrics: Metrics) -> None:
        prefix = settings.prefix.encode()
        self.keys = Keys(prefix)
        self.scripts = Scripts(prefix)
        key_file = settings.signing_key_file
        signer = Signer(key_file.at_start.encode() if key_file else new_secret())
        self.caller = Caller(self.scripts, self.keys, self._section, signer)
        self.registry = Registry()
        self.rights = Rights(self.keys.index(b"k"), settings.show_internal_keys == "yes")
        self.clock = ServerClock()
        self.looks = Looks(self.caller.claims)
        self.rules = Rules()
        self.overdue = Overdue(self.keys.schedule)
        self.round_trip_ms = 0.0
        self.ready = asyncio.Event()
        self.serving = False
        self.tried = asyncio.Event()
        self.upstream = upstream
        self.refusals = Refusals(metrics)
        self.state = State(self.caller, self.refusals, shares_secret=key_file is None)
        self.rulebook = Rulebook(self.keys, signer, self.refusals, self._ruled)
        self.registry.governs = self.rulebook.governs
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
        self.sweep = Sweep(self.caller, metrics, self.refusals)
        self.waits = Waits(upstream, lambda: settings.connect_timeout)
        self.on_ghosts: Callable[[Iterable[Place]], None] = lambda places: None
        self._settings = settings
        self._metrics = metrics
        self._began = self.clock.reading()
        self._pushes: Pushes | None = None
        self._session_reaps: SessionReaps | None = None
        self._reload = False
        self._swaps = 0  # of databases, as far as they are known of
        self._sees_users = True
        self._heard: dict[bytes, list[bytes]] = {}
        self._heard_at: object = None  # how many commands the server had
        self._hears = True
        self._doubts = 0  # about scripts, when they were last asked for
        self._loaded: Traits | None = None  # what they were made for when they were last loaded
        self._notifies = ""  # the setting of Redis, when it was last asked for
        self._failures = 0

    def receive_pushes(self) -> None:
        """Takes what Redis has announced up to now."""
        if self._pushes is not None:
            self._pushes.receive()

    async def reaped(
        self, places: Iterable[Place], databases: Iterable[int], unswept: Iterable[Place]
    ) -> None:
        """Ends when what is due now at these places, and in all of these databases, is gone.

        And what is `unswept` is swept. Where that takes longer than hold_max: raises ReapRefused if
        Redis answers errors, TimeoutError if it is away.
        """
        ask: Ask | None = None
        try:
            async with asyncio.timeout(self._settings.hold_max):
                while True:
                    await self.ready.wait()
                    assert self._session_reaps
                    ask = self._session_reaps.ask(places, databases, unswept)
                    with suppress(UpstreamError):  # the link was lost: ask in its next life
                        await ask.done
                        return
        except TimeoutError:
            if ask is None or ask.refusal is None:
                raise
            raise ReapRefused(str(ask.refusal)) from None

    def _section(self) -> bytes:
        uptime_ms, now_ms = self.clock.reading() - self._began, self.clock.now_ms()
        return section(uptime_ms, self.registry, self._metrics, self.overdue, now_ms)

    async def due(
        self, redis: Redis, databases: Iterable[int], now_ms: int, most: int = DUE
    ) -> tuple[list[Place], dict[int, ResponseError]]:
        """Keys that need attention, the earliest of each database first; not all, where many do.

        And the databases whose schedule Redis does not let us read.
        """
        words = (b"ZRANGEBYSCORE", self.keys.schedule, b"-inf", b"(%d" % now_ms, b"LIMIT", 0, most)
        pages, refused = await everywhere(redis, databases, words)
        for db, refusal in refused.items():
            self._unread(db, refusal)
        return [(db, key) for db, page in pages.items() for key in page], refused

    async def run(self) -> None:
        """Connects, stays connected, and starts anew after a loss. Raises UnfitUpstream only."""
        while True:
            try:
                await self._connected()
            except (RedisError, OSError, UpstreamError) as trouble:
                self._failures += 1
                if self._failures == 1:
                    log.warning("Redis at %s is away: %s", self.upstream.shown, trouble)
            finally:
                self.tried.set()
            await asyncio.sleep(_BACKOFF.compute(self._failures))

    async def _connected(self) -> None:
        """One life of the link: from connecting to the first loss, which it raises."""
        lost = asyncio.Event()
        async with AsyncExitStack() as stack:
            redis = await self._open(stack, "ttlproxy:link")
            reaping = await self._open(stack, "ttlproxy:reaps")
            await self._prepare(redis)

            def on_loss() -> None:
                self._is_serving(False)  # from here on announcements are missed
                lost.set()

            self._pushes = Pushes(
                self.keys,
                self.registry.announced,
                self._swapped,
                self.rulebook.changed,
                self._flushed,
                self._greeted,
                on_loss,
            )
            stack.callback(self._pushes.close)
            await self._pushes.open(
                self.upstream, self._settings.connect_timeout, self._settings.tcp_keepalive
            )
            await run(redis, [(0, (b"PUBLISH", self.keys.channel, b"hello"))])
            self.rulebook.forget_all()
            await self._load(redis)
            await self._refresh(redis)
            self._session_reaps = SessionReaps(
                self.reap,
                self.sweep,
                self.due,
                self.clock,
                reaping,
                self._settings.reap_batch,
                lambda places: self.on_ghosts(places),
            )
            stack.callback(self._session_reaps.stop)
            stack.callback(self._is_serving, False)  # before those who wait are told to ask anew
            self._is_serving(True)
            self.tried.set()
            self._failures = 0
            log.info("Redis at %s: %d keys managed", self.upstream.shown, len(self.registry))
            await run_together(
                pushes=_raise_when(lost),
                reaps=self._session_reaps.run(),
                heartbeat=self._beat(redis),
            )

    async def _open(self, stack: AsyncExitStack, name: str) -> Redis:
        settings = self._settings
        redis = client(self.upstream, name, settings.connect_timeout, settings.tcp_keepalive)
        stack.push_async_callback(redis.aclose)
        await redis.initialize()
        return redis

    async def _prepare(self, redis: Redis) -> None:
        """What the server can do, whether we may touch it, and the scripts."""
        self._sees_users = True
        self._heard_at = None
        await fitness.check_commands(redis)
        server = await redis.info("server")
        fitness.check_server(server, await redis.info("cluster"))
        await fitness.warn(redis)
        try:
            (commands,) = await run(redis, [(0, (b"COMMAND",))])
            found = list(natives(valid(commands)))
        except ResponseError as refused:
            log.warning("Redis refuses COMMAND, so every word may be a key: %s", refused)
            found = []
        self._hears = bool(found)
        self.rules = Rules(found, self._heard, fitness.forms(server))
        self.rights.suit(grants(found, "ACL", "CAT"))
        (events,) = await run(redis, [(0, _EVENTS)])
        names = {native.name for native in found}
        traits = Traits(
            names >= _HASH_DEADLINES,
            fitness.has_subkey_events(server),
            counting=self.scripts.traits.counting,
            ruled=self.scripts.traits.ruled,
        )
        self._notifies = _setting(events)
        self.scripts.suit(traits.notifying(self._notifies))
        self.scripts.by_text = await fitness.wants_text(redis)
        await self.state.claim(redis)
        await self._load_scripts(redis)

    async def _load_scripts(self, redis: Redis) -> None:
        if self.scripts.by_text:
            self.scripts.loaded = False
            return
        traits, doubts = self.scripts.traits, self.scripts.doubts
        loads = [(0, (b"SCRIPT", b"LOAD", script.text)) for script in self.scripts.values()]
        for reply in await run(redis, loads):
            valid(reply)
        self._loaded = traits
        self.scripts.loaded = (self.scripts.traits, self.scripts.doubts) == (traits, doubts)

    async def _load(self, redis: Redis) -> None:
        """Reads all schedules into the registry, while announcements go on arriving.

        Where databases change places meanwhile, one of them may have been read twice and the other
        not at all: all is read again before it counts. The push of a swap that came before a page
        was read is there when the page is.
        """
        for _ in range(_MOST_LOADS):
            swaps = self._swaps
            await self._read_schedules(redis)
            self.receive_pushes()
            if self._swaps == swaps:
                break
        self.registry.end_load()

    async def _read_schedules(self, redis: Redis) -> None:
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
                await self.rulebook.learn(redis, db)
                await self._load_schedule(redis, db)
            except ResponseError as refusal:
                self._unread(db, refusal)
                if not self.serving:
                    raise  # nothing is known yet, so nothing can be promised
                self.registry.load_known(db)

    async def _load_schedule(self, redis: Redis, db: int) -> None:
        cursor = b"0"
        while True:
            words = (b"ZSCAN", self.keys.schedule, cursor, b"COUNT", _PAGE)
            cursor, entries = valid((await run(redis, [(db, words)]))[0])
            scores = map(whole_ms, entries[1::2])
            self.registry.load(db, zip(entries[::2], scores, strict=True))
            if cursor == b"0":
                return

    def _unread(self, db: int, refusal: ResponseError) -> None:
        self.refusals.note(f"to read the schedule of database {db}", refusal)

    async def _databases(self, redis: Redis) -> list[int]:
        """The logical databases that hold keys."""
        keyspace: Mapping[str, Any] = await redis.info("keyspace")
        return [int(name.removeprefix("db")) for name in keyspace if name.startswith("db")]

    async def _beat(self, redis: Redis) -> None:
        """Once a second: the clock, the scripts, other proxies, what the registry has too much."""
        strays = Strays(self.caller, self.refusals)
        while True:
            await self._refresh(redis)
            await self.state.keep(redis)
            await strays.look(redis, self._databases)
            await self.looks.until_beat(_BEAT_S, redis, self._look)

    async def _look(self, redis: Redis) -> None:
        """What a client's request may have changed."""
        traits = self.scripts.traits
        known, events = await run(redis, [(0, self._exists()), (0, _EVENTS)])
        if not error(known):
            await self._learn_scripts(redis, traits, valid(known), events)

    def _exists(self) -> tuple[bytes, ...]:
        return (b"SCRIPT", b"EXISTS", *(script.sha for script in self.scripts.values()))

    async def _learn_scripts(
        self, redis: Redis, traits: Traits, known: list[int], events: object
    ) -> None:
        """Which scripts made for these traits Redis knows, and which events it publishes.

        A request that has just passed may be carried out yet: until the next look it counts.
        """
        scripts = self.scripts
        is_calm, self._doubts = self._doubts == scripts.doubts, scripts.doubts
        notifies = self._notifies if error(events) else _setting(events)
        if notifies != self._notifies or (traits == self._loaded and not all(known)):
            self.looks.changed = True
        self._notifies = notifies
        if scripts.traits == traits:
            suited = traits.notifying if is_calm else traits.perhaps_notifying
            scripts.suit(suited(notifies))
        if is_calm and scripts.traits == traits and all(known):
            scripts.loaded = not scripts.by_text
        elif is_calm:
            await self._load_scripts(redis)

    async def _refresh(self, redis: Redis) -> None:
        """What may have changed of what no push tells."""
        await self._learn_users(redis)
        traits = self.scripts.traits
        sent = self.clock.reading()
        now, known, subscribers, events = await run(
            redis,
            [
                (0, (b"TIME",)),
                (0, self._exists()),
                (0, (b"PUBSUB", b"NUMSUB", self.keys.channel)),
                (0, _EVENTS),
            ],
        )
        self.round_trip_ms = self.clock.reading() - sent
        self.rights.running = not error(known)
        # BUSY and the like pass by themselves, and nothing is missed meanwhile.
        if not error(now) and not error(known):
            self._tell(now, sent)
            await self._learn_scripts(redis, traits, valid(known), events)
            await self._hear_categories(redis)
            self.registry.others(subscribers != [self.keys.channel, 1])
            await self.overdue.look(redis, self.registry.databases(), self.clock.now_ms())
            self.registry.beat(self.clock.now_ms())
            swapped = self.caller.claims.wants_reading()
            if self._reload or swapped or await self._is_bloated(redis):
                await self._load(redis)
            await self._learn_rules(redis)

    async def _learn_rules(self, redis: Redis) -> None:
        """What has changed of the rules. Where Redis refuses, those who need them are told."""
        for db in self.rulebook.unread:
            try:
                await self.rulebook.learn(redis, db)
            except ResponseError as refusal:
                self.refusals.note(f"to read the rules of database {db}", refusal)
        if self.scripts.traits.field_ttls:
            await self.adopt(redis)

    def _tell(self, now: object, sent: float) -> None:
        """What TIME has answered to a request of that moment, to the clock."""
        seconds, microseconds = valid(now)
        self.clock.learn(int(seconds) * 1000 + int(microseconds) // 1000, sent)

    async def _learn_users(self, redis: Redis) -> None:
        """Who may run scripts. Redis logs each refusal of ACL LIST, so one is enough."""
        if self._sees_users:
            (users,) = await run(redis, [(0, (b"ACL", b"LIST"))])
            self._sees_users = not isinstance(users, NoPermissionError)
            if not error(users):
                self.rights.learn(valid(users))

    async def _hear_categories(self, redis: Redis) -> None:
        """What ACL CAT says, which no script may ask; anew when modules bring or take commands.

        Nothing where Redis does not show who may ask it, or refuses it, which it logs each time.
        """
        if not (self._sees_users and self._hears):
            self._heard.clear()
            return
        (count,) = await run(redis, [(0, (b"COMMAND", b"COUNT"))])
        if count == self._heard_at:
            return
        names = self.rules.categories
        replies = [count, *await run(redis, [(0, (b"ACL", b"CAT", name)) for name in names])]
        self._hears = not any(isinstance(reply, NoPermissionError) for reply in replies)
        if not any(map(error, replies)):
            self._heard.update(zip(names, map(valid, replies[1:]), strict=True))
            self._heard_at = count

    async def _is_bloated(self, redis: Redis) -> bool:
        """Whether most of what the registry holds has been reaped by others."""
        if len(self.registry) < 2 * _PAGE:
            return False
        words = (b"ZCARD", self.keys.schedule)
        sizes, refused = await everywhere(redis, self.registry.databases(), words)
        return not refused and len(self.registry) > 2 * sum(sizes.values())

    def _is_serving(self, serving: bool) -> None:
        self.serving = serving
        if serving:
            self.ready.set()
        else:
            self.ready.clear()

    def _greeted(self) -> None:
        """Another proxy is about to serve."""
        self.registry.others(True)

    def _swapped(self, one: int, other: int) -> None:
        """Two databases change places: until they are read anew, each has the keys of both."""
        self.registry.swapped(one, other)
        self.rulebook.forget(one, other)
        self._reload = True
        self.looks.first(self.state.keep)
        self._swaps += 1

    def _ruled(self, ruled: bool, counting: bool) -> None:
        """Whether what is past its deadline may have to be handed on, and be counted there."""
        self.scripts.suit(self.scripts.traits._replace(ruled=ruled, counting=counting))

    def _flushed(self) -> None:
        """Any key may be gone. What is known too much costs reaps until it is read anew."""
        self.rulebook.flushed()
        self._reload = True
        self.looks.first(self.state.keep)


async def _raise_when(lost: asyncio.Event) -> None:
    await lost.wait()
    raise UpstreamError("the push connection was lost")


def _setting(reply: object) -> str:
    """The value in a CONFIG GET's reply; empty where CONFIG is not for us, or not there."""
    if isinstance(reply, dict):
        reply = [word for pair in reply.items() for word in pair]
    return reply[1].decode() if isinstance(reply, list) and len(reply) > 1 else ""
