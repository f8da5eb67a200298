"""Announcements of deadlines, for a proxy that looks up keys, while it leads the reaper."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from ttlproxy.config import Settings
from ttlproxy.core.keys import Keys
from ttlproxy.errors import UpstreamError
from ttlproxy.link.connecting.address_watch import AddressWatch
from ttlproxy.link.connecting.backoff import Backoff
from ttlproxy.link.connecting.pipeline import Words
from ttlproxy.link.connecting.push_socket import PushSocket
from ttlproxy.link.shared.context import Context
from ttlproxy.net.tasks import cancel

log = logging.getLogger(__name__)

_AGAIN = Backoff(cap=2.0, base=0.05)


class _Deadlines(PushSocket):
    """on_announcement(db, key, deadline_ms) is called for each announced deadline."""

    def __init__(
        self,
        keys: Keys,
        on_announcement: Callable[[int, bytes, int], None],
        on_loss: Callable[[], None],
    ) -> None:
        super().__init__(on_loss)
        self._keys = keys
        self._on_announcement = on_announcement

    def _take(self, message: object) -> None:
        if isinstance(message, list) and message[:1] == [b"invalidate"] and message[1]:
            for name in message[1]:
                if announced := self._keys.announced(name):
                    db, deadline_ms, key = announced
                    self._on_announcement(db, key, deadline_ms)

    def _opening(self) -> list[Words]:
        prefix = self._keys.announcement_prefix
        return [
            (b"CLIENT", b"SETNAME", b"ttlproxy:deadlines"),
            (b"CLIENT", b"TRACKING", b"ON", b"BCAST", b"PREFIX", prefix),
        ]


class Deadlines:
    """Hears of deadlines as long as that is wanted, over a connection of its own."""

    def __init__(self, settings: Settings, address: AddressWatch, context: Context) -> None:
        self._settings = settings
        self._address = address
        self._context = context

    async def run(self) -> None:
        """Runs until cancelled. Without a connection the reaper only looks now and then."""
        agenda, failures = self._context.agenda, 0
        while True:
            await agenda.until(leads=True)
            try:
                await self._hear()
                failures = 0
            except (UpstreamError, OSError) as trouble:  # also TimeoutError
                failures += 1
                log.debug("deadlines are not announced: %s", trouble)
                await asyncio.sleep(_AGAIN.compute(failures))

    async def _hear(self) -> None:
        """Ends when the connection is lost, or this proxy leads no more."""
        context, settings, lost = self._context, self._settings, asyncio.Event()
        agenda = context.agenda
        connection = _Deadlines(context.keys, context.announced, lost.set)
        follows = asyncio.create_task(agenda.until(leads=False), name="until it leads no more")
        losing = asyncio.create_task(lost.wait(), name="until deadlines are lost")
        try:
            await connection.open(
                self._address.now, settings.connect_timeout, settings.tcp_keepalive
            )
            agenda.look_at(0)  # what was announced before
            await asyncio.wait({follows, losing}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            connection.close()
            await cancel(follows, losing)
