"""A client's socket, in front of any Redis: its buffers, its task, its end, and why that comes."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, TypeVar, cast

from ttlproxy.core.cluster_view import Reached
from ttlproxy.errors import ReapRefused, not_connected
from ttlproxy.link import Link
from ttlproxy.proxy.client_log import ClientLog
from ttlproxy.proxy.ending import Ending, LingeringClose
from ttlproxy.proxy.redis_connection import HIGH, LOW, half_close
from ttlproxy.proxy.slow_clients import Activity, P
from ttlproxy.session import Session

if TYPE_CHECKING:
    from ttlproxy.proxy.client_server import ClientServer

S = TypeVar("S", bound=Session)


class ClientSocket(asyncio.Protocol, ABC):
    """
    activity: noted if idle clients are closed
    is_stopped: it is not read
    """

    def __init__(self, server: ClientServer[Any], source: str, activity: Activity | None) -> None:
        """`source`: the address from a PROXY header; empty without one."""
        self.activity = activity
        self.is_stopped = False
        self._server = server
        self._source = source
        self._task: asyncio.Task[None] | None = None
        self._ending: Ending | None = None
        self._early = b""  # bytes that came in and are kept
        self._has_ended = False  # the client sends no more
        self._why = ""  # why it ends, a key of Counters.gone, once that is known

    # The event loop calls these.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(HIGH, LOW)
        server = self._server
        server.clients.add(self)
        server.counters.accepted += 1
        server.counters.clients = len(server.clients)
        self.client_log = ClientLog(server.counters.accepted, transport, self._source)
        self._begins()

    def eof_received(self) -> bool:
        return self._server.staggered.at_eof(self._ends, self._transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self._server.write_batch.flush()
        self._cancel()
        if self._ending is not None:
            self._ending.cancel()
        self._lost()
        if self._server.staggered.put_off(self._gone):
            self._ignore()
        else:
            self._gone()

    def pause_writing(self) -> None:
        self._server.slow_clients.keeps(self)
        self._pause(True)

    def resume_writing(self) -> None:
        self._pause(False)

    # The check for slow clients calls these.

    @property
    def unread(self) -> int:
        """Bytes that it has not taken."""
        return self._transport.get_write_buffer_size()

    @property
    def kept_replies(self) -> int:
        """Bytes that are kept for it on their way to it."""
        return self.unread

    @property
    @abstractmethod
    def idles(self) -> bool:
        """Whether it is idle. Subscribed, monitoring or blocked clients are never idle."""

    @property
    @abstractmethod
    def buffered(self) -> int:
        """Bytes that are kept for it, in both directions."""

    def abort(self, why: str) -> None:
        """Ends the connection at once: the bytes kept for it are free when this returns."""
        self.ends_because(why)
        self._early = b""
        self._cancel()
        self._abort()
        self._transport.abort()

    # What both kinds of clients do.

    def start(self, coroutine: Coroutine[None, None, None], why: str) -> asyncio.Task[None]:
        """Has it carried out; `why`: a word about it, for whoever lists tasks."""
        self._task = asyncio.create_task(coroutine, name=f"client: {why}")
        self._task.add_done_callback(self._stopped)
        return self._task

    def read(self) -> None:
        """Reads, or stops reading, depending on the state."""
        if self._transport.is_closing():
            return
        self.is_stopped = self._must_stop
        if self.is_stopped:
            self._transport.pause_reading()
        else:
            self._transport.resume_reading()

    def ends_because(self, why: str) -> None:
        """The first reason is the one that counts."""
        self._why = self._why or why

    @abstractmethod
    def say(self, reply: bytes) -> None:
        """Sends a reply of the proxy's own."""

    @abstractmethod
    def end(self) -> None:
        """No more is to come: what is buffered goes out, then the client's side is closed."""

    def refuse(self, trouble: BaseException) -> None:
        """Answers an error and ends, because there will be no connection to Redis."""
        self.client_log.refused(trouble)
        self._server.counters.refused += 1
        self.ends_because("refused")
        self.say(not_connected(trouble))
        self.end()

    # Inside.

    def _new_session(
        self, kind: type[S], link: Link, owes: Callable[[], bool], reached: Reached | None
    ) -> S:
        """A session of this kind, over what is known of the link's server."""
        context, server = link.context, self._server
        return kind(
            context.router,
            context.script_calls,
            context.registry.view((0,)),
            context.rights,
            context.clock.now_ms,
            server.settings.max_request_bytes,
            server.counters.requests,
            owes,
            reached,
        )

    def _fail(self, trouble: BaseException) -> None:
        """Ends at once, because something that a request waits for has failed."""
        self.client_log.failed(trouble)
        self.abort("held" if isinstance(trouble, TimeoutError | ReapRefused) else "error")

    def _close_writing(self) -> None:
        """Closes its side, which has all that is to come."""
        if self._transport.is_closing():
            return
        if self._has_ended:
            self._transport.close()
        elif half_close(self._transport):
            # Closing with unread input would be a reset, which may take replies with it.
            self.read()
            self._end_by(LingeringClose(self._transport))
        self._server.slow_clients.keeps(self)  # until it has taken what is left

    def _end_by(self, ending: Ending) -> None:
        if self._ending is not None:
            self._ending.cancel()
        self._ending = ending

    def _cancel(self) -> None:
        """Nothing more is done for it."""
        if self._task is not None:
            self._task.cancel()

    def _gone(self) -> None:
        self._close()
        self.ends_because("client")
        self.client_log.closed(self._why)
        self._server.counters.gone[self._why] += 1
        self._server.forget(self)
        # Without these cycles of references its memory is free now, not when the collector comes.
        self._task = self._ending = None

    def _noting(self, take: Callable[P, None], *, awaits: bool) -> Callable[P, None]:
        return take if self.activity is None else self.activity.noting(take, awaits=awaits)

    # These tell the two kinds apart.

    @abstractmethod
    def _begins(self) -> None:
        """Its socket is there."""

    @abstractmethod
    def _ends(self) -> bool:
        """The client sends no more; returns whether its connection stays open, for it may still
        be owed replies. Some loops say so again."""

    @property
    @abstractmethod
    def _must_stop(self) -> bool:
        """Whether it is to be read no further."""

    @abstractmethod
    def _pause(self, is_full: bool) -> None:
        """The client does not keep up, or keeps up again: its connections to Redis are told."""

    @abstractmethod
    def _lost(self) -> None:
        """Its socket is gone: it takes nothing more, and nothing more goes to Redis."""

    @abstractmethod
    def _ignore(self) -> None:
        """`_close` comes in a later turn of the event loop."""

    @abstractmethod
    def _close(self) -> None:
        """Closes its connections to Redis, which still gets what was sent before."""

    @abstractmethod
    def _abort(self) -> None:
        """Ends its connections to Redis at once, and keeps nothing."""

    @abstractmethod
    def _stopped(self, task: asyncio.Task[None]) -> None:
        """What was started has ended."""
