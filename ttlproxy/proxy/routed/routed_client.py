"""One client in front of several masters: its socket, its lanes and its life.

`routing` says which request goes where.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, cast

from ttlproxy.core.cluster_view import Reached
from ttlproxy.errors import (
    NO_FREE_CONNECTION,
    NoFreeConnection,
    ReapRefused,
    UpstreamError,
    not_connected,
)
from ttlproxy.link import Link
from ttlproxy.proxy import protected_mode
from ttlproxy.proxy.client_log import ClientLog
from ttlproxy.proxy.ending import Ending, LingeringClose
from ttlproxy.proxy.redis_connection import HIGH, LOW, Backend, half_close
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


class RoutedClient(asyncio.Protocol):
    """A client's socket.

    lanes: its connections to masters
    order: its replies; redirects: its requests that have come back
    sharing: whether it shares connections; said: the last reply to a special request
    connection_settings: what each of its connections begins with, as `replays` has it
    """

    def __init__(self, server: RoutedServer, source: str, activity: Activity | None) -> None:
        """`source`: the address from a PROXY header; empty without one."""
        self.activity = activity
        self._server = server
        self._source = source
        self.masters = server.masters
        self.counters = server.counters
        self.settings = server.settings
        self.limit = server.limit
        self.round_trips = server.round_trips
        self.connection_settings = ConnectionSettings()
        self.lanes = ClientLanes(server.masters, self)
        self.sharing = SharingPolicy(self, server.counters.sharing, server.pools is not None)
        self.said = b""
        self._reached: Reached | None = None
        self._routing = Routing(self, server.routing_table, server.settings.max_request_bytes)
        self._task: asyncio.Task[None] | None = None
        self._closing: asyncio.Task[None] | None = None
        self._ending: Ending | None = None
        self._is_open = False  # it has a connection to its home
        self._is_over = False  # no more requests go to Redis
        self.is_stopped = False  # its socket is not read
        self._has_ended = False  # it sends no more
        self._early = b""
        self._why = ""  # why it ends, a key of Counters.gone, once that is known

    # The event loop calls these.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(HIGH, LOW)
        server = self._server
        self._reached = server.reached(self._transport)
        self.lanes.port = self._reached.number if self._reached is not None else 0
        write = server.write_batch.gathering_writer(self._transport, server.counters.to_clients)
        self.order = ReplyOrder(self._noting(write, awaits=False), server.write_batch.at_end)
        self.redirects = Redirects(server.masters, self)
        self.specials = SpecialRequests(self)
        server.clients.add(self)
        server.counters.accepted += 1
        server.counters.clients = len(server.clients)
        self.client_log = ClientLog(server.counters.accepted, transport, self._source)
        self.start(self._connect())

    def data_received(self, data: bytes) -> None:
        if self.activity is not None:
            self.activity.note(awaits=True)
        if self._is_over:
            return
        if self._task is not None:
            self._early += data
            self._keep()
        elif (relaying := self.specials.relaying) is not None:
            relaying.relay(data)
        else:
            self._routing.take(data)

    def eof_received(self) -> bool:
        return self._server.staggered.at_eof(self._ends, self._transport)

    def _ends(self) -> bool:
        """The client sends no more; returns whether its connection stays open, for it may still
        be owed replies."""
        self._has_ended = True
        self._routing.end()
        self._server.write_batch.flush()
        if not self._is_open and not self._early:
            return False
        if self.specials.blocks or self.specials.relaying is not None:
            return False  # as without a proxy: a blocked client is gone at once
        self._end_if_done()
        return True

    def connection_lost(self, exc: Exception | None) -> None:
        self._server.write_batch.flush()
        self._is_over = True
        for task in (self._task, self._closing):
            if task is not None:
                task.cancel()
        if self._ending is not None:
            self._ending.cancel()
        self.redirects.end()
        self.order.drop()
        if not self._server.staggered.put_off(self._gone):
            self._gone()

    def _gone(self) -> None:
        for lane in self.lanes:
            if self.specials.blocks:
                lane.cut()
            lane.close()
        self.ends_because("client")
        self.client_log.closed(self._why)
        self.counters.gone[self._why] += 1
        self._server.forget(self)
        # Its memory is free now if these cycles of references are gone.
        self.lanes.clear()
        self._task = self._closing = self._ending = None
        del self.specials, self.redirects

    def pause_writing(self) -> None:
        self._server.slow_clients.keeps(self)
        for lane in self.lanes:
            lane.pause(True)

    def resume_writing(self) -> None:
        for lane in self.lanes:
            lane.pause(False)

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
    def replays(self) -> list[list[bytes]]:
        """Requests that each of its connections begins with, such as its login."""
        return list(self.connection_settings)

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
                shared = LaneUpstream(lane, pool, self.keeps)
                await shared.opened()
                shared.is_taken = True
                return shared
        return await server.connect(lane)

    def session(self, lane: Lane) -> LaneSession:
        """A new session, over what is known of the lane's master."""
        context = lane.link.context
        session = LaneSession(
            context.router,
            context.script_calls,
            context.registry.view((0,)),
            context.rights,
            context.clock.now_ms,
            self.settings.max_request_bytes,
            self.counters.requests,
            lambda: lane.owes,
            self._reached,
        )
        session.in_flight = lane.in_flight
        return session

    def answered(self, request: PendingRequest, reply: bytes) -> None:
        """A reply is whole, or its rest is there."""
        self.order.answered(request, reply)
        if self.is_stopped and len(self.order) < MOST_OWED // 2:
            self.read()

    def came(self) -> None:
        """Replies to batches have come."""
        self.order.came()
        if self.is_stopped:
            self.read()

    def answered_all(self, requests: Sequence[PendingRequest], replies: Sequence[bytes]) -> None:
        """Replies of one lane are whole, and none of them is an error."""
        self.order.answered_all(requests, replies)
        if self.is_stopped and len(self.order) < MOST_OWED // 2:
            self.read()

    def part(self, request: PendingRequest, data: bytes) -> bool:
        """A reply has begun, or goes on; whether the client takes this part now."""
        if not self.order.is_next(request):
            return False
        self.order.part(data)
        return True

    def pushed(self, data: bytes) -> None:
        """A push, between two replies."""
        self.order.push(data)

    def bounced(self, requests: Sequence[PendingRequest]) -> None:
        """Requests that have come back, and must be sent again; `reply` has the error, if any."""
        self.redirects.add(requests)

    def flush(self) -> None:
        """Replies and pushes so far may go on."""
        self.order.flush()
        if self._has_ended:
            self._end_if_done()

    def keeps(self) -> None:
        """Much is kept for the client."""
        self.sharing.keeps(self.kept_replies)
        self._keep()

    def lost(self, lane: Lane) -> None:
        """A connection has ended, or must."""
        if lane.is_closed:
            return
        owes = lane.owes or self.specials.needs(lane)
        self.lanes.forget(lane)
        if owes:
            lane.close()
            self.end()
        else:
            lane.give_back()
            lane.close()

    def can_go_on_without(self, lane: Lane) -> bool:
        """Whether nothing but the requests at hand needs the connection."""
        return self._is_open and not self.specials.needs(lane)

    def miscounted(self, lane: Lane) -> None:
        """Ends, because a lane has got no reply, or a reply to nothing: none of its is certain."""
        self.lanes.close(lane)
        self.end()

    def failed(self, trouble: BaseException) -> None:
        """Something that a request waits for has failed."""
        if self._transport.is_closing() or (self._is_over and not isinstance(trouble, OSError)):
            return
        if not self._is_open:
            self._refuse(trouble)
        elif isinstance(trouble, TimeoutError | ReapRefused):  # the first is an OSError, too
            self.client_log.failed(trouble)
            self.abort("held")
        elif isinstance(trouble, UpstreamError | OSError):
            self.end()
        else:
            self.client_log.failed(trouble)
            self.abort("error")

    # The limit of connections calls these.

    def can_spare(self, lane: Lane) -> bool:
        """Whether a connection on which nothing is on its way may be closed."""
        has_logged_in = lane.session is not None and not lane.session.before_login
        return self._is_open and has_logged_in and not self.specials.needs(lane)

    def gives_up(self, lane: Lane) -> None:
        """The connection makes room for another client's."""
        self.lanes.close(lane)

    def crowded_out(self, lane: Lane) -> None:
        """Refuses the requests of a lane that got no room for its connection for hold_max; or the
        client, if it is not open."""
        words = "must do without a connection to a master: there may be no more of them"
        if self._is_open:
            self.client_log.often(logging.WARNING, words)
            self.lanes.forget(lane)
            lane.refuse()
        else:
            self._refuse(NoFreeConnection(words))

    def turned_away(self, lane: Lane, error: bytes) -> None:
        """Redis has refused the connection, as it has too many clients."""
        words = "cannot connect to a master: it has reached its maxclients"
        self.client_log.often(logging.WARNING, words)
        lane.link.context.node_counts.connections_refused += 1
        self.limit.make_room_at(lane.link)
        self.lanes.forget(lane)
        lane.turn_back(error)

    # The server calls these.

    def retire(self, link: Link) -> None:
        """A master is not served any more: what it owes may still come."""
        lane = self.lanes.served(link)
        if lane is None:
            return
        if self.specials.needs(lane):
            self.ends_because("moved")
            self.lanes.close(lane)
            self.end()
        else:
            self.lanes.retire(lane, self.lost)

    def meet(self) -> None:
        """Ends a client that must hear the master which is served now: it connects anew, and so
        knows of what it has missed."""
        if self._is_open and self.specials.hears_all and self.lanes.lacks_one:
            self.ends_because("moved")
            self.end()

    def close_idle_lanes(self, since_s: float) -> None:
        """Closes connections that were last used before `since_s`, and that nothing needs."""
        for lane in self.lanes.unused(since_s):
            if not self.specials.needs(lane):
                self.lanes.close(lane)

    def end_at_boundary(self) -> None:
        """Ends as soon as nothing is half done, after the replies that are owed."""
        for lane in self.lanes:
            lane.answer_now()
        if not self._is_open:
            if not self.masters.serving.now:
                self._refuse(ConnectionError("the proxy is shutting down"))
        elif not (self._is_over or self.unfinished):
            self.ends_because("drained")
            self._is_over = True
            self._closing = asyncio.create_task(self._close_when_quiet(), name="client: close")

    @property
    def unfinished(self) -> str:
        """The reason why it cannot end yet, in words for the log."""
        if not self._is_open:
            return "not connected yet"
        if self.specials.unfinished or self._routing.requests.is_cut:
            return self.specials.unfinished or "in a request"
        if self._task is not None or self._routing.requests.waiting:
            return "owed replies"
        return ""

    def leave(self) -> None:
        """Leaves all its masters: none is served any more."""
        for lane in self.lanes:
            self.retire(lane.link)

    # The check for slow clients calls these.

    @property
    def idles(self) -> bool:
        """Whether it is idle. Subscribed, monitoring or blocked clients are never idle."""
        if self._task is not None or len(self.order) or self.unread or self.activity is None:
            return False
        return not (self.specials.blocks or self.specials.listens or self.specials.relaying)

    @property
    def unread(self) -> int:
        return self._transport.get_write_buffer_size()

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
        return "connecting to Redis" if not self._is_open else self.unfinished or "open"

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

    def abort(self, why: str) -> None:
        """Ends the connection at once: the bytes kept for it are free when this returns."""
        self.ends_because(why)
        self._early = b""
        self._is_over = True
        self._routing.requests.drop()
        for task in (self._task, self._closing):
            if task is not None:
                task.cancel()
        self.redirects.end()
        for lane in self.lanes:
            lane.close(at_once=True)
        self._transport.abort()

    # Special requests call these.

    def say(self, reply: bytes) -> None:
        """A reply of the proxy's own, while nothing else is owed."""
        self.said = reply
        self.order.say(reply)

    def end(self) -> None:
        """No more is to come: what is buffered goes out, then the client's side is closed."""
        if self._is_ended:
            return
        self.order.flush()
        self._server.write_batch.flush()
        self.ends_because("client" if self._has_ended or self.specials.quit else "redis")
        self._is_over = True
        if self._task is not None:
            self._task.cancel()
        self.redirects.end()  # nothing more is to be done once the client may connect again
        for lane in self.lanes:
            lane.close()
        if self._has_ended:
            self._transport.close()
        elif half_close(self._transport):
            self.read()
            self._ending = LingeringClose(self._transport)
        self._server.slow_clients.keeps(self)

    def ends_because(self, why: str) -> None:
        """The first reason is the one that counts."""
        self._why = self._why or why

    def read(self) -> None:
        """Reads, or stops reading, depending on the state."""
        if self._transport.is_closing():
            return
        is_full = self.lanes.is_full or len(self.order) > MOST_OWED
        is_full = is_full or len(self._early) > HIGH or self.lanes.kept > HIGH
        self.is_stopped = is_full and not self._is_over
        if self.is_stopped:
            self._transport.pause_reading()
        else:
            self._transport.resume_reading()

    # Inside.

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
        while not (self._is_open or self._is_over):
            try:
                async with asyncio.timeout_at(until_s):
                    await self.masters.serving.ready.wait()
                    while (home := self._first_lane()) is None:
                        await self.masters.change()
            except TimeoutError:
                trouble = ConnectionError(f"Redis is unavailable: {self.masters.trouble}")
                self._task = None
                self._refuse(trouble)
                return
            with suppress(UpstreamError):  # then it is tried again, unless `failed` ends the client
                await home.opened()
                self._is_open = True

    def _first_lane(self) -> Lane | None:
        """Its home; None while no master serves."""
        link = self.masters.home_at(self.lanes.port)
        if link is not None:
            self.sharing.starts(asks_login=link.context.rights.asks_login)
        return self.lanes.home()

    def _refuse(self, trouble: BaseException) -> None:
        """Answers an error and ends, because there will be no connection to Redis."""
        if self._is_ended:
            return
        self.client_log.refused(trouble)
        self.counters.refused += 1
        self.ends_because("refused")
        self.order.say(not_connected(trouble))
        self.end()

    def start(self, coroutine: Coroutine[None, None, None]) -> None:
        """Keeps what comes in until it ends."""
        self._task = asyncio.create_task(coroutine, name="client: special request")
        self._task.add_done_callback(self._stopped)

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
        if not self._is_open:
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

    def _noting(self, take: Callable[[bytes], None], *, awaits: bool) -> Callable[[bytes], None]:
        return take if self.activity is None else self.activity.noting(take, awaits=awaits)
