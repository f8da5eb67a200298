"""The checks before a connection becomes a client: the limit of clients, then TLS."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from typing import Final, cast

from ttlproxy.config import Settings
from ttlproxy.core.counters import Counters
from ttlproxy.errors import MAX_CLIENTS
from ttlproxy.net.log_summaries import Summaries
from ttlproxy.net.tls import Tls, for_clients
from ttlproxy.proxy.client_log import peer_shown

log = logging.getLogger(__name__)
_summaries = Summaries(log)

# Seconds between two log lines about too many clients.
_SILENCE_S: Final = 60.0
# Makes a client, from the address in its PROXY header; empty without one.
ClientProtocol = Callable[[str], asyncio.Protocol]


class ClientLimit:
    """The limit of connected clients."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._said_s = -_SILENCE_S

    def reached(self, clients: int) -> bool:
        """Whether one more would be too many, which is logged once a minute."""
        if clients < self._most:
            return False
        now_s = asyncio.get_running_loop().time()
        if now_s - self._said_s >= _SILENCE_S:
            self._said_s = now_s
            log.warning("clients are refused: max_clients (%d) are connected", self._most)
        return True


def refusal(settings: Settings) -> bytes:
    """The reply to one client too many: with TLS none, as in Redis, because TLS is not up yet."""
    return b"" if settings.tls_cert else MAX_CLIENTS


class ProtocolFactory:
    """Gives each connection its protocol: a client's, or the refusal of one too many.

    tls: what clients are shown; None if they use no TLS
    """

    def __init__(
        self,
        settings: Settings,
        counters: Counters,
        client: ClientProtocol,
        ended: Callable[[], None],
    ) -> None:
        """`ended()` is called when a connection ends that has not become a client."""
        self.tls = for_clients(settings)
        self._refusal = refusal(settings)
        self._limit = ClientLimit(settings.max_clients)
        self._counters = counters
        self._client = client
        self._ended = ended
        self._coming = 0  # those whose TLS is not up yet

    def protocol(self, source: str) -> asyncio.Protocol:
        """`source`: the address in its PROXY header."""
        if self._limit.reached(self._counters.clients + self._coming):
            return _Refusal(self._refusal, self._refused)
        client = self._client(source)
        if self.tls is None:
            return client
        self._coming += 1
        settled = partial(self._settled, source)
        return Tls(self.tls.current(), client, settled, server_side=True)

    def _settled(self, source: str, trouble: Exception | None, peername: object) -> None:
        self._coming -= 1
        if trouble is not None:
            # A load balancer that only checks whether somebody listens is no event.
            left = isinstance(trouble, ConnectionError)
            level = logging.DEBUG if left else logging.INFO
            peer = source or peer_shown(peername)
            _summaries.note(level, f"a client is refused: {trouble}", peer)
            self._counters.tls_failures += 0 if left else 1
            self._refused()

    def _refused(self) -> None:
        self._counters.refused += 1
        self._counters.gone["refused"] += 1
        self._ended()


class _Refusal(asyncio.Protocol):
    """One client too many."""

    def __init__(self, text: bytes, ended: Callable[[], None]) -> None:
        self._text = text
        self._ended = ended

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport = cast(asyncio.Transport, transport)
        transport.write(self._text)
        transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self._ended()
