"""A client's connection to one master, and its session there.

Takes whole requests, and gives back whole replies: it counts what comes from Redis.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Coroutine, Sequence
from functools import partial
from typing import TYPE_CHECKING

from ttlproxy.errors import (
    NOT_SERVED,
    ClusterIsDown,
    NoFreeConnection,
    NotServed,
    SlotMoved,
    UpstreamError,
)
from ttlproxy.link import Link
from ttlproxy.proxy.connecting import connect
from ttlproxy.proxy.held_step import StepHolder
from ttlproxy.proxy.phase import CLOSED, OPEN, WAITING
from ttlproxy.proxy.redis_connection import HIGH, TOO_MANY, Backend, Send, Take
from ttlproxy.proxy.routed import lane_calls
from ttlproxy.proxy.routed.chunk import Part
from ttlproxy.proxy.routed.lane_calls import NO_ROOM
from ttlproxy.proxy.routed.lane_replies import LaneReplies, Miscounted
from ttlproxy.proxy.routed.pending_request import PendingRequest
from ttlproxy.proxy.sharing.shared_upstream import LaneUpstream
from ttlproxy.session import Step
from ttlproxy.session.replies import invalidation_shown
from ttlproxy.session.session import LaneSession, Session
from ttlproxy.wire import Requests

if TYPE_CHECKING:
    from ttlproxy.proxy.routed.routed_client import RoutedClient


class Lane(StepHolder):
    """
    session: None until it is connected; replies: those of its master
    is_held_up: it is not read: too many of its replies wait for those of others
    kept: bytes of whole replies that wait for those of others
    retires: its master is not served any more, so that it ends with its last reply
    used_s: when it was last given requests, or was connected; trouble: why it ends
    """

    def __init__(self, client: RoutedClient, link: Link) -> None:
        super().__init__(link, client.counters)
        self.session: LaneSession | None = None
        self.is_held_up = self.retires = False
        self.used_s = 0.0
        self.kept = 0
        self._client = client
        self._serving = link.serving
        self._announcements = link.announcements
        self._registry = link.context.registry
        self._rules = link.context.actions.rules
        self._is_shared = client.sharing.is_on  # or is to be
        self.replies = self.queue()
        self._unsent: Sequence[PendingRequest] = ()  # of the held step, not gone yet
        self._early: deque[tuple[Sequence[PendingRequest], bytes]] = deque()
        self.trouble = UpstreamError("the connection to a master has ended")
        self._expected = 0  # how many wait in `opened`
        self._task: asyncio.Task[None] | None = None
        self._loop = asyncio.get_running_loop()
        self.start(self._open(), "open")

    def __repr__(self) -> str:
        return f"<Lane {self._phase.name}>"

    def queue(self) -> LaneReplies:
        """The queue of a new connection."""
        self.replies, context = LaneReplies(self._client, self._hold_up), self.link.context
        if not context.rights.shows_internal:
            self.replies.shown = partial(invalidation_shown, keys=context.keys)
        return self.replies

    # The client calls these.

    def send(self, requests: Sequence[PendingRequest], raw: bytes) -> None:
        """Sends whole requests; `raw`: all their bytes."""
        self._client.order.open()
        self.used_s = self._loop.time()
        for request in requests:
            request.lane = self
        self.hear()
        session = self.session
        if self._phase is CLOSED:
            self._early.append((requests, raw))
            self.give_back()
        elif session is None or self._phase is not OPEN:
            self._early.append((requests, raw))
        elif not (self._serving.now or session.before_login or session.needs_nothing(raw)):
            self._early.append((requests, raw))
            self._hold(self._serves_again, "wait for the link")
        elif session.at_once(raw) is not None:
            self.put(requests, raw)
        elif self._rules.in_doubt:
            self._early.append((requests, raw))
            self._hold(self._rules_are_known, "rules")
        else:
            self._take(session, requests, raw)

    def passes(self, part: Part, data: bytes) -> bool:
        """Sends whole requests as they came, if nothing else must be done; else they stay in
        `part`, and it returns False."""
        self.hear()
        session, replies = self.session, self.replies
        if (
            self._phase is OPEN
            and session is not None
            and self._backend is not None
            and self._serving.now
            and not (replies.requests or replies.has_begun)  # a reply, or a push
            and session.at_once(data) is not None
        ):
            self.used_s = self._loop.time()
            replies.parts.append(part)
            self._write(data, part.missing)
            return True
        part.unsent = data
        return False

    def hear(self) -> None:
        """Takes announcements that may have come; may find them lost: then nothing is served."""
        if self._registry.expecting:
            self._announcements.receive()

    def owes_for(self, requests: Sequence[PendingRequest]) -> None:
        """The replies of parts of chunks are owed to these."""
        self.replies.parts.clear()
        self.replies.requests.extend(requests)

    def put(self, requests: Sequence[PendingRequest], data: bytes) -> None:
        """Sends requests in this form, whatever is held. The lane is open."""
        self.replies.requests.extend(requests)
        self._write(data, len(requests))

    async def opened(self) -> None:
        """Ends when it is connected, and holds nothing. Raises UpstreamError if it has ended;
        NoFreeConnection if there was no room for it."""
        self._expected += 1
        try:
            while self._task is not None and self._phase is not CLOSED:
                await asyncio.wait({self._task})
        finally:
            self._expected -= 1
        if self._phase is CLOSED:
            raise self.trouble

    def unblocked(self) -> None:
        """A blocking request has been answered: does what follows from it."""
        session = self.session
        if session is not None and self._phase is OPEN:
            session.behind_blocking = False
            session.unblock()
            self.sent(session, session.from_client(b""))

    @property
    def owes(self) -> bool:
        """Whether replies are to come."""
        return bool(self.replies.requests or self.replies.parts)

    @property
    def waits(self) -> bool:
        """Whether requests are to go, or replies to come."""
        return bool(self.owes or self._unsent or self._early)

    @property
    def is_closed(self) -> bool:
        return self._phase is CLOSED

    @property
    def kept_replies(self) -> int:
        """Bytes of replies that wait for those of others."""
        return self.kept + self.replies.kept

    @property
    def buffered(self) -> int:
        """Bytes that are kept, in both directions."""
        early = sum(len(raw) for _, raw in self._early)
        to_redis = self._backend.unsent if self._backend is not None else 0
        return self._unsent_bytes + early + to_redis + self.kept_replies

    def give_back(self) -> None:
        """The requests that have not gone to Redis must be sent elsewhere."""
        requests = self.take_unsent()
        for request in requests:
            request.fail(SlotMoved("another master has its slot"))
        self._client.redirects.add([request for request in requests if request.taker is None])

    def take_unsent(self) -> list[PendingRequest]:
        """Takes away the requests that have not gone to Redis."""
        taken = [*self._unsent, *(request for requests, _ in self._early for request in requests)]
        self._unsent = ()
        self._early.clear()
        return taken

    def resume(self) -> None:
        """The client waits for the next reply of this lane."""
        if self.is_held_up and self._backend is not None:
            self.is_held_up = False
            self._backend.pause(False)

    def pause(self, is_full: bool) -> None:
        """The client does not keep up, or keeps up again."""
        if self._backend is not None and not self.is_held_up:
            self._backend.pause(is_full)

    def cut(self) -> None:
        """The client has gone while its request blocks: tells Redis at once."""
        if self._backend is not None and self._phase is not CLOSED:
            self._backend.cut()

    def close(self, *, at_once: bool = False) -> None:
        """No more is sent, and what comes is dropped; `at_once`: also what Redis has not taken."""
        if self._phase is CLOSED:
            return
        self._phase = CLOSED
        if self._task is not None:
            self._task.cancel()
        if self._backend is not None:
            (self._backend.abort if at_once else self._backend.close)()
        if self.session is not None:
            self.session.end()
        self.replies.fail(self.trouble)
        for request in self.take_unsent():
            request.fail(SlotMoved("its master is served no more"))

    # The limit of connections calls these.

    @property
    def is_unused(self) -> bool:
        """Whether nothing is on its way, and the client can do without it for now."""
        is_quiet = self._phase is OPEN and self._task is None
        return (
            is_quiet and not (self.waits or self._expected) and self._client.lanes.can_spare(self)
        )

    def give_up(self) -> None:
        """Makes room for the connection of another client."""
        self._client.lanes.close(self)

    # It is the `Frontend` of its connection to Redis.

    @property
    def takes(self) -> Take:
        """Takes what Redis sends first."""
        return self._take_first

    def _take_first(self, data: bytes) -> None:
        if data.startswith(TOO_MANY):
            self._client.lanes.turned_away(self, data)
            return
        if isinstance(self._backend, Backend):
            self._backend.give_to(self.write)
        self.write(data)

    def write(self, data: bytes, ends: list[int] | None = None) -> None:
        """Takes what Redis sends; `ends`: where replies end in that, if that is known."""
        if self._phase is CLOSED:
            return
        try:
            self.replies.take(data, ends)
        except Miscounted:
            self._client.lanes.miscounted(self)  # never guess
        if self.kept > HIGH:
            self._client.order.open()
            if self.kept > HIGH:
                self._hold_up()
        if self.retires and not self.waits:
            self._client.lanes.lost(self)

    @property
    def is_plain(self) -> bool:
        session = self.session
        if self._phase is not OPEN or session is None:
            return False
        return not (session.doing or session.silent or session.streams)

    def send_by(self, send: Send) -> None:
        """Ignores `send`: the lane asks its connection each time."""

    def full(self, is_full: bool) -> None:
        super().full(is_full)
        if is_full:
            self._client.keeps()
        self._client.read()

    def end(self) -> None:
        """Redis has closed, or this side has."""
        self._client.limit.leave(self)
        if self._phase is not CLOSED:
            self._client.lanes.lost(self)

    # A step calls these.

    def to_redis(self, data: bytes, count: int) -> None:
        count = len(self._unsent)
        self._have_gone()
        self._write(data, count)

    def expects(self, step: Step) -> None:
        """Does nothing: the pending requests tell which replies are expected."""

    def sent(self, session: Session, step: Step) -> None:
        self._have_gone()
        super().sent(session, step)

    def wait_for_item(self) -> bool:
        self._phase = WAITING
        self._client.read()
        return True

    # Inside.

    def _write(self, data: bytes, count: int) -> None:
        """Sends so many requests."""
        assert self._backend is not None
        self._backend.send(data, count)

    def _have_gone(self) -> None:
        """The requests of the held step are on their way."""
        if self._unsent:
            self.replies.requests.extend(self._unsent)
            self._unsent = ()

    def _take(self, session: LaneSession, requests: Sequence[PendingRequest], raw: bytes) -> None:
        """Handles requests that cannot just pass."""
        assert self._backend is not None
        step = session.from_client(raw)
        if step.withheld:  # behind a request that must be looked at first
            count = len(requests) - len(Requests().feed(step.withheld))
            self._early.appendleft((requests[count:], step.withheld))
            requests = requests[:count]
        self._unsent = requests
        self._carry_out(session, step)

    def _hold_up(self) -> None:
        """Reads no more until the client waits for the next reply of this lane."""
        if self._backend is not None and not self.is_held_up:
            self.is_held_up = True
            self._backend.pause(True)
            self._client.keeps()

    async def _open(self) -> None:
        client = self._client
        if not self._is_shared:
            try:
                async with asyncio.timeout(client.hold_max_s):
                    await client.limit.enter(self)
            except TimeoutError:
                raise NoFreeConnection(NO_ROOM) from None
        attempt = partial(client.dial, self)
        try:
            backend, term = await connect(self.link, attempt, client.hold_max_s)
        except BaseException as failure:
            client.limit.leave(self)
            if isinstance(failure, OSError):
                raise NotServed(str(failure)) from failure
            raise
        self._backend = backend
        self._is_shared = isinstance(backend, LaneUpstream)
        if term != self.link.server.term:
            raise SlotMoved("the master has changed")
        self.used_s = self._loop.time()
        self.session = client.session(self)
        for words in list(client.connection_settings):
            if self._is_shared:
                lane_calls.was_told(self, words)
                continue
            reply = await lane_calls.prepared(self, words)
            if reply.startswith(b"-"):
                text = reply[1:].decode(errors="replace").strip()
                raise UpstreamError(f"a master refuses {words[0].decode()}: {text}")

    async def _serves_again(self) -> None:
        """Ends when the link serves. Raises NotServed after hold_max."""
        try:
            await self.link.holds.until_served()
        except TimeoutError:
            raise NotServed(f"Redis is unavailable: {self.link.trouble}") from None

    async def _rules_are_known(self) -> None:
        """Ends when no rule of ONWRITE is in doubt. Raises NotServed after hold_max."""
        try:
            await self.link.holds.until_rules_are_read()
        except TimeoutError:
            raise NotServed("the rules of ONWRITE cannot be read") from None

    def start(self, coroutine: Coroutine[None, None, None], why: str) -> asyncio.Task[None]:
        self._task = asyncio.create_task(coroutine, name=f"lane: {why}")
        self._task.add_done_callback(self._stopped)
        return self._task

    def _stopped(self, task: asyncio.Task[None]) -> None:
        if self._phase is CLOSED or task is not self._task:
            if not task.cancelled():
                task.exception()
            return
        self._task = self._held = None
        trouble = asyncio.CancelledError() if task.cancelled() else task.exception()
        if trouble is None:
            self._go_on()
        elif isinstance(trouble, SlotMoved) and self.session is None:
            self._client.lanes.lost(self)
        elif isinstance(trouble, SlotMoved):
            self._phase = OPEN
            self.give_back()
        elif isinstance(trouble, NoFreeConnection):
            self._client.lanes.crowded_out(self)
        elif self._has_waited_in_vain(trouble) and self._client.lanes.can_go_on_without(self):
            self._answer_for_redis()
        else:
            self._client.failed(trouble)

    def _has_waited_in_vain(self, trouble: BaseException | None) -> bool:
        """Whether the master was not served for hold_max, and nothing has been sent to it."""
        if isinstance(trouble, TimeoutError | ClusterIsDown):  # while a reap was waited for
            return bool(self._unsent)
        return isinstance(trouble, NotServed)

    def _answer_for_redis(self) -> None:
        """The master is not served: no request that waits here has been sent."""
        self._phase = OPEN
        self._client.lanes.answer(self.take_unsent(), NOT_SERVED)
        if self.session is None:
            self._client.lanes.lost(self)

    def _go_on(self) -> None:
        """Handles what came in meanwhile: nothing is held any more."""
        self._phase = OPEN
        while self._early and self._phase is OPEN:
            requests, raw = self._early.popleft()
            self.send(requests, raw)
            if self._early and self._early[-1][0] is requests:  # they wait anew, before all others
                self._early.rotate(1)
        self._client.read()
