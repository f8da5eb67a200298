"""One client: its socket, and what comes and goes there. Bytes across, back-pressure, holding.

A thin shell around `session`, which decides what a request means. Replies are counted and copied.
Each direction stops reading while the other side does not keep up, and neither direction
waits for the other. So a client that writes before it reads gets as far as without a proxy: Redis
goes on taking requests, and keeps its replies.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from ttlproxy.errors import Denied
from ttlproxy.proxy import protected_mode
from ttlproxy.proxy.checks import Checks
from ttlproxy.proxy.client_socket import ClientSocket
from ttlproxy.proxy.connecting import connect
from ttlproxy.proxy.ending import CloseWhenQuiet, cut_later
from ttlproxy.proxy.held_step import StepHolder
from ttlproxy.proxy.phase import (
    CLOSED,
    CONNECTING,
    FINISHING,
    HOLDING,
    KEEPING,
    OPEN,
    SHOWN,
    UNFINISHED,
    WAITING,
    Phase,
)
from ttlproxy.proxy.redis_connection import HIGH, LOW, Backend, Send, ToRedis
from ttlproxy.proxy.reply_queue import ReplyQueue, drop
from ttlproxy.proxy.slow_clients import Activity
from ttlproxy.session import Session, Step
from ttlproxy.session.replies import Told, invalidation_shown

if TYPE_CHECKING:
    from ttlproxy.proxy.server import Server


class Client(ClientSocket, StepHolder):
    """A client's socket. Stops reading while a request is held, or Redis does not keep up."""

    takes = None  # its connection to Redis counts replies
    _server: Server
    _backend: ToRedis | None

    def __init__(self, server: Server, source: str, activity: Activity | None) -> None:
        ClientSocket.__init__(self, server, source, activity)
        StepHolder.__init__(self, server.link, server.counters)
        self._serving = server.link.serving
        self._context = server.link.context
        self._session: Session | None = None
        self._checks: Checks | None = None

    def __repr__(self) -> str:
        return f"<Client {self._phase.name}>"

    # From the event loop.

    def _begins(self) -> None:
        server = self._server
        write = server.write_batch.writer(self._transport, server.counters.to_clients)
        self.write = self._noting(write, awaits=False)
        self.start(self._connect(), "connect")

    def data_received(self, data: bytes) -> None:
        if self.activity is not None:
            self.activity.note(awaits=False)
        if self._context.registry.expecting:
            self.link.announcements.receive()  # may find them lost: then nothing is served
        if self._phase is not OPEN or not self._serving.now:
            self._keep(data)
        elif count := self._passes(data):
            self.to_redis(data, count)
        else:
            self._hear(data)

    def _hear(self, data: bytes) -> None:
        """Handles a chunk for which announcements matter also where there is no other proxy."""
        session = self._session
        if not self._context.registry.expecting:
            self.link.announcements.receive()
        if session is None or not self._serving.now:
            self._keep(data)  # they were found lost: nothing is served
        elif (sent := session.at_once(data)) is not None:
            self._call(*sent)
        else:
            self._take(data)

    def _call(self, to_redis: bytes, requests: int, told: Sequence[Told]) -> None:
        """Sends what a chunk has become."""
        if self._backend is not None:
            for each in told:
                self._backend.replies.tell(each)
        self.to_redis(to_redis, requests)

    def _ends(self) -> bool:
        had_ended, self._has_ended = self._has_ended, True
        self._server.write_batch.flush()
        if self._phase is CLOSED or (self._phase is CONNECTING and not self._early):
            return False  # nothing is owed, and nobody need connect
        session, backend = self._session, self._backend
        waits = self._phase is WAITING and not had_ended  # if it had, it would not wait
        if waits and self._task is not None and backend is not None:
            self._enter(FINISHING)
            self._task.cancel()
            backend.cut()  # as without a proxy
        elif self._phase in KEEPING or session is None or backend is None:
            pass  # handled after what came in before
        elif not backend.is_cut:
            self._finish_at_eof(session, backend)
        return True

    def _finish_at_eof(self, session: Session, backend: ToRedis) -> None:
        if session.streams:  # a QUIT would be taken for the rest of the value
            self._ending = self._ending or cut_later(backend)
        elif session.behind_blocking or session.relays:
            self._enter(FINISHING)
            backend.cut()  # as without a proxy: a blocked client is gone at once
        else:
            self._finish(session, backend)

    def _lost(self) -> None:
        self._enter(CLOSED)

    def _ignore(self) -> None:
        if self._backend is not None:
            self._backend.ignore()

    def _close(self) -> None:
        if self._backend is not None:
            self._backend.close()
        if self._session is not None:
            self._session.end()

    def _gone(self) -> None:
        super()._gone()
        self._backend = self._held = self._checks = None
        self.to_redis = drop

    def _pause(self, is_full: bool) -> None:
        if self._backend is not None:
            self._backend.pause(is_full)

    # From Redis's side.

    def end(self) -> None:
        if self._phase is CLOSED:
            return
        self._server.write_batch.flush()
        asked = self._has_ended or (self._session is not None and self._session.quit)
        self.ends_because("client" if asked else "redis")
        self.redis_is_full = False
        self._cancel()
        self._enter(CLOSED)
        self._close_writing()

    @property
    def is_plain(self) -> bool:
        session = self._session
        if session is None or self._phase is not OPEN:
            return False
        return not (session.doing or session.silent or session.streams)

    def queue(self) -> ReplyQueue:
        return ReplyQueue(self.write)

    def send_by(self, send: Send) -> None:
        self.to_redis = self._noting(send, awaits=True)

    def full(self, is_full: bool) -> None:
        super().full(is_full)
        if is_full:
            self._server.slow_clients.keeps(self)
        self.read()

    # From the server.

    def end_at_boundary(self) -> None:
        """Ends as soon as nothing is half done, after the replies that are owed."""
        self.answer_now()
        session, backend = self._session, self._backend
        if session is None or backend is None:
            if self._phase is CONNECTING and not self._serving.now:
                self.refuse(ConnectionError("the proxy is shutting down"))
        elif self._phase is OPEN and not session.unfinished:
            self.ends_because("drained")
            self._finish(session, backend)

    @property
    def unfinished(self) -> str:
        """Names the unfinished work that keeps the client from ending, in words for the log."""
        session = self._session
        if session is None or self._phase in (WAITING, CLOSED):
            return UNFINISHED[self._phase]
        if self._phase is FINISHING:
            return "blocked" if session.behind_blocking else UNFINISHED[FINISHING]
        return session.unfinished or "held"

    def leave(self) -> None:
        """Its server is not served any more: what that has sent goes on, then it ends."""
        if self._backend is not None and self._phase is not CLOSED:
            self._depart(self._backend)

    def _depart(self, backend: ToRedis) -> None:
        self.ends_because("moved")
        self._enter(FINISHING)
        self._cancel()  # held requests must go to no server
        backend.cut()
        self._end_by(CloseWhenQuiet(self._transport, backend, self.end))

    # From the check for slow clients.

    @property
    def idles(self) -> bool:
        session, activity = self._session, self.activity
        if session is None or activity is None or self._phase in KEEPING:
            return False
        if self.redis_is_full or self.unread:
            return False
        if session.behind_blocking or session.listens or session.replicates:
            return False
        return session.streams or not activity.awaits

    @property
    def buffered(self) -> int:
        to_redis = self._backend.unsent if self._backend is not None else 0
        kept = self._session.kept if self._session is not None else 0
        return self.unread + to_redis + kept + len(self._early) + self._unsent_bytes

    # For the table of clients.

    @property
    def state(self) -> str:
        """Names the state of the client, as a word of a closed set."""
        session = self._session
        if session is None or self._phase is not OPEN:
            return SHOWN[self._phase]
        if self.redis_is_full:
            return "faster than Redis"
        return session.doing or SHOWN[OPEN]

    @property
    def database(self) -> int | None:
        """The logical database that it is believed to be in; None before it is connected."""
        return self._session.db if self._session is not None else None

    @property
    def user(self) -> bytes:
        return self._session.user if self._session is not None else b""

    @property
    def introduced(self) -> Mapping[bytes, bytes]:
        return self._session.introduced if self._session is not None else {}

    def _abort(self) -> None:
        if self._held is not None:
            self._held.unsent = b""
        if self._session is not None:
            self._session.drop()
        if self._backend is not None:
            self._backend.abort()
        self._enter(FINISHING)

    # Inside.

    async def _connect(self) -> None:
        link, server = self.link, self._server
        try:
            backend, term = await connect(link, self._attempt, server.settings.hold_max)
        except (OSError, Denied) as trouble:
            self._task = None
            self.refuse(trouble)
            return
        self._backend = backend
        if term != link.server.term:
            self._task = None
            self._depart(backend)  # its server may not be served any more
            return
        self.send_by(backend.send)
        reached = server.reached(self._transport) if link.context.keys.clustered else None
        self._session = session = self._new_session(Session, link, self._owes, reached)
        session.in_flight = backend.replies.in_flight
        self._passes = session.passes_unheard
        self._hides_in(backend)
        self._check(session, backend)
        self._go_on()

    async def _attempt(self) -> ToRedis:
        """A connection to Redis, if the client may have one. Raises Denied, and OSError."""
        server = self._server
        await protected_mode.check(server.settings, self._transport, self._source, self.link)
        return await server.connect(self)

    def _hides_in(self, backend: ToRedis) -> None:
        """The client hears of no internal key and, in front of a Cluster, of no other server."""
        context = self.link.context
        if isinstance(backend, Backend):
            backend.replies.stays_here = context.keys.clustered
            if not context.rights.shows_internal:
                backend.replies.shown = partial(invalidation_shown, keys=context.keys)

    def _owes(self) -> bool:
        return self._backend is not None and self._backend.replies.owed > 0

    def _check(self, session: Session, backend: ToRedis) -> None:
        """Redis is asked what is due in the keys of its requests: see Checks."""
        assert isinstance(backend, Backend)

        def go_on(again: bytes) -> None:
            if self._phase is HOLDING:
                self._early = again + self._early
                self._go_on()

        counts, now_ms = self._server.counters.requests, self._context.clock.now_ms
        self._checks = Checks(session, backend.replies, counts, now_ms, go_on)

    def say(self, reply: bytes) -> None:
        self.write(reply)

    def _take(self, data: bytes) -> None:
        """Handles a chunk that cannot just pass."""
        session, backend = self._session, self._backend
        assert session is not None
        assert backend is not None
        if self._in_doubt:
            session.put_back()
            self._early = data + self._early
            self._hold(self.link.holds.until_rules_are_read, "rules")
            return
        if self._checks is not None and (checked := self._checks.reads(data)) is not None:
            self._enter(HOLDING)
            self.to_redis(checked, 0)
            return
        step = session.from_client(data)
        self._early = step.withheld + self._early
        if session.kept > LOW or len(self._early) > LOW:
            self._server.slow_clients.keeps(self)
        self._carry_out(session, step)
        if self._unsent_bytes > LOW:
            self._server.slow_clients.keeps(self)

    @property
    def _in_doubt(self) -> bool:
        """Whether rules of ONWRITE may have changed, and are being read."""
        return bool(self._context.actions.rules.in_doubt)

    def expects(self, step: Step) -> None:
        if self._backend is not None:
            if step.uncounted:
                self._backend.replies.uncount()
            for told in step.told:
                self._backend.replies.tell(told)

    def wait_for_item(self) -> bool:
        self._enter(WAITING)
        self.read()
        return not (self._server.draining or self._has_ended)

    def _hold(self, until: Callable[[], Awaitable[None]], why: str) -> None:
        super()._hold(until, why)
        self.read()

    async def _held_until(self, until: Callable[[], Awaitable[None]]) -> None:
        await until()
        self._go_on()

    def _stopped(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (trouble := task.exception()) is not None:
            self._fail(trouble)

    def _go_on(self) -> None:
        """Handles what came in while requests were held."""
        self._task = self._held = None
        self._enter(OPEN)
        if self._early:
            early, self._early = self._early, b""
            self.data_received(early)
        if self._has_ended and self._phase not in KEEPING:
            self._ends()
        if self._server.draining:
            self.end_at_boundary()
        self.read()

    def _keep(self, data: bytes) -> None:
        """Handles bytes that cannot go on now, or cannot go on at all."""
        session = self._session
        if self._phase in KEEPING:
            self._keep_early(data)
            self.read()
        elif self._phase is not OPEN or session is None:
            return  # nobody is left to answer it
        elif session.before_login:
            self._take(data)  # Redis alone decides what becomes of that
        elif count := session.needs_nothing(data):
            self.to_redis(data, count)
        else:
            self._hold(self.link.holds.until_served, "wait for the link")
            self._keep_early(data)

    def _keep_early(self, data: bytes) -> None:
        self._early += data
        if len(self._early) > LOW:
            self._server.slow_clients.keeps(self)

    def sent(self, session: Session, step: Step) -> None:
        if step.stopping is not None and self._checks is not None:
            self._enter(HOLDING)
            self._checks.stops(step.stopping)
        if session.over:
            self._enter(FINISHING)  # Redis would not read more, and would reset the connection
        super().sent(session, step)
        if self._server.draining:
            self.end_at_boundary()

    def _finish(self, session: Session, backend: ToRedis) -> None:
        """No more requests: Redis must answer what it has, and then close."""
        self._enter(FINISHING)
        if session.silent:
            backend.cut()  # Redis closes after its reply to QUIT, which it never sends here
        elif request := session.finish():
            backend.finish(request)

    def _enter(self, phase: Phase) -> None:
        if phase > self._phase or self._phase < FINISHING:
            self._phase = phase

    @property
    def _must_stop(self) -> bool:
        # The end of a client that waits, or has no connection yet, must be seen at once.
        listens = self._phase is not HOLDING and len(self._early) < HIGH
        return (self._phase in KEEPING and not listens) or self.redis_is_full
