"""What is looked at once a second: clients that do nothing, those that take nothing, and how much
is kept for all of them. Costs nothing while a chunk passes, unless idle clients are to be closed.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection
from typing import Final, Protocol

from ttlproxy.config import Settings
from ttlproxy.journal import Journal

_LOOK_S: Final = 1.0
# So often is looked for idle clients while one of them is about to become too old.
_LOOKS: Final = 20
# How much more may be kept for a client when it is looked at again: as much again, at most.
_GROWTH: Final = 2

Take = Callable[[bytes], None]


class Activity:
    """What a client does, noted where idle clients are to be closed.

    awaits: the last bytes were its own, so that Redis may owe it a reply
    """

    __slots__ = ("_since_s", "awaits", "moved")

    def __init__(self, now_s: float) -> None:
        self._since_s = now_s
        self.moved = False
        self.awaits = False

    def noting(self, take: Take, *, awaits: bool) -> Take:
        """`take`, which carries the bytes of one direction."""

        def noted(data: bytes) -> None:
            self.moved, self.awaits = True, awaits
            take(data)

        return noted

    def idle_s(self, now_s: float) -> float:
        """For how long nothing has moved, as far as has been looked."""
        if self.moved:
            self.moved, self._since_s = False, now_s
        return now_s - self._since_s


class Watched(Protocol):
    """A client, as it is seen here."""

    activity: Activity | None
    journal: Journal

    @property
    def idles(self) -> bool:
        """Whether it waits for nothing."""

    @property
    def unread(self) -> int:
        """Bytes that it has not taken."""

    @property
    def buffered(self) -> int:
        """Bytes that are kept for it, in both directions."""

    def abort(self, why: str) -> None:
        """Ends the connection at once."""


class Watch:
    """Ends the connections of clients that cost more than the settings allow."""

    def __init__(self, settings: Settings, clients: Collection[Watched]) -> None:
        self._settings = settings
        self._clients = clients
        # Those for whom bytes are kept: how many they have not taken, and since when.
        self._laden: dict[Watched, tuple[int, float]] = {}
        # What is kept for each of them at most, and for all: what changes for one must not cost a
        # look at all the others, who may be thousands.
        self._most: dict[Watched, int] = {}
        self._most_of_all = 0

    def activity(self) -> Activity | None:
        """Of a new client; None where it does not matter."""
        return Activity(asyncio.get_running_loop().time()) if self._settings.timeout else None

    def keeps(self, client: Watched) -> None:
        """More is kept for a client than is usual."""
        if not client.buffered:
            return
        self._laden[client] = client.unread, asyncio.get_running_loop().time()
        self._count(client, client.buffered)
        if 0 < self._settings.max_buffer_bytes < self._most_of_all:
            self._relieve()

    def forget(self, client: Watched) -> None:
        """The client has gone, or nothing is kept for it any more."""
        if self._laden.pop(client, None):
            self._most_of_all -= self._most.pop(client)

    def _count(self, client: Watched, buffered: int) -> None:
        most = buffered * _GROWTH
        self._most_of_all += most - self._most.get(client, 0)
        self._most[client] = most

    async def run(self) -> None:
        """Looks until cancelled."""
        looks, every = 0, max(self._settings.timeout // _LOOKS, 1)
        while True:
            await asyncio.sleep(_LOOK_S)
            self._end_stalled()
            looks += 1
            if self._settings.timeout and looks % every == 0:
                self._end_idle()

    def _end_idle(self) -> None:
        now_s, limit_s = asyncio.get_running_loop().time(), self._settings.timeout
        for client in list(self._clients):
            activity = client.activity
            if activity is not None and activity.idle_s(now_s) > limit_s and client.idles:
                client.journal.often(logging.INFO, f"closed: idle for {limit_s} s")
                client.abort("idle")

    def _end_stalled(self) -> None:
        now_s, limit_s = asyncio.get_running_loop().time(), self._settings.stall_timeout
        for client, (before, since_s) in list(self._laden.items()):
            unread = client.unread
            if not client.buffered:
                self.forget(client)
            elif unread < before or not unread:
                self._laden[client] = unread, now_s
            elif limit_s and now_s - since_s > limit_s:
                words = f"closed: it has taken nothing for {limit_s} s"
                client.journal.often(logging.WARNING, words, f", and {unread} bytes wait")
                client.abort("stalled")

    def _relieve(self) -> None:
        """Ends who has most, where all of them together have too much."""
        kept = {client: client.buffered for client in self._laden}
        for client, buffered in kept.items():
            self._count(client, buffered)
        if (total := sum(kept.values())) > self._settings.max_buffer_bytes:
            client = max(kept, key=kept.__getitem__)
            more = f": {kept[client]} bytes for it, and {total} for all clients"
            client.journal.often(logging.WARNING, "closed: too much is kept", more)
            self.forget(client)
            client.abort("buffers")
