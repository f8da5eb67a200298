"""One client in front of several masters: its socket, its lanes and its life.

`routing` says which request goes where.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from ttlproxy.core.cluster_view import Reached
from ttlproxy.errors import (
    NO_FREE_CONNECTION,
    NoFreeConnection,
    ReapRefused,
    UpstreamError,
)
from ttlproxy.link import Link
from ttlproxy.proxy import protected_mode
from ttlproxy.proxy.client_socket import ClientSocket
from ttlproxy.proxy.redis_connection import HIGH, LOW, Backend
from ttlproxy.proxy.routed.client_lanes import ClientLanes
from ttlproxy.proxy.routed.connection_settings import ConnectionSettings
from ttlproxy.proxy.routed.lane import Lane
from ttlproxy.proxy.routed.pending_request import PendingRequest
from ttlproxy.proxy.routed.redirects import Redirects
from ttlproxy.proxy.routed.reply_order import ReplyOrder
from ttlproxy.proxy.routed.requests_in import RequestsIn
from ttlproxy.proxy.routed.routing import MOST_OWED, Routing
from ttlproxy.proxy.routed.routing_table import RoutingTable
from ttlproxy.proxy.routed.sharing_policy import SharingPolicy
from ttlproxy.proxy.routed.special_requests import SpecialRequests
from ttlproxy.proxy.sharing.shared_upstream import LaneUpstream
from ttlproxy.proxy.slow_clients import Activity
from ttlproxy.session.session import LaneSession
from ttlproxy.session.sharing import introduction

if TYPE_CHECKING:
    from ttlproxy.proxy.routed_server import RoutedServer


class RoutedClient(ClientSocket):
    """A client's socket.

    lanes: its connections to masters; is_open: there is one to its home
    order: its replies; redirects: its requests that have come back
    sharing: whether it shares connections; said: the last reply to a special request
    connection_settings: the requests that each of its connections begins with, such as its login
    """

    _server: RoutedServer

    def __init__(self, server: RoutedServer, source: str, activity: Activity | None) -> None:
        super().__init__(server, source, activity)
        self.masters = server.masters
        self.counters = server.counters
        self.settings = server.settings
        self.limit = server.limit
        self.connection_settings = ConnectionSettings()
        self.lanes = ClientLanes(server.masters, self)
        self.sharing = SharingPolicy(self, server.counters.sharing, server.pools is not None)
        self.said = b""
        self._reached: Reached | None = None
        self._routing = Routing(self, server.routing_table, server.settings.max_request_bytes)
        self._closing: asyncio.Task[None] | None = None
        self.is_open = False
        self._is_over = False  # no more requests go to Redis

    # The event loop calls these.

    def _begins(self) -> None:
        server = self._server
        self._reached = server.reached(self._transport)
        self.lanes.port = self._reached.number if self._reached is not None else 0
        write = server.write_batch.gathering_writer(self._transport, server.counters.to_clients)
        self.order = ReplyOrder(self._noting(write, awaits=False), server.write_batch.at_end)
        self.redirects = Redirects(server.masters, self)
        self.specials = SpecialRequests(self)
        self.start(self._connect(), "connect")

    def data_received(self, data: bytes) -> None:
        if self.activity is not None:
            self.activity.note(awaits=True)
        if self._is_over:
            return
        if self._task is not None:
            self._early += data
            self._keep()
        elif (relaying := self.specials.relaying) is not None:
            relaying.put([], data)
        else:
            self._routing.take(data)

    def _ends(self) -> bool:
        self._has_ended = True
        self._routing.end()
        self._server.write_batch.flush()
        if not self.is_open and not self._early:
            return False
        if self.specials.blocks or self.specials.relaying is not None:
            return False  # as without a proxy: a blocked client is gone at once
        self._end_if_done()
        return True

    def _cancel(self) -> None:
        super()._cancel()
        if self._closing is not None:
            self._closing.cancel()

    def _lost(self) -> None:
        self._is_over = True
        self.redirects.end()
        self.order.drop()

    def _ignore(self) -> None:
        """What comes goes nowhere."""

    def _close(self) -> None:
        for lane in self.lanes:
            if self.specials.blocks:
                lane.cut()
            lane.close()

    def _gone(self) -> None:
        super()._gone()
        self.lanes.clear()
        self._closing = None
        del self.specials, self.redirects

    def _pause(self, is_full: bool) -> None:
        for lane in self.lanes:
            lane.pause(is_full)

    # Requests go by these.

    @property
    def routing_table(self) -> RoutingTable:
        return self._server.routing_table()

    async def ask(self, args: Sequence[bytes], raw: bytes, number: int | None) -> bytes:
        """The reply to a request of this slot, or of none."""
        return await self.redirects.ask(PendingRequest(list(args), raw, number))

    def next_requests(self) -> RequestsIn:
        return self._routing.requests

    # Lanes call these.

    @property
    def hold_max_s(self) -> float:
        return self.settings.hold_max

    async def dial(self, lane: Lane) -> Backend | LaneUpstream:
        """Connects, or finds a shared connection. Raises OSError."""
        server = self._server
        await protected_mode.check(server.settings, self._transport, self._source, lane.link)
        if self.sharing.is_on and server.pools is not None and await self._is_let_in(lane.link):
            pool = await server.pools.of(lane.link, self.sharing.state)
            if pool is not None:
                shared = LaneUpstream(lane, pool, server.round_trips, self.keeps)
                await shared.opened()
                shared.is_taken = True
                return shared
        return await server.connect(lane)

    def session(self, lane: Lane) -> LaneSession:
        """A new session, over what is known of the lane's master."""
        session = self._new_session(LaneSession, lane.link, lambda: lane.owes, self._reached)
        session.in_flight = lane.replies.in_flight
        return session

    def came(self) -> None:
        """Replies to batches have come."""
        self.order.came()
        if self.is_stopped:
            self.read()

    def flush(self) -> None:
        """Replies and pushes so far may go on."""
        self.order.flush()
        if self.is_stopped and len(self.order) < MOST_OWED // 2:
            self.read()
        if self._has_ended:
            self._end_if_done()

    def keeps(self) -> None:
        """Much is kept for the client."""
        self.sharing.keeps(self.kept_replies)
        self._keep()

    def failed(self, trouble: BaseException) -> None:
        """Something that a request waits for has failed."""
        if self._transport.is_closing() or (self._is_over and not isinstance(trouble, OSError)):
            return
        if not self.is_open:
            self.refuse(trouble)
        elif isinstance(trouble, TimeoutError | ReapRefused):  # the first is an OSError, too
            self._fail(trouble)
        elif isinstance(trouble, UpstreamError | OSError):
            self.end()
        else:
            self._fail(trouble)

    # The server calls these.

    def meet(self) -> None:
        """Ends a client that must hear the master which is served now: it connects anew, and so
        knows of what it has missed."""
        if self.is_open and self.specials.hears_all and self.lanes.lacks_one:
            self.ends_because("moved")
            self.end()

    def end_at_boundary(self) -> None:
        """Ends as soon as nothing is half done, after the replies that are owed."""
        for lane in self.lanes:
            lane.answer_now()
        if not self.is_open:
            if not self.masters.serving.now:
                self.refuse(ConnectionError("the proxy is shutting down"))
        elif not (self._is_over or self.unfinished):
            self.ends_because("drained")
            self._is_over = True
            self._closing = asyncio.create_task(self._close_when_quiet(), name="client: close")

    @property
    def unfinished(self) -> str:
        """The reason why it cannot end yet, in words for the log."""
        if not self.is_open:
            return "not connected yet"
        if self.specials.unfinished or self._routing.requests.is_cut:
            return self.specials.unfinished or "in a request"
        if self._task is not None or self._routing.requests.waiting:
            return "owed replies"
        return ""

    def leave(self) -> None:
        """Leaves all its masters: none is served any more."""
        for lane in self.lanes:
            self.lanes.retire(lane.link)

    # The check for slow clients calls these.

    @property
    def idles(self) -> bool:
        if self._task is not None or len(self.order) or self.unread or self.activity is None:
            return False
        return not (self.specials.blocks or self.specials.listens or self.specials.relaying)

    @property
    def kept_replies(self) -> int:
        return self.unread + self.lanes.kept_replies

    @property
    def buffered(self) -> int:
        return self.unread + len(self._early) + self._routing.requests.kept + self.lanes.buffered

    # The table of clients calls these.

    @property
    def state(self) -> str:
        """Its state, in words of a closed set."""
        if self._is_over:
            return "ending"
        if self.specials.blocks:
            return "blocked"
        if self.specials.listens:
            return "subscribed"
        if self.is_stopped:
            return "faster than Redis"
        return "connecting to Redis" if not self.is_open else self.unfinished or "open"

    @property
    def database(self) -> int | None:
        """A Cluster has only one."""
        return 0

    @property
    def user(self) -> bytes:
        return b"" if self.lanes.is_unauthenticated else self.connection_settings.user

    @property
    def introduced(self) -> Mapping[bytes, bytes]:
        said = map(introduction, self.connection_settings)
        return {what: words for each in said for what, words in each.items()}

    def _abort(self) -> None:
        self._is_over = True
        self._routing.requests.drop()
        self.redirects.end()
        for lane in self.lanes:
            lane.close(at_once=True)

    # Special requests call these.

    def say(self, reply: bytes) -> None:
        """A reply of the proxy's own, while nothing else is owed."""
        self.said = reply
        self.order.say(reply)

    def end(self) -> None:
        if self._is_ended:
            return
        self.order.flush()
        self._server.write_batch.flush()
        self.ends_because("client" if self._has_ended or self.specials.quit else "redis")
        self._is_over = True
        if self._task is not None:  # `_closing` may be what ends it
            self._task.cancel()
        self.redirects.end()  # nothing more is to be done once the client may connect again
        for lane in self.lanes:
            lane.close()
        self._close_writing()

    # Inside.

    @property
    def _must_stop(self) -> bool:
        is_full = self.lanes.is_full or len(self.order) > MOST_OWED
        is_full = is_full or len(self._early) > HIGH or self.lanes.kept > HIGH
        return is_full and not self._is_over

    async def _is_let_in(self, link: Link) -> bool:
        """Whether a master would let the client in on a new connection, in its state."""
        if self.sharing.state.auth:
            return True
        return await link.recent_users.known() and not link.context.rights.asks_login

    @property
    def _is_ended(self) -> bool:
        """Whether its side is closed for writing."""
        return self._transport.is_closing() or self._ending is not None

    def _keep(self) -> None:
        if self.buffered > LOW:
            self._server.slow_clients.keeps(self)
            self.read()

    async def _connect(self) -> None:
        """Connects to its home. `failed` tells what fails there."""
        until_s = asyncio.get_running_loop().time() + self.hold_max_s
        while not (self.is_open or self._is_over):
            try:
                async with asyncio.timeout_at(until_s):
                    await self.masters.serving.ready.wait()
                    while (home := self._first_lane()) is None:
                        await self.masters.change()
            except TimeoutError:
                trouble = ConnectionError(f"Redis is unavailable: {self.masters.trouble}")
                self._task = None
                self.refuse(trouble)
                return
            with suppress(UpstreamError):  # then it is tried again, unless `failed` ends the client
                await home.opened()
                self.is_open = True

    def _first_lane(self) -> Lane | None:
        """Its home; None while no master serves."""
        link = self.masters.home_at(self.lanes.port)
        if link is not None:
            self.sharing.starts(asks_login=link.context.rights.asks_login)
        return self.lanes.home()

    def refuse(self, trouble: BaseException) -> None:
        if not self._is_ended:
            super().refuse(trouble)

    def _stopped(self, task: asyncio.Task[None]) -> None:
        if task.cancelled() or task is not self._task:
            return
        self._task = None
        trouble = task.exception()
        if isinstance(trouble, NoFreeConnection):  # of a special request
            self.say(NO_FREE_CONNECTION)
            trouble = None
        if trouble is not None:
            self.failed(trouble)
        elif not self._is_over:
            self._go_on()

    def _go_on(self) -> None:
        """Handles what came in meanwhile."""
        if not self.is_open:
            return
        self._routing.go()
        if self._task is None and self._early:
            early, self._early = self._early, b""
            self.data_received(early)
        if self._has_ended:
            self._end_if_done()
        if self._server.draining:
            self.end_at_boundary()
        self.read()

    def _end_if_done(self) -> None:
        """Ends a client that sends no more, once it has all its replies."""
        if self._task is None and not (
            self._early or self._routing.requests.waiting or len(self.order)
        ):
            self.end()

    async def _close_when_quiet(self) -> None:
        await self.order.quiet()
        if self._task is not None:
            await asyncio.wait({self._task})
        self.end()
