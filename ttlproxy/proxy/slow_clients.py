"""Ends clients that do nothing or take nothing, and limits the bytes kept for all of them.

Looks once a second. A chunk that passes costs nothing, unless idle clients are to be closed.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection
from typing import Final, NamedTuple, ParamSpec, Protocol

from ttlproxy.config import Settings
from ttlproxy.net.allocator import trim
from ttlproxy.proxy.client_log import ClientLog

_LOOK_S: Final = 1.0
# Looks for idle clients within `timeout`.
_LOOKS: Final = 20

# Memory is given back to the system once _WORTH bytes are freed, but not at each look: that takes
# some 0.1 ms for each MB that the process has.
_WORTH: Final = 8 << 20
_LOOKS_BETWEEN: Final = 10

P = ParamSpec("P")


class Activity:
    """A client's activity, noted if idle clients are to be closed.

    awaits: the last bytes were its own, so that Redis may owe it a reply
    """

    __slots__ = ("_since_s", "awaits", "moved")

    def __init__(self, now_s: float) -> None:
        self._since_s = now_s
        self.moved = False
        self.awaits = False

    def note(self, *, awaits: bool) -> None:
        """Bytes have moved."""
        self.moved, self.awaits = True, awaits

    def noting(self, take: Callable[P, None], *, awaits: bool) -> Callable[P, None]:
        """`take`, which gets the bytes of one direction, with a note of each call."""

        def noted(*args: P.args, **kwargs: P.kwargs) -> None:
            self.note(awaits=awaits)
            take(*args, **kwargs)

        return noted

    def idle_s(self, now_s: float) -> float:
        """Seconds in which nothing has moved, as far as calls of this could see."""
        if self.moved:
            self.moved, self._since_s = False, now_s
        return now_s - self._since_s


class Watched(Protocol):
    """A client, as it is seen here."""

    activity: Activity | None
    client_log: ClientLog

    @property
    def idles(self) -> bool:
        """Whether it waits for nothing."""

    @property
    def unread(self) -> int:
        """Bytes that it has not taken."""

    @property
    def kept_replies(self) -> int:
        """Bytes that are kept for it on their way to it."""

    @property
    def buffered(self) -> int:
        """Bytes that are kept for it, in both directions."""

    def abort(self, why: str) -> None:
        """Ends the connection at once."""


class _Load(NamedTuple):
    """The bytes kept for a client.

    kept: bytes in both directions; unread: those that it has not taken; since_s: since when
    """

    kept: int
    unread: int
    since_s: float


class SlowClients:
    """Ends the connections of clients that cost more than the settings allow.

    buffered: bytes kept at the last look, by where they are to go, "clients" and "redis"; replaced,
    never changed. Clients that keep up are not counted
    """

    def __init__(self, settings: Settings, clients: Collection[Watched]) -> None:
        self._settings = settings
        self._clients = clients
        self._slow: dict[Watched, _Load] = {}
        self._kept = 0  # for all of these, as last counted
        self._most_kept = 0  # since memory was last given back
        self.buffered = {"clients": 0, "redis": 0}

    def activity(self) -> Activity | None:
        """The activity of a new client; None if idle clients are not closed."""
        return Activity(asyncio.get_running_loop().time()) if self._settings.timeout else None

    def keeps(self, client: Watched) -> None:
        """More is kept for a client than usual, and more than at the last call."""
        if not client.buffered:
            return
        self._count(client, asyncio.get_running_loop().time())
        limit = self._settings.max_buffer_bytes
        if limit and self._kept > limit:
            self._relieve(limit)

    def forget(self, client: Watched) -> None:
        """The client has gone."""
        load = self._slow.pop(client, None)
        if load is not None:
            self._kept -= load.kept

    async def run(self) -> None:
        """Looks until cancelled."""
        looks, every = 0, max(self._settings.timeout // _LOOKS, 1)
        while True:
            await asyncio.sleep(_LOOK_S)
            self._end_stalled()
            if looks % _LOOKS_BETWEEN == 0:
                self._give_back()
            looks += 1
            if self._settings.timeout and looks % every == 0:
                self._end_idle()

    def _end_idle(self) -> None:
        now_s, limit_s = asyncio.get_running_loop().time(), self._settings.timeout
        for client in list(self._clients):
            activity = client.activity
            if activity is not None and activity.idle_s(now_s) > limit_s and client.idles:
                client.client_log.often(logging.INFO, f"closed: idle for {limit_s} s")
                client.abort("idle")

    def _end_stalled(self) -> None:
        now_s, limit_s = asyncio.get_running_loop().time(), self._settings.stall_timeout
        replies = in_all = 0
        for client, load in list(self._slow.items()):
            unread, kept = client.unread, client.buffered
            replies, in_all = replies + client.kept_replies, in_all + kept
            if not kept:
                self.forget(client)
            elif unread < load.unread or not unread:
                self._count(client, now_s)
            elif limit_s and now_s - load.since_s > limit_s:
                words = f"closed: it has not read its replies for {limit_s} s"
                client.client_log.often(logging.WARNING, words, f", {unread} bytes are waiting")
                client.abort("stalled")
        self.buffered = {"clients": replies, "redis": in_all - replies}

    def _give_back(self) -> None:
        if self._most_kept - self._kept > _WORTH:
            trim()
        self._most_kept = self._kept

    def _count(self, client: Watched, since_s: float) -> None:
        self.forget(client)
        load = self._slow[client] = _Load(client.buffered, client.unread, since_s)
        self._kept += load.kept
        self._most_kept = max(self._most_kept, self._kept)

    def _relieve(self, limit: int) -> None:
        """Ends clients that have most, until the others together are within the limit."""
        for client, load in list(self._slow.items()):
            self._count(client, load.since_s)
        for client in sorted(self._slow, key=lambda each: -self._slow[each].kept):
            if self._kept <= limit:
                return
            more = f": {self._slow[client].kept} bytes for it, {self._kept} for all clients"
            client.client_log.often(logging.WARNING, "closed: over max_buffer_bytes", more)
            self.forget(client)
            client.abort("buffers")
