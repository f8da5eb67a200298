"""Claims keys for sessions, before they send what may announce a first deadline.

A claim is an entry of a sorted set, and a key of the claim's name that is set and deleted, so that
Redis tells all proxies which have looked the key up (core/keys.py). They look it up anew, see the
claim, and keep nothing of what they find until the script that writes has ended the claim. The
write is sent when Redis has answered the claim. So it comes in a later turn of Redis's loop, and
before that turn Redis has told the proxies (src/networking.c, handleClientsWithPendingWrites): who
learns of the write, in whatever way, finds them informed.

A key that is claimed again and again is also reserved for a minute (core/reservations.py): who
looks it up may remember its first deadline, but not that it has none. So further writes need no
claim, unless their deadline is near: then others might hear too late that it is the first.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from contextlib import suppress
from itertools import chain, repeat
from typing import Final, NamedTuple

from hiredis import ReplyError

from ttlproxy.commands import Call
from ttlproxy.config import Settings
from ttlproxy.core.registry import Place
from ttlproxy.core.reservations import RESERVED_MS
from ttlproxy.errors import UpstreamError
from ttlproxy.link.connecting.address_watch import AddressWatch
from ttlproxy.link.connecting.asking_socket import AskingSocket
from ttlproxy.link.connecting.pipeline import Words
from ttlproxy.link.knowledge.asked_places import AskedPlaces, by_database
from ttlproxy.link.shared.context import Context
from ttlproxy.net.tasks import run_all
from ttlproxy.scripts.constants import VALUES

# A claim ends by itself if its request never comes to Redis. A request that Redis carries out later
# still tells the others, but they may hear of it a moment too late.
_LASTS_MS: Final = 1000
# So long reservations are gathered that are to be renewed.
_RENEWED_S: Final = 1.0
# So many old reservations are removed at a time.
_PAGE: Final = VALUES["PAGE"]
# Keys that one script call claims: Redis serves nobody else meanwhile, for 2 us each.
_TOGETHER: Final = 200


class _Part(NamedTuple):
    """Keys of one database, claimed in one script call; the reserved ones come first."""

    db: int
    reserved: Sequence[bytes]
    keys: tuple[bytes, ...]


class Claims:
    """All that sessions claim at the same moment goes in one round trip, over one connection."""

    def __init__(self, settings: Settings, context: Context, address: AddressWatch) -> None:
        self._settings = settings
        self._script_calls = context.script_calls
        self._reservations = context.script_calls.reservations
        self._clock = context.clock
        self._address = address
        self._connection: AskingSocket | None = None
        self._rounds = AskedPlaces(self._claim)
        self._databases = set[int]()  # where reservations may be old
        self._waning = asyncio.Event()
        self._reservations.on_waning = self._waning.set

    def add(self, places: Iterable[Place]) -> asyncio.Future[None]:
        """Done when these places are claimed, or Redis has refused that; see AskedPlaces."""
        return self._rounds.add(places)

    def soon(self, places: Iterable[Place]) -> asyncio.Future[None]:
        """The same, but cancelled if it takes long; see AskedPlaces."""
        return self._rounds.soon(places)

    async def run(self) -> None:
        """Serves until cancelled."""
        try:
            await run_all(self._rounds.run(), self._look_after_reservations())
        finally:
            self._lost()

    async def _claim(self, places: Iterable[Place]) -> None:
        now_ms, parts = self._clock.now_ms(), self._parts(places)
        reservations, losses = self._reservations, self._reservations.losses
        try:
            connection = await self._opened()
            replies = await connection.ask(self._requests(parts, now_ms))
            if any(str(reply).startswith("NOSCRIPT") for reply in replies):
                self._script_calls.flushed()  # now the text is sent
                replies = await connection.ask(self._requests(parts, now_ms))
        except (UpstreamError, OSError) as trouble:  # also TimeoutError
            self._lost()
            raise UpstreamError(f"keys cannot be claimed: {trouble}") from trouble
        if not any(isinstance(reply, ReplyError) for reply in replies):
            for part in parts:
                reserved = [(part.db, key) for key in part.reserved]
                reservations.made(reserved, now_ms + RESERVED_MS, losses)
                self._databases.update({part.db} if part.reserved else ())

    def _parts(self, places: Iterable[Place]) -> list[_Part]:
        is_wanted, parts = self._reservations.is_wanted, list[_Part]()
        for db, keys in by_database(places, _TOGETHER):
            reserved = [key for key in keys if is_wanted((db, key))]
            others = set(keys).difference(reserved)
            parts.append(_Part(db, reserved, (*reserved, *others)))
        return parts

    def _requests(self, parts: Iterable[_Part], now_ms: int) -> list[Words]:
        ends = [b"%d" % (now_ms + ms) for ms in (0, _LASTS_MS, RESERVED_MS)]
        requests: list[Words] = []
        for part in parts:
            requests.append((b"SELECT", part.db))
            call = Call("keys_claim", part.keys, (*ends, b"%d" % len(part.reserved)))
            requests.append(self._script_calls.words(call, b""))
        return requests

    async def _look_after_reservations(self) -> None:
        """Renews those that are used, and removes old ones when none has been for a while. Others
        hear nothing of it: for them nothing changes. Runs until cancelled."""
        while True:
            try:
                async with asyncio.timeout(RESERVED_MS / 1000):
                    await self._waning.wait()
            except TimeoutError:
                with suppress(UpstreamError):
                    await self._remove_old()
                continue
            await asyncio.sleep(_RENEWED_S)  # many together
            self._waning.clear()
            with suppress(UpstreamError):
                await self._renew()

    async def _renew(self) -> None:
        """Raises UpstreamError."""
        reservations, connection = self._reservations, self._connection
        waning, losses = reservations.take_waning(), reservations.losses
        for db, keys in by_database(waning, _TOGETHER):
            if connection is None:
                return
            until_ms = self._clock.now_ms() + RESERVED_MS
            names = self._script_calls.keys.indexes(keys)
            pairs: Iterable[bytes | int] = chain.from_iterable(zip(repeat(until_ms), names))
            # XX: one that is gone, as after a flush, is to be made anew.
            zadd = (b"ZADD", self._script_calls.keys.reserved, b"XX", b"GT", b"CH", *pairs)
            selected, changed = await connection.ask([(b"SELECT", db), zadd])
            if selected == b"OK" and changed == len(keys):
                places = [(db, key) for key in keys]
                reservations.renewed(places, until_ms, losses, self._clock.now_ms())

    async def _remove_old(self) -> None:
        """Raises UpstreamError."""
        databases, self._databases = self._databases, set()
        for db in databases:
            gone: object = _PAGE
            while self._connection is not None and gone == _PAGE:
                nothing = [_Part(db, (), ())]
                _, gone = await self._connection.ask(self._requests(nothing, self._clock.now_ms()))

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
        self._reservations.lose()
        if self._connection is not None:
            self._connection.close()
            self._connection = None
