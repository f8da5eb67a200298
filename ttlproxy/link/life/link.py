"""The link: everything the proxy itself asks of Redis, and whether Redis is reachable.

A life of the link belongs to one server. It ends when that server cannot be reached or is no master
any more, or when new connections reach another server. The clients' sessions end with it unless the
next life is with the same server in the same role. A connection that is lost alone is opened again
within the life: the heartbeat and the reaps notice at their next request, and while there is no
push connection nothing is served.

The link's connections have no time-out for replies (`patient` in `connections`), because servers
may pause or sleep, and clients without a proxy would wait, too. Work that must not wait for ever
runs within a life: if nothing is answered for connect_timeout and no new TCP connection is accepted
either, the life ends, which cancels all that waits (`while_it_lives`).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack
from typing import NamedTuple, TypeVar

from redis.asyncio import Redis
from redis.exceptions import NoPermissionError, RedisError, ResponseError

from ttlproxy.addresses import Upstream
from ttlproxy.errors import ServerChanged, ServesSoon, UnfitUpstream, UpstreamError
from ttlproxy.link.connecting.connections import Backoff, client, close, open_now, stagger_s
from ttlproxy.link.connecting.discovery import AddressWatch
from ttlproxy.link.connecting.failures import Asked, OutageLog
from ttlproxy.link.connecting.known_server import KnownServer, LoginCheck
from ttlproxy.link.connecting.pipeline import MovingSlots
from ttlproxy.link.connecting.reachability import TlsDoubt, accepts
from ttlproxy.link.knowledge.activation import Activation
from ttlproxy.link.knowledge.announcements import Announcements
from ttlproxy.link.knowledge.jobs import Jobs
from ttlproxy.link.knowledge.recent_users import RecentUsers
from ttlproxy.link.knowledge.registry_loader import RegistryLoader
from ttlproxy.link.life.heartbeat import Heartbeat
from ttlproxy.link.life.holds import Holds
from ttlproxy.link.life.list_waiters import ListWaiters
from ttlproxy.link.life.server_setup import ServerSetup
from ttlproxy.link.reaper.reap_requests import ReapRequests
from ttlproxy.link.reaper.ruled_deadlines import NativeDeadlines
from ttlproxy.link.reaper.walks import Walks
from ttlproxy.link.server.acl import Acl
from ttlproxy.link.server.command_table import CommandTable
from ttlproxy.link.server.compatibility import check_greeting
from ttlproxy.link.server.script_cache import ScriptCache
from ttlproxy.link.server.shared_state import SharedState
from ttlproxy.link.shared.barriers import Barriers
from ttlproxy.link.shared.context import Context
from ttlproxy.net.tasks import cancel, run_together

log = logging.getLogger(__name__)

_BACKOFF_S = 2.0
_BACKOFF = Backoff(cap=_BACKOFF_S, base=0.05)
# A life that was shorter counts as a failure.
_HEALTHY_MS = 1000
# For a server that has never answered. One that hangs later is waited for, as its clients would do.
_SILENCE = (
    "the server accepts connections, but does not answer; check whether it hangs,"
    " and whether it is a Redis"
)
# Seconds between two attempts if Redis says itself that it serves soon.
_SOON_S = 0.2
# Seconds between two attempts to read rules for which sessions wait.
_RULES_S = 0.02
Result = TypeVar("Result")


class ServerStatus(NamedTuple):
    """A server as operators see it.

    slots: how many of a Cluster it has, if it is one of several masters; why_not: why clients'
    requests to it have to wait; empty if it serves
    """

    link: Link
    slots: int
    why_not: str


class Link:
    """Builds the parts of the link, and leads them from one life to the next.

    context: what the link, the reaper and all sessions share; serving: whether clients are served
    server: the one that the link speaks to; address: where new connections go
    holds: for sessions that need a reap; jobs: for those whose request may have changed what all
    sessions share; list_waiters: for those that wait for an item of a list
    heartbeat, announcements: what the link learns of Redis
    recent_users: for clients that share connections without a login
    activation: makes sure that all proxies know families of keys; login_check: for protected mode
    All others serve the link itself: the classes say what they do.
    """

    def __init__(
        self,
        upstream: Upstream,
        context: Context,
        on_change: Callable[[], None] = lambda: None,
        advice: str = "",
    ) -> None:
        """`on_change()` is called when sessions must end because their server has changed; `advice`
        is for the log if the server was never reached."""
        self.context = context
        self._settings = settings = context.settings
        self.serving = context.serving
        self.server = KnownServer(upstream.shown, on_change)
        self.address = AddressWatch(settings, upstream, self.server)
        self.jobs = Jobs(context.script_calls.unconfirmed)
        self.list_waiters = ListWaiters(lambda: self.upstream, lambda: settings.connect_timeout)
        self._wants_master = upstream.wants_master
        asked = Asked(user=upstream.user or "default")
        self.outage_log = OutageLog(upstream.shown, advice, asked)
        self._tls_doubt = TlsDoubt("redis" if upstream.sentinels is None else "behind")
        self.barriers = Barriers(context, self._connect)
        context.is_paused = self.barriers.may_hold
        self.reap_requests = ReapRequests(context, self.server, lambda: self.heartbeat.look_again())
        self.shared_state = SharedState(context)
        self.shared_state.look_soon = lambda: self.jobs.soon(self.shared_state.keep)
        context.look_at_state = self.shared_state.keep
        context.ask_for_keys = MovingSlots(lambda: self.upstream, settings.connect_timeout).ask
        if not context.is_one_of_several:
            context.actions.add_write_observer(self._rules_changed)
        self.acl = Acl(context.rights, context.suit_scripts_to_users)
        self.recent_users = RecentUsers(self.acl, self.jobs)
        self.login_check = LoginCheck(lambda: self.upstream, lambda: settings.connect_timeout)
        self.scripts = ScriptCache(context)
        context.scripts.on_call = lambda: self.jobs.soon(self._load_scripts)
        self.walks = Walks(context)
        self.native_deadlines = NativeDeadlines(context)
        self.commands = CommandTable(context, self.acl)
        self.announcements = Announcements(
            context, self.address, self.jobs, self.shared_state, self.walks, self._connect
        )
        self.activation = Activation(context, self.announcements, self.shared_state)
        context.be_sure = self.activation.add
        self.loader = RegistryLoader(context, self.announcements, self.acl, self.shared_state)
        self.holds = Holds(self)
        self.heartbeat = Heartbeat(self)
        self._setup = ServerSetup(self)
        self._failures = 0  # lives in a row that were short
        self._replies = 0  # of Redis to the link
        self._over = asyncio.Event()  # set while there is no life
        self._over.set()

    @property
    def all(self) -> list[Link]:
        """This link; of several masters, `Masters` has one for each."""
        return [self]

    @property
    def nodes(self) -> dict[str, ServerStatus]:
        """The server by its address; empty if none has been found yet."""
        why_not = "" if self.serving.now else self.trouble or "there is no connection to it"
        return {self.shown: ServerStatus(self, 0, why_not)} if self.shown else {}

    @property
    def shown(self) -> str:
        """The server's address, for people; empty if none has been found yet."""
        return self.address.shown

    @property
    def upstream(self) -> Upstream:
        """The address of all connections: see AddressWatch.now."""
        return self.address.now

    async def run(self) -> None:
        """Connects, stays connected, and starts anew after a loss. Raises nothing but
        UnfitUpstream."""
        try:
            await run_together(lives=self._live_again_and_again(), address=self.address.run())
        except UnfitUpstream as unfit:
            raise UnfitUpstream(f"Redis at {self.upstream.shown}: {unfit}") from unfit

    async def _live_again_and_again(self) -> None:
        clock = self.context.clock
        while True:
            began, longest_s = clock.reading(), _BACKOFF_S
            try:
                await self._find()
                await run_together(
                    life=self._live(),
                    silence=self._end_where_unreachable(),
                    address=self.address.watch(),
                )
            except (RedisError, OSError, UpstreamError) as trouble:
                self.outage_log.lost(trouble, await self._known_cause(trouble))
                if isinstance(trouble, ServerChanged):
                    self.server.change()
                if isinstance(trouble, ServesSoon):
                    longest_s = _SOON_S
            finally:
                self.serving.tried.set()
            was_healthy = self.serving.in_this_life and clock.reading() - began > _HEALTHY_MS
            self._failures = 0 if was_healthy else self._failures + 1
            if self._failures:
                await self.address.pause(min(longest_s, _BACKOFF.compute(self._failures)))
            await asyncio.sleep(stagger_s(self.server.attached))

    async def _find(self) -> None:
        """Finds the server for the next life."""
        if await self.address.find():
            if self._wants_master:
                self.outage_log.at(self.upstream.address)
            self.list_waiters.start_anew()
            self.context.node_counts.start_anew()

    async def while_it_lives(self, work: Coroutine[None, None, Result]) -> Result:
        """Does `work`; raises UpstreamError if the present life of the link ends before.

        It is for tasks that have patient connections of their own.
        """
        working = asyncio.create_task(work, name="link: a life")
        ending = asyncio.create_task(self._over.wait(), name="link: end of a life")
        try:
            await asyncio.wait({working, ending}, return_when=asyncio.FIRST_COMPLETED)
            if not working.done():
                raise UpstreamError("the link was lost")
            return working.result()
        finally:
            await cancel(working, ending)

    @property
    def trouble(self) -> str:
        """Why Redis is away; empty if it is not."""
        return self.outage_log.reason

    async def _live(self) -> None:
        """One life of the link: from connecting to its end, which is raised."""
        self.serving.begin_life()
        async with AsyncExitStack() as stack:
            stack.callback(self._over.set)
            redis = await self._open(stack, self._connect("ttlproxy:link", self.heartbeat.opened))
            reaping = await self._open(stack, self._connect("ttlproxy:reaps"))
            await self._setup.prepare(redis)
            self.address.check()
            if not self.context.is_one_of_several:
                self.context.actions.forget_all()
            stack.callback(self.reap_requests.stop)
            stack.callback(self.serving.stop)  # before waiting sessions are told to ask anew
            self._over.clear()
            await run_together(
                announcements=self.announcements.run(),
                reaps=self.reap_requests.run(reaping),
                heartbeat=self.heartbeat.run(redis),
                address=self.address.probe(),
                barriers=self.barriers.run(),
                activation=self.activation.run(),
            )

    async def _end_where_unreachable(self) -> None:
        """Raises UpstreamError when nothing is answered and no new connection is accepted.

        Does not look while no reply is awaited, as between two heartbeats of one of many proxies: a
        new connection of each would cost Redis as much as the heartbeats do.
        """
        while True:
            replies = self._replies
            await asyncio.sleep(self._settings.connect_timeout)
            rests = self.jobs.rests and not self.context.counters.holding
            if replies == self._replies and not rests:
                log.debug("Redis has not answered for a while: is it still there?")
                is_there = await accepts(self.upstream, self._settings.connect_timeout)
                if is_there and self.server.identity is None:
                    silence = UpstreamError(_SILENCE)
                    self.outage_log.lost(silence, await self._known_cause(silence))
                self.serving.tried.set()  # clients may connect, and wait
                if not is_there:
                    raise UpstreamError("it does not answer, and accepts no new connection")

    async def _known_cause(self, trouble: Exception) -> str:
        """Returns why Redis is away, if an error cannot say so: only one side uses TLS. Nobody
        looks for that once the server has answered, because then the settings are right."""
        if self.server.identity is not None:
            return ""
        return await self._tls_doubt.cause(self.upstream, trouble)

    async def _load_scripts(self, redis: Redis) -> None:
        """Stores the state first, which takes less time, because a session may wait for it."""
        await self.shared_state.keep(redis)
        await self.scripts.load_called(redis)

    def _rules_changed(self) -> None:
        if self.context.actions.rules.in_doubt:
            self.jobs.soon(self._read_rules)

    async def _read_rules(self, redis: Redis) -> None:
        """Reads rules of ONWRITE that are in doubt, for which sessions wait.

        If Redis does not let the proxy read them, there are none. Other refusals pass by
        themselves, as BUSY does: until then the rules stay in doubt.
        """
        context, rules = self.context, self.context.actions.rules
        try:
            for db in sorted(rules.in_doubt):
                try:
                    await context.learn_rules(redis, db)
                except ResponseError as refusal:
                    context.refusals.note(f"to read the rules of database {db}", refusal)
                    if isinstance(refusal, NoPermissionError):
                        context.actions.drop_rules(db)
        finally:
            if rules.in_doubt:
                asyncio.get_running_loop().call_later(_RULES_S, self._rules_changed)

    def _connect(self, name: str, opened: Callable[[], None] = lambda: None) -> Redis:
        """Returns a connection of the link's own, which waits for replies as long as a life
        lasts."""
        return client(
            self.upstream,
            name,
            self._settings.connect_timeout,
            self._settings.tcp_keepalive,
            patient=True,
            heard=self._count_reply,
            opened=opened,
            dials=self.context.counters.dials,
        )

    def _count_reply(self) -> None:
        self._replies += 1

    async def _open(self, stack: AsyncExitStack, redis: Redis) -> Redis:
        stack.push_async_callback(close, redis)
        try:
            await open_now(redis)
        except ResponseError as refusal:
            check_greeting(refusal)
            raise
        return redis
