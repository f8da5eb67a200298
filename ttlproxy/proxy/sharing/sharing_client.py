"""A client that shares a connection to Redis with others until it needs one of its own.

Only whole requests that may go there do (`Session.shares`), in chunks of which the session gets no
other ones but those of its handshake. So nothing is half done when the client leaves, with the
first request that may not: it waits for its last reply, and connects. After a handshake it comes
back.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from ttlproxy.proxy.client import Client
from ttlproxy.proxy.connecting import connect
from ttlproxy.proxy.phase import KEEPING, OPEN
from ttlproxy.proxy.redis_connection import Backend, ToRedis
from ttlproxy.proxy.sharing.shared_upstream import ClientUpstream
from ttlproxy.proxy.slow_clients import Activity
from ttlproxy.session import Session, Step
from ttlproxy.session.replies import Told, all_of
from ttlproxy.session.sharing import (
    Handshake,
    first_request,
    may_all_go,
    read,
    read_cut,
    read_introducing,
)

if TYPE_CHECKING:
    from ttlproxy.proxy.server import Server

# A client that has so many bytes of replies to take gets a connection of its own, where Redis waits
# for it.
_MOST_UNREAD = 1024 * 1024


class SharingClient(Client):
    """
    shared: its place on a shared connection; None once it has left it
    """

    def __init__(self, server: Server, source: str, activity: Activity | None) -> None:
        super().__init__(server, source, activity)
        self.shared: ClientUpstream | None = None
        self._rest = b""  # an incomplete request, which waits for its end
        self._handshake = Handshake()
        self._sending: list[bytes] = []  # a request of it, on its way to its own connection
        self._chunk = b""  # that is handled
        self._is_beginning = True  # its own connection, if it has one, may be left again
        self._must_leave = False  # with its next request, for good
        self._is_slow = False  # it does not keep up

    # The event loop calls these.

    def data_received(self, data: bytes) -> None:
        shared, session = self.shared, self._session
        if shared is None or session is None:
            is_beginning = self._is_beginning and self._phase is OPEN
            if is_beginning and session is not None and not session.unauthenticated:
                self._begin(session, data)
            else:
                super().data_received(data)
            return
        if self.activity is not None:
            self.activity.note(awaits=False)
        if self._context.registry.expecting:
            self.link.announcements.receive()  # may find them lost: then nothing is served
        if self._phase is not OPEN:
            self._keep(data)
            return
        if self._rest:
            data, self._rest = self._rest + data, b""
        is_plain = self._serving.now and not self._must_leave
        if is_plain and (sent := session.at_once(data, shareable=True)):
            self._call(*sent)
            return
        requests = None if self._must_leave else session.shares(data, read)
        if requests is None:
            self._introduce(data)
        else:
            self._send_shared(session, data, requests)

    def _send_shared(self, session: Session, data: bytes, requests: list[list[bytes]]) -> None:
        if not self._serving.now:
            self._keep(data)
        elif session.passes_read(data, requests):
            self.to_redis(data, len(requests))
        else:
            self._take(data)

    # The server calls these.

    def keeps_its_own(self) -> None:
        """Gives the client a connection of its own, for good: it is unknown whether Redis lets it
        in."""
        self._stays("refused")

    # It has a connection of its own, which it may leave again.

    def _check(self, session: Session, backend: ToRedis) -> None:
        """It waits for the link, wherever it sends its requests."""

    def _take(self, data: bytes) -> None:
        self._chunk = data
        super()._take(data)

    def expects(self, step: Step) -> None:
        words, self._sending = self._sending, []
        chunk, self._chunk = self._chunk, b""
        if step.requests and self._is_beginning and self.shared is None:
            if step.awaits and step.told:  # it logs in
                found = first_request(sent := chunk.removesuffix(step.withheld))
                words = found[1] if found is not None and found[0] == sent else []
                if not words:
                    self._stays("form")
            if words:
                step = self._followed(step, words)
        super().expects(step)

    def _followed(self, step: Step, words: list[bytes]) -> Step:
        """The step, whose only request is part of the handshake."""
        tells = [each.tell for each in step.told if each.tell is not None]
        tell = self._handshake.sends(words)
        return step if tell is None else replace(step, told=[Told(0, all_of([*tells, tell]))])

    def _begin(self, session: Session, data: bytes) -> None:
        """Handles a chunk for its own connection, or the first one for a shared one."""
        found = first_request(data)
        if not self._serving.now:
            self._stay(data, "refused")
        elif self._handshake.is_over:
            self._stay(data, "command")
        elif found is not None:
            begin, self._sending = found  # alone, so that the session withholds no part of it
            super().data_received(begin)
            self._goes_on(data[len(begin) :])
        elif session.shares(data, read) is None:
            self._stay(data, "form" if session.shares(data, may_all_go) else "command")
        else:
            self._early = data + self._early
            self._hold(self._join, "shared connection")

    def _goes_on(self, rest: bytes) -> None:
        """Handles the rest of a chunk."""
        if rest and self._phase is OPEN:
            self.data_received(rest)
        elif self._phase in KEEPING:
            self._early += rest

    def _stay(self, data: bytes, why: str) -> None:
        """Handles a chunk that leaves it with its own connection for good; `why`: one of
        LEFT_SHARING."""
        self._stays(why)
        super().data_received(data)

    def _stays(self, why: str) -> None:
        self._is_beginning = False
        self._left(why)

    async def _join(self) -> None:
        """Ends when it shares a connection, or will never do so."""
        server, session, own, handshake = (
            self._server,
            self._session,
            self._backend,
            self._handshake,
        )
        assert session is not None
        assert isinstance(own, Backend)
        await own.replies.answered()
        if handshake.is_over:
            return
        try:
            async with asyncio.timeout(server.settings.connect_timeout):
                shared = await server.share(self, handshake.state)
        except (OSError, TimeoutError):
            self._stays("refused")
            return
        self.shared = self._backend = shared
        self.send_by(shared.send)
        session.in_flight = shared.replies.in_flight
        own.leave()

    def _introduce(self, data: bytes) -> None:
        """Handles a chunk that may say what the client is called: its own connection is to know."""
        session = self._session
        assert session is not None
        found = None if self._must_leave else session.shares(data, read_introducing)
        if found is None or not self._handshake.introduces(found.introductions):
            self._cut(data)
            return
        for words in found.introductions:
            session.introduces(words)
        self._send_shared(session, data, found.requests)

    def _cut(self, data: bytes) -> None:
        """Handles a chunk that ends within a request, or has one that may not be shared."""
        session = self._session
        assert session is not None
        part = None if self._must_leave else session.shares(data, read_cut)
        if part is None:
            self._leave(data)
            return
        if part.requests:
            self._send_shared(session, data[: -len(part.rest)], part.requests)
        if self._phase is OPEN:
            self._rest = part.rest
        elif self._phase in KEEPING:
            self._early += part.rest
        if part.requests and self._server.draining:
            self.end_at_boundary()

    def _gone(self) -> None:
        super()._gone()
        self.shared = None

    def _pause(self, is_full: bool) -> None:
        self._is_slow = is_full
        super()._pause(is_full)

    # The shared connection calls these.

    def reads_slowly(self) -> None:
        """Notes that the client gets more replies, and has not taken all of the last ones."""
        self._server.slow_clients.keeps(self)
        self._must_leave = self._must_leave or self.unread > _MOST_UNREAD

    # The server and the check for slow clients call these.

    def end_at_boundary(self) -> None:
        if not self._rest:
            super().end_at_boundary()

    @property
    def unfinished(self) -> str:
        return "in a request" if self._rest else super().unfinished

    @property
    def buffered(self) -> int:
        return super().buffered + len(self._rest)

    def _abort(self) -> None:
        self._rest = b""
        super()._abort()

    # Inside.

    def _left(self, why: str) -> None:
        self._server.counters.sharing.left[why] += 1

    def _leave(self, data: bytes) -> None:
        """Handles a chunk with a connection of its own; what that is may let it come back."""
        if self._must_leave:
            self._left("unread")
        elif first_request(data):
            self._left("handshake")
        self._early = data + self._early
        self._hold(self._change_over, "change of connection")

    async def _change_over(self) -> None:
        """Ends when it has a connection of its own, or will never have one."""
        shared, session, link, server = self.shared, self._session, self.link, self._server
        assert shared is not None
        assert session is not None
        await shared.replies.answered()
        attempt = partial(server.connect_alone, self)
        try:
            own, _ = await connect(link, attempt, server.settings.hold_max)
        except OSError as trouble:
            self._task = None
            self.refuse(trouble)
            return
        has_sent = shared.replies.sent > 0
        shared.close()
        self.shared = None
        self._backend = own
        self._hides_in(own)
        if not await self._is_prepared(own, has_sent):
            self._task = None
            self.refuse(ConnectionError("Redis refuses the login of this client now"))
            return
        self.send_by(own.send)
        session.in_flight = own.replies.in_flight
        own.pause(self._is_slow)
        self._is_beginning = not self._must_leave

    async def _is_prepared(self, own: Backend, has_sent: bool) -> bool:
        """Brings a new connection into the state of the shared one. `has_sent`: it has sent
        requests over that; False if Redis refuses it."""
        requests = self._handshake.state.requests
        if not (requests or has_sent):
            return True
        done = await own.accepts([*requests, *self._handshake.introductions])
        return sum(done[: len(requests)]) == len(requests)
