"""A client that shares a connection to Redis with others until it needs one of its own.

Only whole requests that may go there do (`Session.shares`), in chunks of which the session gets no
other ones. So nothing is half done when the client leaves, with the first request that may not: it
waits for its last reply, and connects.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Protocol

from ttlproxy.proxy.client import Client, Host, TimedClient
from ttlproxy.proxy.connecting import connect
from ttlproxy.proxy.phase import KEEPING, OPEN
from ttlproxy.proxy.redis_connection import Backend
from ttlproxy.proxy.sharing.seat import Seat
from ttlproxy.proxy.sharing.shared_connection import OK
from ttlproxy.proxy.slow_clients import Activity
from ttlproxy.session import Session, shareable
from ttlproxy.wire import encode

# A client that has so many bytes of replies to take gets a connection of its own, where Redis waits
# for it.
_MOST_UNREAD = 1024 * 1024
# The logins that may be repeated on another connection.
_LOGINS = (b"AUTH", b"auth")
# So often may it say what it is called.
_MOST_INTRODUCED = 16


class SharingHost(Host, Protocol):
    """The server that has accepted the client."""

    async def connect_alone(self, client: Client) -> Backend:
        """A connection to Redis for this client. Raises OSError, also for TLS and time-outs."""

    async def seat(self, client: SharingClient, login: bytes) -> Seat:
        """A place on a connection of those who have logged in like this. Raises OSError, also if
        Redis refuses the login now."""


class SharingClient(Client):
    """
    seat: its place on a shared connection; None once it has left it
    """

    _server: SharingHost

    def __init__(self, server: SharingHost, source: str) -> None:
        super().__init__(server, source)
        self.seat: Seat | None = None
        self._rest = b""  # an incomplete request, which waits for its end
        self._login = b""  # the request that has let it in, or may do so
        self._introductions: list[bytes] = []  # requests that say what it is called
        self._must_leave = False  # with its next request

    # From the event loop.

    def data_received(self, data: bytes) -> None:
        seat, session = self.seat, self._session
        if seat is None or session is None:
            if self._login and self._phase is OPEN and session is not None:
                self._may_join(session, data)
            else:
                super().data_received(data)
            return
        if self._context.registry.expecting:
            self._link.announcements.receive()  # may find them lost: then nothing is served
        if self._phase is not OPEN:
            self._keep(data)
            return
        if self._rest:
            data, self._rest = self._rest + data, b""
        requests = None if self._must_leave else session.shares(data)
        if requests is None:
            self._introduce(data)
        else:
            self._ride(seat, session, data, requests)

    def _ride(self, seat: Seat, session: Session, data: bytes, requests: list[list[bytes]]) -> None:
        seat.count = len(requests)
        if not self._serving.now:
            self._keep(data)
        elif session.passes_read(data, requests):
            self.to_redis(data)
        else:
            self._take(data)

    def _logs_in(self, data: bytes, behind: bytes) -> None:
        requests = shareable.read(data.removesuffix(behind), _LOGINS)
        self._login = encode(tuple(requests[-1])) if requests else b""

    def _may_join(self, session: Session, data: bytes) -> None:
        """Handles the first chunk behind a login: now or never it begins to share."""
        if session.shares(data) is None and session.shares_introducing(data) is None:
            if not session.stranger:
                self._login = b""
            super().data_received(data)
            return
        self._early = data + self._early
        self._hold(self._join, "shared connection")

    async def _join(self) -> None:
        """Ends when it shares a connection, or will never do so."""
        server, session, own = self._server, self._session, self._backend
        assert session is not None
        assert isinstance(own, Backend)
        try:
            async with asyncio.timeout(server.settings.connect_timeout):
                seat = await server.seat(self, self._login)
        except (OSError, TimeoutError):
            self._login = b""
            return
        self.seat = self._backend = seat
        own.watch_no_more()
        self.send_by(seat.write)
        session.owner.has_settled = seat.has_settled
        own.leave()

    def _introduce(self, data: bytes) -> None:
        """Handles a chunk that may say what the client is called: its own connection is to know."""
        seat, session = self.seat, self._session
        assert seat is not None
        assert session is not None
        found = None if self._must_leave else session.shares_introducing(data)
        if found is None or len(self._introductions) + len(found.introductions) > _MOST_INTRODUCED:
            self._cut(data)
            return
        self._introductions += [encode(tuple(args)) for args in found.introductions]
        self._ride(seat, session, data, found.requests)

    def _cut(self, data: bytes) -> None:
        """Handles a chunk that ends within a request, or has one that may not be shared."""
        session = self._session
        assert session is not None
        part = None if self._must_leave else session.shares_part(data)
        if part is None:
            self._leave(data)
            return
        if part.requests:
            self.data_received(data[: -len(part.rest)])
        if self._phase is OPEN:
            self._rest = part.rest
        elif self._phase in KEEPING:
            self._early += part.rest
        if part.requests and self._server.draining:
            self.end_at_boundary()

    def _gone(self) -> None:
        super()._gone()
        self.seat = None

    @property
    def watchable(self) -> Seat | None:
        return self.seat

    # From the seat.

    def reads_slowly(self) -> None:
        """It gets more replies, and has not taken all of the last ones."""
        self._server.slow_clients.keeps(self)
        self._must_leave = self._must_leave or self.unread > _MOST_UNREAD

    # From the server, and from the check for slow clients.

    def end_at_boundary(self) -> None:
        if not self._rest:
            super().end_at_boundary()

    @property
    def unfinished(self) -> str:
        return "in a request" if self._rest else super().unfinished

    @property
    def buffered(self) -> int:
        return super().buffered + len(self._rest)

    def abort(self, why: str) -> None:
        self._rest = b""
        super().abort(why)

    # Inside.

    def _leave(self, data: bytes) -> None:
        """Handles a chunk with a connection of its own."""
        self._early = data + self._early
        self._hold(self._change_over, "change of connection")

    async def _change_over(self) -> None:
        """Ends when it has a connection of its own, or will never have one."""
        seat, session, link, server = self.seat, self._session, self._link, self._server
        assert seat is not None
        assert session is not None
        await seat.settled()
        attempt = partial(server.connect_alone, self)
        try:
            own, _ = await connect(link, attempt, server.settings.hold_max)
        except OSError as trouble:
            self._task = None
            self._refuse(trouble)
            return
        seat.close()
        self.seat = None
        self._backend = own
        first = [self._login] if self._login else []
        self._login = b""
        replies = await own.pings([*first, *self._introductions])
        if first and replies[:1] != [OK]:
            self._task = None
            self._refuse(ConnectionError("Redis refuses the login of this client now"))
            return
        self.send_by(own.write)
        session.owner.has_settled = own.has_settled
        own.pause(seat.is_slow)
        if session.stranger:
            own.count_lines()


class TimedSharingClient(TimedClient, SharingClient):
    """The same, closed once it is idle for too long."""

    _server: SharingHost

    def __init__(self, server: SharingHost, source: str, activity: Activity) -> None:
        TimedClient.__init__(self, server, source, activity)
