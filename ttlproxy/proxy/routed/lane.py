"""A client's connection to one master, and its session there.

Takes whole requests, and gives back whole replies: it counts what comes from Redis.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

from ttlproxy.errors import (
    NO_FREE_CONNECTION,
    NOT_SERVED,
    ClusterIsDown,
    NoFreeConnection,
    NotServed,
    SlotMoved,
    UpstreamError,
)
from ttlproxy.link import Link
from ttlproxy.proxy.connecting import connect
from ttlproxy.proxy.held_step import HeldStep, follow
from ttlproxy.proxy.phase import CLOSED, CONNECTING, HOLDING, OPEN, WAITING
from ttlproxy.proxy.redis_connection import HIGH, TOO_MANY, Backend, Send
from ttlproxy.proxy.round_trips import Over
from ttlproxy.proxy.routed.chunk import Part
from ttlproxy.proxy.routed.lane_replies import LaneReplies, Miscounted
from ttlproxy.proxy.routed.pending_request import PendingRequest
from ttlproxy.proxy.sharing.shared_upstream import LaneUpstream
from ttlproxy.proxy.write_batch import Write
from ttlproxy.session import Step
from ttlproxy.session.replies import Tell, invalidation_shown
from ttlproxy.session.session import LaneSession, Session
from ttlproxy.wire import Requests, encode

if TYPE_CHECKING:
    from ttlproxy.proxy.routed.routed_client import RoutedClient

ASKING: Final = encode((b"ASKING",))
OK: Final = b"+OK\r\n"


def _tell(step: Step, line: bytes) -> None:
    """Takes the first line of the reply to the only request of a step."""
    for told in step.told:
        if told.tell is not None:
            told.tell(line)


class Lane:
    """
    link: of its master; session: None until it is connected
    is_full: Redis does not keep up
    is_held_up: it is not read: too many of its replies wait for those of others
    kept: bytes of whole replies that wait for those of others
    retires: its master is not served any more, so that it ends with its last reply
    used_s: when it was last given requests, or was connected
    """

    def __init__(self, client: RoutedClient, link: Link) -> None:
        self.link = link
        self.session: LaneSession | None = None
        self.is_full = self.is_held_up = self.retires = False
        self.used_s = 0.0
        self.kept = 0
        self._client = client
        self._serving = link.serving
        self._announcements = link.announcements
        self._registry = link.context.registry
        self._rules = link.context.actions.rules
        self._backend: Backend | LaneUpstream | None = None
        self._is_shared = client.sharing.is_on  # or is to be
        self._phase = CONNECTING
        self._replies = LaneReplies(client, self._hold_up)
        self._in_flight = self._replies.in_flight
        context = link.context
        if not context.rights.shows_internal:
            self._replies.shown = partial(invalidation_shown, keys=context.keys)
        self._unsent: Sequence[PendingRequest] = ()  # of the held step, not gone yet
        self._early: deque[tuple[Sequence[PendingRequest], bytes]] = deque()
        self._trouble = UpstreamError("the connection to a master has ended")
        self._expected = 0  # how many wait in `opened`
        self._held: HeldStep | None = None
        self._task: asyncio.Task[None] | None = None
        self._sent = 0  # requests in all
        self._trip: Over | None = None  # a round trip that is measured
        self._round_trips = client.round_trips
        self._loop = asyncio.get_running_loop()
        self._start(self._open())

    def __repr__(self) -> str:
        return f"<Lane {self._phase.name}>"

    # The client calls these.

    def send(self, requests: Sequence[PendingRequest], raw: bytes) -> None:
        """Sends whole requests; `raw`: all their bytes."""
        self._client.order.open()
        self.used_s = self._loop.time()
        for request in requests:
            request.lane = self
        self._hear()
        session = self.session
        if self._phase is CLOSED:
            self._early.append((requests, raw))
            self.give_back()
        elif session is None or self._phase is not OPEN:
            self._early.append((requests, raw))
        elif not (self._serving.now or session.before_login or session.needs_nothing(raw)):
            self._early.append((requests, raw))
            self._hold(self._serves_again())
        elif session.at_once(raw) is not None:
            self._in_flight.extend(requests)
            self._write(raw, len(requests))
        elif self._rules.in_doubt:
            self._early.append((requests, raw))
            self._hold(self._rules_are_known())
        else:
            self._take(session, requests, raw)

    def passes(self, part: Part, data: bytes) -> bool:
        """Sends whole requests as they came, if nothing else must be done; else they stay in
        `part`, and it returns False."""
        self._hear()
        session, replies = self.session, self._replies
        if (
            self._phase is OPEN
            and session is not None
            and self._backend is not None
            and self._serving.now
            and not (self._in_flight or replies.has_begun)  # a reply, or a push
            and session.at_once(data) is not None
        ):
            self.used_s = self._loop.time()
            replies.parts.append(part)
            self._write(data, part.missing)
            return True
        part.unsent = data
        return False

    def _hear(self) -> None:
        """Takes announcements that may have come; may find them lost: then nothing is served."""
        if self._registry.expecting:
            self._announcements.receive()

    def owes_for(self, requests: Sequence[PendingRequest]) -> None:
        """The replies of parts of chunks are owed to these."""
        self._replies.parts.clear()
        self._in_flight.extend(requests)

    async def asked(self, request: PendingRequest) -> bytes:
        """Sends one request; returns its reply. Raises UpstreamError if the connection ends."""
        taker = request.awaited()
        if self.is_held_up:
            self.resume()
        self.send([request], request.raw)
        try:
            return await taker
        finally:
            request.taker = None

    async def asked_together(self, requests: Sequence[PendingRequest]) -> list[bytes]:
        """Sends requests in one go; returns their replies. Raises UpstreamError as `asked` does;
        NoFreeConnection if there was no room for a connection."""
        takers: list[asyncio.Future[bytes]] = []
        for request in requests:
            takers.append(request.awaited())
        self.send(requests, b"".join([request.raw for request in requests]))
        replies = [await taker for taker in takers]
        if NO_FREE_CONNECTION in replies:  # not one of them has gone to Redis
            raise self._trouble
        return replies

    async def confirmed(self, request: PendingRequest, count: int, *, by_push: bool) -> bytes:
        """Sends a request of the SUBSCRIBE family, which is answered with so many confirmations.

        They pass to the client. Returns Redis's error in their place, or the last of them.
        `by_push`: the client is in RESP3, where they and messages are pushes.
        """
        await self.opened()
        assert self.session is not None
        self._replies.confirms(count, by_push=by_push)
        taker = request.awaited()
        step = self.session.from_client(request.raw)
        self._in_flight.append(request)
        self._write(step.to_redis, 1)
        return await taker

    def hear(self, hears: Callable[[bytes], bool] | None) -> None:
        """`hears(push)`: whether the client gets what comes beside replies; None: it gets all."""
        self._replies.hears = hears

    def forget_subscriptions(self) -> None:
        """The client is subscribed to nothing any more."""
        self._replies.forget_subscriptions()
        if self.session is not None:
            self.session.listens = False

    def relay(self, data: bytes) -> None:
        """Passes all unread from now on, in both directions."""
        self._replies.relays = True
        self._write(data, 0)

    def on_the_way(self, request: PendingRequest) -> bytes | None:
        """Returns the bytes to send while the slot of a request is migrating from this lane's
        master.

        This lane knows the keys of the slot, until it has moved. None if something is due in its
        keys: nothing can be reaped before. The lane is open.
        """
        assert self.session is not None
        self._hear()
        step = self.session.from_client(request.raw)
        if step.is_held or step.pauses:
            return None
        return self._dated(step)

    async def unindexed(self, request: PendingRequest) -> bytes | None:
        """Does as `on_the_way` where keys that may have an index have none, at either master:
        nothing is due or to be swept, and no script is needed, which Redis would refuse. Raises
        TimeoutError after hold_max."""
        assert self.session is not None
        places = self.session.may_be_indexed(request.args)
        if not places or any((await self.link.holds.indexed(places)).values()):
            return None
        self.session.unindexed = True
        step = self.session.from_client(request.raw)
        return None if step.unsure or step.pauses else self._dated(step)

    def _dated(self, step: Step) -> bytes:
        """The bytes of a step; rules give its elements deadlines once it has been carried out."""
        if step.apply_ttl_after:
            self.link.context.apply_ttl_later(step.apply_ttl_after)
        return step.to_redis

    async def asked_as(
        self, request: PendingRequest, data: bytes, *, asking: bool = False
    ) -> bytes:
        """Sends a request in this form, `asking` for a slot that is on its way here. The lane is
        open. Raises UpstreamError if the connection ends."""
        if self.is_held_up:
            self.resume()
        if asking:
            ours = PendingRequest([b"ASKING"], ASKING, None)
            ours.awaited()
            self._in_flight.append(ours)
        taker, request.lane = request.awaited(), self
        self._in_flight.append(request)
        self._write(ASKING + data if asking else data, 1 + asking)
        try:
            return await taker
        finally:
            request.taker = None

    async def logs_in(self, words: Sequence[bytes]) -> bytes:
        """Sends a request that may log in, or another that each connection of the client needs;
        returns its reply."""
        await self.opened()
        return await self._prepared(words)

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
            raise self._trouble

    def unblocked(self) -> None:
        """A blocking request has been answered: does what follows from it."""
        session = self.session
        if session is not None and self._phase is OPEN:
            session.behind_blocking = False
            session.unblock()
            self.sent(session, session.from_client(b""))

    async def passed(self) -> None:
        """Ends when all that is in flight now has been answered."""
        await self._replies.passed()

    @property
    def owes(self) -> bool:
        """Whether replies are to come."""
        return bool(self._in_flight or self._replies.parts)

    def in_flight(self) -> tuple[int, int]:
        """(requests that were sent, those of them that have no reply)."""
        replies = self._replies
        if self.is_closed or replies.relays:
            return self._sent, 0
        return self._sent, len(self._in_flight) + sum(part.missing for part in replies.parts)

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
        return self.kept + self._replies.kept

    @property
    def buffered(self) -> int:
        """Bytes that are kept, in both directions."""
        unsent = len(self._held.unsent) if self._held is not None else 0
        early = sum(len(raw) for _, raw in self._early)
        to_redis = self._backend.unsent if self._backend is not None else 0
        return unsent + early + to_redis + self.kept_replies

    def give_back(self) -> None:
        """The requests that have not gone to Redis must be sent elsewhere."""
        requests = self._take_unsent()
        for request in requests:
            request.fail(SlotMoved("another master has its slot"))
        self._client.bounced([request for request in requests if request.taker is None])

    def _take_unsent(self) -> list[PendingRequest]:
        taken = [*self._unsent, *(request for requests, _ in self._early for request in requests)]
        self._unsent = ()
        self._early.clear()
        return taken

    def resume(self) -> None:
        """The client waits for the next reply of this lane."""
        self.is_held_up = False
        if self._backend is not None:
            self._backend.pause(False)

    def pause(self, is_full: bool) -> None:
        """The client does not keep up, or keeps up again."""
        if self._backend is not None and not self.is_held_up:
            self._backend.pause(is_full)

    def answer_now(self) -> None:
        """A request that waits for an item is answered now, even without one."""
        if self._held is not None:
            self._held.answer_now()

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
        self._replies.end(self._trouble)
        for request in self._take_unsent():
            request.fail(SlotMoved("its master is served no more"))

    # The limit of connections calls these.

    @property
    def is_unused(self) -> bool:
        """Whether nothing is on its way, and the client can do without it for now."""
        is_quiet = self._phase is OPEN and self._task is None
        return is_quiet and not (self.waits or self._expected) and self._client.can_spare(self)

    def give_up(self) -> None:
        """Makes room for the connection of another client."""
        self._client.gives_up(self)

    def refuse(self) -> None:
        """Answers the lane's requests with an error and ends, because there was no room for its
        connection."""
        requests = self._take_unsent()
        self._trouble = NoFreeConnection("clients may have no more connections to a master")
        self.close()
        self._answer(requests, NO_FREE_CONNECTION)

    def _answer(self, requests: Sequence[PendingRequest], reply: bytes) -> None:
        """Answers requests with this reply; they do not go to Redis."""
        for request in requests:
            if request.taker is None:
                self._client.answered(request, reply)
            else:
                request.answer(reply)
        self._client.flush()

    # It is the `Frontend` of its connection to Redis.

    @property
    def write(self) -> Write:
        """Takes what Redis sends."""
        return self.taken

    @property
    def takes(self) -> Write:
        """Takes what Redis sends first."""
        return self._take_first

    def _take_first(self, data: bytes) -> None:
        if data.startswith(TOO_MANY):
            self._client.turned_away(self, data)
            return
        if isinstance(self._backend, Backend):
            self._backend.give_to(self.taken)
        self.taken(data)

    def turn_back(self, error: bytes) -> None:
        """Redis has too many clients, and has closed the connection without reading from it."""
        self._client.order.open()
        requests = [*self._in_flight, *self._take_unsent()]
        self._in_flight.clear()
        self.close()
        for request in requests:
            request.error = error
            request.answer(error)
        self._client.bounced([request for request in requests if request.taker is None])

    def taken(self, data: bytes, ends: list[int] | None = None) -> None:
        """Takes what Redis sends; `ends`: where replies end in that, if that is known."""
        if self._phase is CLOSED:
            return
        replies = self._replies
        try:
            if replies.parts:
                replies.take_parts(data, ends)
            else:
                replies.take(data, ends)
        except Miscounted:
            self._client.miscounted(self)  # never guess
        if self.kept > HIGH:
            self._client.order.open()
            if self.kept > HIGH:
                self._hold_up()
        if self._trip is not None and not self.owes:
            over, self._trip = self._trip, None
            over(False)
        if self.retires and not self.waits:
            self._client.lost(self)

    @property
    def is_plain(self) -> bool:
        session = self.session
        if self._phase is not OPEN or session is None or self._replies.is_uneven:
            return False
        return not (session.doing or session.silent or session.streams)

    def send_by(self, send: Send) -> None:
        """Ignores `send`: the lane asks its connection each time."""

    def full(self, is_full: bool) -> None:
        self.is_full = is_full
        if is_full:
            self._client.keeps()
        elif self._held is not None:
            self._held.drained()
        self._client.read()

    def end(self) -> None:
        """Redis has closed, or this side has."""
        self._client.limit.leave(self)
        if self._phase is not CLOSED:
            self._client.lost(self)

    # A held step calls these.

    @property
    def redis_is_full(self) -> bool:
        return self.is_full

    def to_redis(self, data: bytes, count: int) -> None:
        count = len(self._unsent)
        self._have_gone()
        self._write(data, count)

    def expects(self, step: Step) -> None:
        """Does nothing: the pending requests tell which replies are expected."""

    def ask(self, request: bytes, tell: Tell) -> None:
        """Sends a request of ours in place of the last one in flight."""
        self._replies.attempt = tell
        self._write(request, 1)

    def sent(self, session: Session, step: Step) -> None:
        """Requests have gone to Redis: does what follows at once."""
        self._have_gone()
        session.has_sent(step.requests)
        follow(self.link, session, step)

    def wait_for_item(self) -> bool:
        self._phase = WAITING
        self._client.read()
        return True

    # Inside.

    def _write(self, data: bytes, count: int) -> None:
        """Sends so many requests."""
        backend = self._backend
        assert backend is not None
        self._sent += count
        if self._round_trips.is_due and self._trip is None and self.is_plain:
            self._trip = self._round_trips.begin(data)
        backend.send(data, count)

    def _have_gone(self) -> None:
        """The requests of the held step are on their way."""
        if self._unsent:
            self._in_flight.extend(self._unsent)
            self._unsent = ()

    def _take(self, session: LaneSession, requests: Sequence[PendingRequest], raw: bytes) -> None:
        """Handles requests that cannot just pass."""
        assert self._backend is not None
        step = session.from_client(raw)
        out = step.to_redis
        holds = step.is_held or len(out) > HIGH  # its requests, before they go to Redis
        if step.withheld:  # behind a request that must be looked at first
            count = len(requests) - len(Requests().feed(step.withheld))
            self._early.appendleft((requests[count:], step.withheld))
            requests = requests[:count]
        if holds:
            self._unsent = requests
        else:
            self._in_flight.extend(requests)
            if out:
                self._write(out, len(requests))
            self.sent(session, step)
        if holds or step.pauses:
            held = HeldStep(self, self.link, session, self._backend, step, has_gone=not holds)
            self._held = held
            self._client.counters.held += 1 if step.must_reap else 0
            self._hold(held.run())

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
                trouble = "clients may have no more connections to a master"
                raise NoFreeConnection(trouble) from None
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
        for words in client.replays:
            if self._is_shared:
                self._was_told(self.session, words)
                continue
            reply = await self._prepared(words)
            if reply.startswith(b"-"):
                text = reply[1:].decode(errors="replace").strip()
                raise UpstreamError(f"a master refuses {words[0].decode()}: {text}")

    async def _prepared(self, words: Sequence[bytes]) -> bytes:
        """Sends a request outside of the client's; returns its reply."""
        session = self.session
        assert session is not None
        request = PendingRequest(list(words), b"", None)
        taker = request.awaited()
        step = session.from_client(encode(tuple(words)))
        self._in_flight.append(request)
        self._write(step.to_redis, 1)
        self.sent(session, step)
        reply = await taker
        _tell(step, reply.partition(b"\n")[0] + b"\n")
        if step.look:
            await self.link.jobs.verify(self.passed())
        return reply

    def _was_told(self, session: LaneSession, words: Sequence[bytes]) -> None:
        """The shared connection has been told this, or what says the same."""
        _tell(session.from_client(encode(tuple(words))), OK)

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

    def _hold(self, until: Coroutine[None, None, None]) -> None:
        """Keeps what comes in until `until` ends."""
        self._phase = HOLDING
        self._client.counters.holding += 1
        self._start(until).add_done_callback(self._released)

    def _released(self, task: asyncio.Task[None]) -> None:
        self._client.counters.holding -= 1

    def _start(self, coroutine: Coroutine[None, None, None]) -> asyncio.Task[None]:
        self._task = asyncio.create_task(coroutine, name="lane")
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
            self._client.lost(self)
        elif isinstance(trouble, SlotMoved):
            self._phase = OPEN
            self.give_back()
        elif isinstance(trouble, NoFreeConnection):
            self._client.crowded_out(self)
        elif self._has_waited_in_vain(trouble) and self._client.can_go_on_without(self):
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
        self._answer(self._take_unsent(), NOT_SERVED)
        if self.session is None:
            self._client.lost(self)

    def _go_on(self) -> None:
        """Handles what came in meanwhile: nothing is held any more."""
        self._phase = OPEN
        while self._early and self._phase is OPEN:
            requests, raw = self._early.popleft()
            self.send(requests, raw)
            if self._early and self._early[-1][0] is requests:  # they wait anew, before all others
                self._early.rotate(1)
        self._client.read()
