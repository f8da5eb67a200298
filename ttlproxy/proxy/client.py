"""One client: its socket, and what comes and goes there. Bytes across, back-pressure, holding.

A thin shell around `session`, which decides what a request means. Bytes from Redis are copied
unread. Each direction stops reading while the other side does not keep up, and neither direction
waits for the other. So a client that writes before it reads gets as far as without a proxy: Redis
goes on taking requests, and keeps its replies.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from enum import IntEnum
from typing import Final, Protocol, cast

from ttlproxy.config import Settings
from ttlproxy.core.counters import Counters
from ttlproxy.errors import REFUSED, ReapRefused
from ttlproxy.link import Backoff, Link
from ttlproxy.proxy.blocking_lease import BlockingLease
from ttlproxy.proxy.client_log import ClientLog
from ttlproxy.proxy.redis_connection import HIGH, LOW, Backend, half_close
from ttlproxy.proxy.slow_clients import Activity, SlowClients
from ttlproxy.proxy.write_batch import WriteBatch
from ttlproxy.session import Session, Step, Wait

# How long replies may take to a client that has ended in a large request.
_GRACE_S = 1.0
# A client that has lost its server gets what that has sent already: the client is closed after so
# many looks at which nothing more had come. More than one, because a process that gets no processor
# for a while looks before it has read.
_LOOKS = 3
_LOOK_S = 0.1
# How long a client may take to close its side after we have closed ours.
_LINGER_S = 5.0
# Between two attempts to connect to Redis.
_AGAIN = Backoff(cap=0.2, base=0.01)


class Host(Protocol):
    """The server that has accepted a client.

    draining: clients must end as soon as nothing is half done
    """

    settings: Settings
    link: Link
    counters: Counters
    write_batch: WriteBatch
    clients: set[Client]
    slow_clients: SlowClients
    draining: bool

    async def connect(self, client: Client) -> Backend:
        """A connection to Redis. Raises OSError, also for TLS and time-outs."""

    def forget(self, client: Client) -> None:
        """The client has gone."""


class Phase(IntEnum):
    """Where a client stands. From FINISHING on it only goes forward.

    CONNECTING: it has no connection to Redis yet; later bytes are kept
    OPEN: requests go to Redis as they come
    HOLDING: a request waits for a reap, the link or a reply; later bytes are kept
    WAITING: a request waits for an item; later bytes are kept
    FINISHING: no more requests go to Redis, which may still owe replies
    CLOSED: nothing more comes from Redis
    """

    CONNECTING = 0
    OPEN = 1
    HOLDING = 2
    WAITING = 3
    FINISHING = 4
    CLOSED = 5


CONNECTING: Final = Phase.CONNECTING
OPEN: Final = Phase.OPEN
HOLDING: Final = Phase.HOLDING
WAITING: Final = Phase.WAITING
FINISHING: Final = Phase.FINISHING
CLOSED: Final = Phase.CLOSED
_KEEPING: Final = (CONNECTING, HOLDING, WAITING)
# What keeps a client from ending, in words for the log.
_UNFINISHED: Final = {
    CONNECTING: "not connected yet",
    WAITING: "waiting",
    FINISHING: "owed replies",
    CLOSED: "not yet closed by the client",
}


class Client(asyncio.Protocol):
    """A client's socket. Stops reading while a request is held, or Redis does not keep up."""

    activity: Activity | None = None

    def __init__(self, server: Host, source: str) -> None:
        """`source`: the address from a PROXY header; empty without one."""
        self._server = server
        self._source = source
        self._link = server.link
        self._serving = server.link.serving
        self._registry = server.link.context.registry
        self._session: Session | None = None
        self._backend: Backend | None = None
        self._task: asyncio.Task[None] | None = None
        self._lease: BlockingLease | None = None
        self._linger: asyncio.TimerHandle | None = None
        self._phase = CONNECTING
        self._early = b""  # bytes that came in and are kept
        self._held_back = b""  # requests held on their way to Redis
        self._drained: asyncio.Future[None] | None = None  # done when Redis keeps up again
        self._has_ended = False  # the client sends no more
        self._full = False  # Redis does not keep up
        self._why = ""  # why it ends, a key of Counters.gone, once that is known

    def __repr__(self) -> str:
        return f"<Client {self._phase.name}>"

    # From the event loop.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(HIGH, LOW)
        server = self._server
        write = server.write_batch.writer(self._transport, server.counters.to_clients)
        self.write = self._noting(write, awaits=False)
        server.clients.add(self)
        server.counters.accepted += 1
        server.counters.clients = len(server.clients)
        self.client_log = ClientLog(server.counters.accepted, transport, self._source)
        self._start(self._connect(), "connect")

    def data_received(self, data: bytes) -> None:
        if self._registry.expecting:
            self._link.announcements.receive()  # may find them lost: then nothing is served
        if self._phase is not OPEN or not self._serving.now:
            self._keep(data)
        elif self._passes(data):
            self._to_redis(data)
        else:
            self._take(data)

    def eof_received(self) -> bool:
        """The client sends no more, and may still be owed replies. Some loops say so again."""
        had_ended, self._has_ended = self._has_ended, True
        self._server.write_batch.flush()
        if self._phase is CLOSED or (self._phase is CONNECTING and not self._early):
            return False  # nothing is owed, and nobody need connect
        session, backend = self._session, self._backend
        waits = self._phase is WAITING and not had_ended  # if it had, `_wait` lets it wait no time
        if waits and self._task is not None and backend is not None:
            self._enter(FINISHING)
            self._task.cancel()
            backend.cut()  # as without a proxy
        elif self._phase in _KEEPING or session is None or backend is None:
            pass  # handled after what came in before
        elif not backend.is_cut:
            self._finish_at_eof(session, backend)
        return True

    def _finish_at_eof(self, session: Session, backend: Backend) -> None:
        if session.streams:  # a QUIT would be taken for the rest of the value
            self._linger = asyncio.get_running_loop().call_later(_GRACE_S, backend.cut)
        elif session.behind_blocking or session.relays:
            self._enter(FINISHING)
            backend.cut()  # as without a proxy: a blocked client is gone at once
        else:
            self._finish(session, backend)

    def connection_lost(self, exc: Exception | None) -> None:
        self._server.write_batch.flush()
        if self._task is not None:
            self._task.cancel()
        if self._linger is not None:
            self._linger.cancel()
        if self._backend is not None:
            self._backend.close()
        if self._session is not None:
            self._session.owner.end()
        self._ends_because("client")
        self.client_log.closed(self._why)
        self._server.counters.gone[self._why] += 1
        self._server.forget(self)
        # Without this cycle of references its memory is free now, not when the collector comes.
        self._backend = self._task = None

    def pause_writing(self) -> None:
        self._server.slow_clients.keeps(self)
        if self._backend is not None:
            self._backend.pause(True)

    def resume_writing(self) -> None:
        if self._backend is not None:
            self._backend.pause(False)

    # From Redis's side.

    def end(self) -> None:
        """Redis has closed: what is buffered goes out, then the client's side is closed."""
        if self._phase is CLOSED:
            return
        self._server.write_batch.flush()
        asked = self._has_ended or (self._session is not None and self._session.quit)
        self._ends_because("client" if asked else "redis")
        self._full = False
        if self._task is not None:
            self._task.cancel()
        self._enter(CLOSED)
        if self._transport.is_closing():
            return
        if self._has_ended:
            self._transport.close()
        elif half_close(self._transport):
            # Closing with unread input would be a reset, which may take replies with it.
            self._read()
            self._close_later()
        self._server.slow_clients.keeps(self)  # until it has taken what is left

    def full(self, is_full: bool) -> None:
        """Redis does not keep up, or keeps up again."""
        self._full = is_full
        if is_full:
            self._server.slow_clients.keeps(self)
        elif self._drained is not None and not self._drained.done():
            self._drained.set_result(None)
        self._read()

    # From the server.

    def end_at_boundary(self) -> None:
        """Ends as soon as nothing is half done, after the replies that are owed."""
        if self._lease is not None:
            self._lease.end()
        session, backend = self._session, self._backend
        if session is None or backend is None:
            if self._phase is CONNECTING and not self._serving.now:
                self._refuse(ConnectionError("the proxy is shutting down"))
        elif self._phase is OPEN and not session.unfinished:
            self._ends_because("drained")
            self._finish(session, backend)

    @property
    def unfinished(self) -> str:
        """What keeps it from ending, in words for the log."""
        session = self._session
        if session is None or self._phase in (WAITING, CLOSED):
            return _UNFINISHED[self._phase]
        if self._phase is FINISHING:
            return "blocked" if session.behind_blocking else _UNFINISHED[FINISHING]
        return session.unfinished or "held"

    def leave(self) -> None:
        """Its server is not served any more: what that has sent goes on, then it ends."""
        if self._phase not in (CONNECTING, CLOSED):  # `_connect` looks at the first
            self._depart()

    def _depart(self) -> None:
        self._ends_because("moved")
        self._enter(FINISHING)
        if self._task is not None:
            self._task.cancel()  # held requests must go to no server
        if self._backend is not None:
            self._backend.cut()
        self._leave_later()

    def _leave_later(self, looks: int = _LOOKS) -> None:
        """A server that cannot be reached does not close; one that still sends replies will."""
        asyncio.get_running_loop().call_later(_LOOK_S, self._look, self._received, looks - 1)

    def _look(self, received: int, looks: int) -> None:
        """`received`: how many bytes had come from Redis at the last look; `looks`: how many are
        left if no more have come."""
        has_more = self.unread or self._received > received
        if self._transport.is_closing() or not (has_more or looks):
            if self._backend is not None:
                self._backend.abort()  # it may still answer
            self.end()
        else:
            self._leave_later(_LOOKS if has_more else looks)

    @property
    def _received(self) -> int:
        """Bytes that have come from Redis, whether read or not."""
        return self._backend.received if self._backend is not None else 0

    # From the check for slow clients.

    @property
    def idles(self) -> bool:
        """Whether it is idle. Subscribed, monitoring or blocked clients are never idle."""
        session, activity = self._session, self.activity
        if session is None or activity is None or self._phase in _KEEPING:
            return False
        if self._full or self.unread:
            return False
        if session.behind_blocking or session.listens or session.replicates:
            return False
        return session.streams or not activity.awaits

    @property
    def unread(self) -> int:
        return self._transport.get_write_buffer_size()

    @property
    def buffered(self) -> int:
        to_redis = self._backend.unsent if self._backend is not None else 0
        kept = self._session.kept if self._session is not None else 0
        return self.unread + to_redis + kept + len(self._early) + len(self._held_back)

    def abort(self, why: str) -> None:
        """Ends the connection at once: the bytes kept for it are free when this returns."""
        self._ends_because(why)
        self._early = self._held_back = b""
        if self._session is not None:
            self._session.drop()
        if self._task is not None:
            self._task.cancel()
        if self._backend is not None:
            self._backend.abort()
        self._transport.abort()
        self._enter(FINISHING)

    # Inside.

    async def _connect(self) -> None:
        link, context = self._link, self._link.context
        try:
            self._backend, term = await self._found()
        except OSError as trouble:
            self._task = None
            self._refuse(trouble)
            return
        if term != link.server.term:
            self._task = None
            self._depart()  # its server may not be served any more
            return
        self._to_redis = self._noting(self._backend.write, awaits=True)
        self._session = Session(
            context.router,
            context.script_calls,
            context.registry,
            context.rights,
            context.clock.now_ms,
            self._server.settings.max_request_bytes,
            self._server.counters.requests,
            self._backend.has_settled,
        )
        if self._session.stranger:
            self._backend.count_lines()
        self._passes = self._session.passes
        self._go_on()

    async def _found(self) -> tuple[Backend, int]:
        """Connects to Redis once the link serves; returns the connection, and the link's term then.

        Waits for up to hold_max, as a request does. Raises OSError.

        Redis may have gone just now, and the link may not have noticed: then it tries again, too.
        """
        loop, link = asyncio.get_running_loop(), self._link
        until_s, failures = loop.time() + self._server.settings.hold_max, 0
        while True:
            try:
                async with asyncio.timeout_at(until_s):
                    await asyncio.sleep(_AGAIN.compute(failures) if failures else 0)
                    await link.serving.ready.wait()
            except TimeoutError:
                raise ConnectionError(f"Redis is unavailable: {link.trouble}") from None
            term = link.server.term
            try:
                return await self._server.connect(self), term
            except ConnectionError:
                failures += 1

    def _refuse(self, trouble: OSError) -> None:
        """There will be no connection to Redis: answers an error, and ends."""
        self.client_log.refused(trouble)
        self._server.counters.refused += 1
        self._ends_because("refused")
        self.write(REFUSED)
        self.end()

    def _take(self, data: bytes) -> None:
        """Handles a chunk that cannot just pass."""
        session, backend = self._session, self._backend
        assert session is not None
        assert backend is not None
        step = session.from_client(data)
        self._early = step.withheld + self._early
        if session.kept > LOW or len(self._early) > LOW:
            self._server.slow_clients.keeps(self)
        let_in = None if step.login is None else backend.lets_in(step.login)
        # Coroutines that follow do not hold the bytes, so that `abort` frees them.
        out, step = step.to_redis, step._replace(to_redis=b"", withheld=b"")
        if step.must_reap or len(out) > HIGH:
            self._held_back = out
            if len(out) > LOW:
                self._server.slow_clients.keeps(self)
            self._hold(self._carry_out(step, let_in), "reap" if step.must_reap else "send")
            return
        if step.pauses:
            self._hold(self._after(step, let_in), "after a step")
        if out:
            self._to_redis(out)
        self._sent(session, step)

    async def _carry_out(self, step: Step, let_in: asyncio.Future[bool] | None) -> None:
        """Reaps and sweeps what the step needs, then sends what is held back.

        Redis gets it in pieces: a transport could not be made to forget it at once.
        """
        session = self._session
        assert session is not None
        if step.must_reap:
            self._server.counters.held += 1
            places, databases, unswept = step.reap_places, step.reap_databases, step.sweep_before
            await self._link.holds.until_reaped(places, databases, unswept, not step.modifies)
        at = 0
        while at < len(self._held_back):
            self._to_redis(self._held_back[at : at + HIGH])
            at += HIGH
            if self._full:
                self._drained = asyncio.get_running_loop().create_future()
                await self._drained
        self._held_back = b""
        self._sent(session, step)
        await self._after(step, let_in)

    async def _after(self, step: Step, let_in: asyncio.Future[bool] | None) -> None:
        """Requests have gone to Redis: ends the hold when what they need has come."""
        session, backend = self._session, self._backend
        assert session is not None
        assert backend is not None
        if step.owed is not None:
            await backend.has_replied(step.owed)
            session.has_replies(step.owed)
        if let_in is not None and await let_in:
            session.logged_in()
        if step.look:
            await self._link.confirmations.confirm()
        if step.wait is not None:
            await self._wait(session, backend, step.wait)
        self._go_on()

    async def _wait(self, session: Session, backend: Backend, wait: Wait) -> None:
        """A request waits for an item."""
        ask = backend.is_answered
        self._lease = BlockingLease(session, wait, self._link.list_waiters, self._to_redis, ask)
        if self._server.draining or self._has_ended:
            self._lease.end()
        self._enter(WAITING)
        self._read()
        try:
            await self._lease.run()
        finally:
            self._lease = None

    async def _resume(self) -> None:
        """Handles what came in once the link is there again."""
        async with asyncio.timeout(self._server.settings.hold_max):
            await self._serving.ready.wait()
        self._go_on()

    def _hold(self, coroutine: Coroutine[None, None, None], why: str) -> None:
        self._enter(HOLDING)
        self._read()
        self._server.counters.holding += 1
        self._start(coroutine, why).add_done_callback(self._held)

    def _held(self, task: asyncio.Task[None]) -> None:
        self._server.counters.holding -= 1

    def _start(self, coroutine: Coroutine[None, None, None], why: str) -> asyncio.Task[None]:
        self._task = asyncio.create_task(coroutine, name=f"client: {why}")
        self._task.add_done_callback(self._stopped)
        return self._task

    def _stopped(self, task: asyncio.Task[None]) -> None:
        if task.cancelled() or (trouble := task.exception()) is None:
            return
        self.client_log.failed(trouble)
        self.abort("held" if isinstance(trouble, TimeoutError | ReapRefused) else "error")

    def _noting(self, take: Callable[[bytes], None], *, awaits: bool) -> Callable[[bytes], None]:
        return take if self.activity is None else self.activity.noting(take, awaits=awaits)

    def _ends_because(self, why: str) -> None:
        """The first reason is the one that counts."""
        self._why = self._why or why

    def _go_on(self) -> None:
        """Nothing is held any more: handles what came in meanwhile."""
        self._task = None
        self._enter(OPEN)
        if self._early:
            early, self._early = self._early, b""
            self.data_received(early)
        if self._has_ended and self._phase not in _KEEPING:
            self.eof_received()
        if self._server.draining:
            self.end_at_boundary()
        self._read()

    def _keep(self, data: bytes) -> None:
        """Handles bytes that cannot go on now, or cannot go on at all."""
        session = self._session
        if self._phase in _KEEPING:
            self._early += data
            if len(self._early) > LOW:
                self._server.slow_clients.keeps(self)
            self._read()
        elif self._phase is not OPEN or session is None:
            return  # nobody is left to answer it
        elif session.before_login:
            self._take(data)  # Redis alone decides what becomes of that
        elif session.needs_nothing(data):
            self._to_redis(data)
        else:
            self._early += data
            self._hold(self._resume(), "wait for the link")

    def _sent(self, session: Session, step: Step) -> None:
        """Requests have gone to Redis: does what follows at once."""
        if session.over:
            self._enter(FINISHING)  # Redis would not read more, and would reset the connection
        if step.sweep_after:
            places = self._registry.places
            self._link.context.sweep_later(
                place for key in step.sweep_after for place in places(key)
            )
        if self._server.draining:
            self.end_at_boundary()

    def _finish(self, session: Session, backend: Backend) -> None:
        """No more requests: Redis must answer what it has, and then close."""
        self._enter(FINISHING)
        if session.silent:
            backend.cut()  # Redis closes after its reply to QUIT, which it never sends here
        elif request := session.finish():
            backend.finish(request)

    def _enter(self, phase: Phase) -> None:
        """The one place that changes the phase."""
        if phase > self._phase or self._phase < FINISHING:
            self._phase = phase

    def _read(self) -> None:
        """Reads, or stops reading, depending on the state."""
        if self._transport.is_closing():
            return
        # The end of a client that waits, or has no connection yet, must be seen at once.
        listens = self._phase is not HOLDING and len(self._early) < HIGH
        if (self._phase in _KEEPING and not listens) or self._full:
            self._transport.pause_reading()
        else:
            self._transport.resume_reading()

    def _close_later(self) -> None:
        loop = asyncio.get_running_loop()
        self._linger = loop.call_later(_LINGER_S, self._close)

    def _close(self) -> None:
        if self._transport.get_write_buffer_size():
            self._close_later()
        else:
            self._transport.close()


class TimedClient(Client):
    """A client that is closed once it is idle for too long: notes when bytes move."""

    def __init__(self, server: Host, source: str, activity: Activity) -> None:
        super().__init__(server, source)
        self.activity = activity

    def data_received(self, data: bytes) -> None:
        assert self.activity is not None
        self.activity.note(awaits=False)
        super().data_received(data)
