"""Keeps a push connection open, and passes on what it announces. A proxy that asks Redis at each
request has another one for deadlines, while it leads the reaper."""

from __future__ import annotations

import asyncio
import logging
import select
import socket
from collections import deque
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import AsyncExitStack
from typing import Any, Final

from redis.asyncio import Redis
from redis.exceptions import RedisError

from ttlproxy.core.keys import Keys
from ttlproxy.errors import UpstreamError
from ttlproxy.link.connecting.connections import Backoff, close
from ttlproxy.link.connecting.discovery import AddressWatch
from ttlproxy.link.connecting.known_server import (
    CLIENTS,
    ServerClock,
    acknowledging_name,
    fields,
    push_name,
    trackers,
)
from ttlproxy.link.connecting.pipeline import Words, run, valid
from ttlproxy.link.connecting.pushes import Ask, PushSocket, announcing
from ttlproxy.link.knowledge.jobs import Job, Jobs
from ttlproxy.link.reaper.walks import Walks
from ttlproxy.link.server.compatibility import join_channel, proxy_channel
from ttlproxy.link.server.shared_state import LAYOUT_NAME, SharedState
from ttlproxy.link.shared.context import Context
from ttlproxy.net.tasks import cancel, run_together, time_limit

log = logging.getLogger(__name__)

# The number of proxies that hear of deadlines. Each costs Redis 2.5 us for an announcement, of some
# 45 us.
FEW: Final = 4
# The number of last heartbeats that `lately` is about.
_LATELY: Final = 3

# It may be lost, or fail to open, this often in a row before its server counts as away.
_MOST_LOSSES = 3
# Pauses while a connection is lost again and again although the server is there.
_AGAIN = Backoff(cap=0.25, base=0.005)
_DEADLINES_AGAIN = Backoff(cap=2.0, base=0.05)
# A connection that lasted for less counts as a failure.
_HEALTHY_MS = 1000
# A push connection that is asked and does not answer within this is closed.
_ANSWER_S = 3.0
# Serving waits this long at most for the greeting of other proxies: a write, which may be paused.
_GREETING_S = 0.1


class _DeadlineSocket(PushSocket):
    """A connection that receives announcements: on_announcement(db, key, deadline_ms) is called for
    each."""

    def __init__(
        self,
        keys: Keys,
        on_announcement: Callable[[int, bytes, int], None],
        on_loss: Callable[[], None],
    ) -> None:
        super().__init__(b"ttlproxy:deadlines", on_loss)
        self._keys = keys
        self._on_announcement = on_announcement

    def _pushed(self, message: Sequence[Any]) -> None:
        for name in message[1] or () if message[0] == b"invalidate" else ():
            if announced := self._keys.announced(name):
                db, deadline_ms, key = announced
                self._on_announcement(db, key, deadline_ms)

    def _opening(self) -> list[Words]:
        prefix = self._keys.announcement_prefix
        tracking = (b"CLIENT", b"TRACKING", b"ON", b"BCAST", b"PREFIX", prefix)
        return [*super()._opening(), tracking]


class Modes:
    """Decides whether this proxy hears of deadlines that come soon: a few do; all others ask Redis
    at each request. Knows the modes of the others.

    Each proxy that hears of deadlines makes announcements dearer for Redis. Announced deadlines are
    hints for reads; what writes must know is confirmed by all proxies: see activation.py. Each
    proxy subscribes to channels, because Redis counts subscribers, and knows at once when one is
    gone.

    channel: that of all proxies which work together; empty before the first connection
    news: what was told before the present connection: see activation.py
    may_subscribe: whether Redis lets this proxy subscribe; if not, others do not see it
    lately: the most proxies at one of the last heartbeats; 0 if that is forgotten
    """

    def __init__(self, context: Context) -> None:
        self._context = context
        self.channel = b""
        self.news: list[bytes] = []
        self.may_subscribe = False
        self._counts = deque[int](maxlen=_LATELY)

    def choose(self, ask: Ask) -> bool:
        """Subscribes; returns whether this proxy is to hear announcements of deadlines. Runs in a
        thread, on the new push connection."""
        keys = self._context.keys
        (counted,) = ask(self.question())
        is_counted = isinstance(counted, list) and not keys.clustered
        hears = not is_counted or counted[1] < FEW
        (reply,) = ask((b"SUBSCRIBE", keys.broadcast if hears else keys.on_demand))
        self.may_subscribe = not isinstance(reply, Exception)
        if not self.may_subscribe:
            log.debug("this proxy hears of deadlines: %s", reply)
            return True
        return hears

    def join(self, ask: Ask) -> None:
        """Becomes one of the proxies that must acknowledge news, and reads those from before. It
        hears others already. Runs in a thread, on the new connection that acknowledges.

        All such connections have the same number of channels, not counting those of news: by the
        number activation.py finds a proxy that does not acknowledge.
        """
        keys = self._context.keys
        self.channel = proxy_channel(self._context)
        join_channel(ask, self.channel)
        (channels,) = ask((b"PUBSUB", b"CHANNELS", keys.news_prefix + b"*"))
        told = map(keys.news_of, channels if isinstance(channels, list) else ())
        self.news = [news for news in told if news is not None]

    def question(self) -> Words:
        """Returns the request for the numbers of proxies that hear of deadlines, and that do
        not."""
        keys = self._context.keys
        return (b"PUBSUB", b"NUMSUB", keys.broadcast, keys.on_demand)

    def attached(self, reply: Any) -> int | None:
        """Returns the number of proxies in the reply to `question`; None if it does not tell."""
        if not (self.may_subscribe and isinstance(reply, list)):
            return None
        attached: int = reply[1] + reply[3]
        self._counts.append(attached)
        return attached

    @property
    def lately(self) -> int:
        return max(self._counts, default=0)

    def forget_counts(self) -> None:
        """Forgets the counts of the last heartbeats: all losses until now have been noticed."""
        self._counts.clear()

    async def has_others(self, redis: Redis) -> bool:
        """Whether there are other proxies. Each tracks keys and subscribes before it asks, so of
        two that begin together one knows of the other. Raises redis-py's RedisError."""
        counted, info = await run(redis, [(0, self.question()), (0, CLIENTS)])
        attached = self.attached(counted)
        return (attached or trackers(fields(valid(info)))) > 1


class Pushes(PushSocket):
    """The push connection.

    hears: whether it hears announcements of deadlines
    """

    def __init__(
        self,
        keys: Keys,
        heard: Announcements,
        on_loss: Callable[[], None],
        choose: Callable[[Ask], bool] = lambda ask: True,
    ) -> None:
        """`choose(ask)` says, before Redis tracks anything, whether this proxy is to hear
        announcements of deadlines: see Modes."""
        super().__init__(push_name(keys.prefix), on_loss)
        self.hears = True
        self._keys = keys
        self._heard = heard
        self._choose = choose

    def _pushed(self, message: Sequence[Any]) -> None:
        if message[0] == b"invalidate" and message[1] is None:
            self._heard.flushed()
        elif message[0] == b"invalidate":
            for name in message[1]:
                self._invalidated(name)

    def _invalidated(self, name: bytes) -> None:
        """Takes the name of a key that Redis tracks: it is a message."""
        keys, heard = self._keys, self._heard
        if announced := keys.announced(name):
            db, deadline_ms, key = announced
            heard.announced(db, key, deadline_ms)
        elif databases := keys.swapped(name):
            heard.swapped(*databases)
        elif ruled := keys.ruled(name):
            heard.ruled(*ruled)
        elif (version := keys.rules_version(name)) is not None:
            heard.context.actions.version_announced(version)
        elif name == keys.hello:
            heard.greeted()
        elif who := keys.walking(name):
            heard.walks.heard(who)
        elif (layout := keys.layout_told(name)) is not None:
            heard.layout_told(layout)
        elif (news := keys.told(name)) is not None:
            heard.on_news([news])

    def _begin(self, connection: socket.socket) -> None:
        keys = self._keys
        self.hears = self._choose(lambda *requests: self._replies(connection, *requests))
        heard = [keys.announcement_prefix] if self.hears else keys.seldom_announced
        prefixes = (word for prefix in heard for word in (b"PREFIX", prefix))
        self._ask(connection, (b"CLIENT", b"TRACKING", b"ON", b"BCAST", *prefixes))


class Acknowledging(PushSocket):
    """The connection that asks, and by whose subscriptions all others see what this proxy knows:
    see activation.py.

    acknowledged: the news that all others see to be known here
    """

    def __init__(
        self, keys: Keys, on_loss: Callable[[], None], join: Callable[[Ask], None]
    ) -> None:
        """`join(ask)` makes this proxy one of those that others see: see Modes."""
        super().__init__(acknowledging_name(keys.prefix), on_loss)
        self.acknowledged = set[bytes]()
        self._join = join

    def _begin(self, connection: socket.socket) -> None:
        self._join(lambda *requests: self._replies(connection, *requests))


class Announcements:
    """Opens push connections. While there is none, announcements are missed, and nobody is served.

    connection: the present one; None while there is none; modes: what it hears
    acknowledging: the connection that goes with it; neither is left without the other
    swaps: how often two databases have changed places; flushes: how often keys may have gone
    greetings: how many other proxies have said hello; load_changed: reads what is there now
    on_news(news) is called with what other proxies tell, on_connected(news) when there is a new
    connection: see activation.py
    """

    def __init__(
        self,
        context: Context,
        address: AddressWatch,
        jobs: Jobs,
        shared_state: SharedState,
        walks: Walks,
        connect: Callable[[str], Redis],
    ) -> None:
        """`connect(name)` gives a new connection with this name."""
        self.connection: Pushes | None = None
        self.acknowledging: Acknowledging | None = None
        self.swaps = 0
        self.flushes = 0
        self.greetings = 0
        self.load_changed: Job | None = None
        self.on_news: Callable[[Iterable[bytes]], None] = lambda news: None
        self.on_connected: Callable[[Collection[bytes]], None] = lambda news: None
        self.modes = Modes(context)
        self._address = address
        self.context = context
        self._jobs = jobs
        self.walks = walks
        self._shared_state = shared_state
        self._connect = connect
        self._poll = select.poll()
        self._polled: dict[int, PushSocket] = {}  # by their numbers in `_poll`

    def receive(self) -> None:
        """Takes what Redis has announced so far, without waiting, and notices losses."""
        for number, _ in self._poll.poll(0) if self.connection is not None else ():
            self._polled[number].receive()

    async def run(self) -> None:
        """Opens a push connection, and a new one after each loss. Raises UpstreamError or OSError
        after several losses in a row."""
        failures = 0
        while True:
            began = ServerClock.reading()
            try:
                await self._keep_open()
            except TimeoutError:  # Redis is silent: the link finds out more
                log.debug("the push connection is not open yet: Redis does not answer")
            except (UpstreamError, OSError):
                if failures >= _MOST_LOSSES:
                    raise  # it is not just this connection
            failures = 0 if ServerClock.reading() - began > _HEALTHY_MS else failures + 1
            if failures > 1:
                await asyncio.sleep(_AGAIN.compute(failures - 1))

    async def _keep_open(self) -> None:
        """Opens a push connection, and that which acknowledges; ends when one of them is lost."""
        lost, modes = asyncio.Event(), self.modes

        def on_loss() -> None:
            # From here on announcements are missed. A heartbeat that is answered before this task
            # goes on must not find the lost connection, and serve.
            self._ended()
            lost.set()

        pushes = Pushes(self.context.keys, self, on_loss, modes.choose)
        acknowledging = Acknowledging(self.context.keys, on_loss, modes.join)
        async with AsyncExitStack() as stack:
            stack.callback(self._ended)
            for each in (pushes, acknowledging):
                stack.callback(each.close)
                await self.open(each)
            self.context.registry.hears = pushes.hears
            if not pushes.hears:
                deadlines = asyncio.create_task(self._receive_deadlines(), name="deadlines")
                stack.push_async_callback(cancel, deadlines)
            greeting = asyncio.create_task(self._greet(), name="greeting")
            stack.push_async_callback(cancel, greeting)
            await asyncio.wait({greeting}, timeout=_GREETING_S)
            self.connection, self.acknowledging = pushes, acknowledging
            self.on_connected(modes.news)
            self._poll = select.poll()
            self._polled = {each.register(self._poll): each for each in (pushes, acknowledging)}
            self._jobs.beat()  # this reads the registry, and lets clients be served
            await lost.wait()

    async def open(self, connection: PushSocket) -> None:
        """Opens a connection to the server of this life. Raises OSError or UpstreamError."""
        settings = self.context.settings
        await connection.open(self._address.now, settings.connect_timeout, settings.tcp_keepalive)

    async def has_no_gap(self) -> bool:
        """Whether the connection is unbroken, so that others are right to see that this proxy knows
        what they tell."""
        connection = self.acknowledging
        if connection is None or not self.modes.may_subscribe:
            return False
        try:
            async with time_limit(_ANSWER_S):
                await connection.ask([self.modes.question()])  # only that it answers is wanted
            self.receive()  # the other one may be lost
        except (UpstreamError, OSError):  # also TimeoutError
            if connection is self.acknowledging:
                connection.lose()
        return connection is self.acknowledging

    def _ended(self) -> None:
        self.context.serving.stop()
        self.connection = self.acknowledging = None
        self.context.script_calls.families.doubt()
        self.context.on_gap()

    async def _receive_deadlines(self) -> None:
        """Receives announcements of deadlines while this proxy leads, over a connection of their
        own; until cancelled. Without a connection the reaper only looks now and then."""
        agenda, failures = self.context.agenda, 0
        while True:
            await agenda.until(leads=True)
            try:
                await self._receive_as_leader()
                failures = 0
            except (UpstreamError, OSError) as trouble:  # also TimeoutError
                failures += 1
                log.debug("deadlines are not announced: %s", trouble)
                await asyncio.sleep(_DEADLINES_AGAIN.compute(failures))

    async def _receive_as_leader(self) -> None:
        """Ends when the connection is lost, or this proxy no longer leads."""
        context, agenda, lost = self.context, self.context.agenda, asyncio.Event()
        connection = _DeadlineSocket(context.keys, context.announced, lost.set)
        try:
            await self.open(connection)
            agenda.look_at(0)  # for what was announced before
            await run_together(follows=agenda.until(leads=False), losing=lost.wait())
        finally:
            connection.close()

    async def _greet(self) -> None:
        """Tells other proxies that there is one more, if there are any.

        If the server refuses the write, they still notice: they count the clients that track keys.
        """
        redis = self._connect("ttlproxy:hello")
        try:
            keys = self.context.keys
            if not await self.modes.has_others(redis):
                return
            await run(redis, [(0, words) for words in announcing(keys.hello)])
        except (RedisError, OSError) as trouble:
            log.debug("cannot announce this proxy to the others: %s", trouble)
        finally:
            await close(redis)

    def announced(self, db: int, key: bytes, deadline_ms: int) -> None:
        self.context.announced(db, key, deadline_ms)
        if not self.context.script_calls.has_state:
            self._shared_state.may_be_there()

    def ruled(self, db: int, counts: bool, pattern: bytes) -> None:
        self.context.actions.changed(db, counts, pattern)
        self._shared_state.may_be_there()

    def greeted(self) -> None:
        """Notes that another proxy is about to serve."""
        self.greetings += 1
        self.context.registry.others(True)

    def swapped(self, one: int, other: int) -> None:
        """Forgets all keys: two databases were swapped, so nothing is known until they are read
        anew."""
        self.context.registry.forget_all()
        self.context.actions.forget(one, other)
        self.context.agenda.swapped(one, other)
        self.swaps += 1
        self._shared_state.may_be_gone()
        self._load_changed()

    def layout_told(self, layout: bytes) -> None:
        """Takes the layout that another proxy has written down. If it is not ours, nobody is served
        until that has been checked, which ends this proxy."""
        if layout != LAYOUT_NAME:
            self.context.serving.stop()
            self._jobs.beat()
            self._shared_state.may_be_gone()
        self._shared_state.may_be_there()

    def flushed(self) -> None:
        """Forgets all keys and rules: any may be gone, or be another one, also where a replica
        takes another master's data. Until all is read anew, superfluous entries only cost reaps.
        The rules of a Cluster may be gone with those of another master, which has told this proxy
        nothing yet."""
        self.context.actions.forget_all()
        self.context.registry.forget_all()
        self.flushes += 1
        self._shared_state.may_be_gone()
        self._load_changed()

    def _load_changed(self) -> None:
        if self.load_changed is not None:
            self._jobs.soon(self.load_changed)
