"""Claims keys for sessions, before they send what may announce a first deadline.

A claim is an entry of a sorted set, and a key of the claim's name that is set and deleted, so that
Redis tells all proxies which have looked the key up (core/keys.py). They look it up anew, see the
claim, and keep nothing of what they find until the script that writes has ended the claim. The
write is sent when Redis has answered the claim. So it comes in a later turn of Redis's loop, and
before that turn Redis has told the proxies (src/networking.c, handleClientsWithPendingWrites): who
learns of the write, in whatever way, finds them informed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from itertools import groupby, islice
from operator import itemgetter
from typing import Final

from ttlproxy.commands import Call
from ttlproxy.config import Settings
from ttlproxy.core.registry import Place
from ttlproxy.errors import UpstreamError
from ttlproxy.link.connecting.address_watch import AddressWatch
from ttlproxy.link.connecting.asking_socket import AskingSocket
from ttlproxy.link.connecting.pipeline import Words
from ttlproxy.link.knowledge.asked_places import AskedPlaces
from ttlproxy.link.shared.context import Context

# A claim ends by itself if its request never comes to Redis. A request that Redis carries out later
# still tells the others, but they may hear of it a moment too late.
_LASTS_MS: Final = 1000
# Keys that one script call claims: Redis serves nobody else meanwhile, for 2 us each.
_TOGETHER: Final = 200


class Claims:
    """All that sessions claim at the same moment goes in one round trip, over one connection."""

    def __init__(self, settings: Settings, context: Context, address: AddressWatch) -> None:
        self._settings = settings
        self._script_calls = context.script_calls
        self._clock = context.clock
        self._address = address
        self._connection: AskingSocket | None = None
        self._rounds = AskedPlaces(self._claim)

    def add(self, places: Iterable[Place]) -> asyncio.Future[None]:
        """Done when these places are claimed, or Redis has refused that; see AskedPlaces."""
        return self._rounds.add(places)

    def soon(self, places: Iterable[Place]) -> asyncio.Future[None]:
        """The same, but cancelled if it takes long; see AskedPlaces."""
        return self._rounds.soon(places)

    async def run(self) -> None:
        """Serves until cancelled."""
        try:
            await self._rounds.run()
        finally:
            self._lost()

    async def _claim(self, places: Iterable[Place]) -> None:
        try:
            connection = await self._opened()
            replies = await connection.ask(self._requests(places))
            if any(str(reply).startswith("NOSCRIPT") for reply in replies):
                self._script_calls.flushed()  # now the text is sent
                await connection.ask(self._requests(places))
        except (UpstreamError, OSError) as trouble:  # also TimeoutError
            self._lost()
            raise UpstreamError(f"keys cannot be claimed: {trouble}") from trouble

    def _requests(self, places: Iterable[Place]) -> list[Words]:
        now_ms = self._clock.now_ms()
        times = (b"%d" % now_ms, b"%d" % (now_ms + _LASTS_MS))
        requests: list[Words] = []
        for db, of_db in groupby(sorted(places), itemgetter(0)):
            left = iter([key for _, key in of_db])
            requests.append((b"SELECT", db))
            while some := tuple(islice(left, _TOGETHER)):
                requests.append(self._script_calls.words(Call("keys_claim", some, times), b""))
        return requests

    async def _opened(self) -> AskingSocket:
        if self._connection is None:
            connection, settings = AskingSocket(b"ttlproxy:claims", self._lost), self._settings
            try:
                await connection.open(
                    self._address.now, settings.connect_timeout, settings.tcp_keepalive
                )
            except BaseException:
                connection.close()
                raise
            self._connection = connection
        return self._connection

    def _lost(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
