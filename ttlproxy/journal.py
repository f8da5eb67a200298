"""What is logged of one client's connection: each line has its number."""

from __future__ import annotations

import asyncio
import logging

from ttlproxy.addresses import Listen
from ttlproxy.errors import ReapRefused

log = logging.getLogger(__name__)


class Journal:
    """Of a connection, from its opening on. Nothing here is called for a request."""

    __slots__ = ("_number", "_opened_s", "_peer")

    def __init__(self, number: int, transport: asyncio.BaseTransport, source: str) -> None:
        """`source`: the address that a PROXY header tells; empty without one."""
        self._number = number
        self._opened_s = asyncio.get_running_loop().time()
        address = transport.get_extra_info("peername")
        nearest = str(Listen(*address[:2])) if isinstance(address, tuple) else "a unix socket"
        self._peer = source or nearest
        self.note(logging.DEBUG, "opened by %s", self._peer, peer=self._peer)

    def closed(self, why: str) -> None:
        """`why`: as in Metrics.gone."""
        seconds = round(asyncio.get_running_loop().time() - self._opened_s, 3)
        words = "closed after %.3f s, from %s: %s"
        about = (seconds, self._peer, why)
        self.note(logging.DEBUG, words, *about, peer=self._peer, seconds=seconds, why=why)

    def refused(self, trouble: OSError) -> None:
        self.note(logging.INFO, "refused: %s", trouble)

    def failed(self, trouble: BaseException) -> None:
        """Why the proxy closes it."""
        if isinstance(trouble, TimeoutError):
            self.note(logging.WARNING, "closed: Redis was away for longer than hold_max")
        elif isinstance(trouble, ReapRefused):
            words = "closed: Redis refuses, for longer than hold_max: %s"
            self.note(logging.WARNING, words, trouble)
        else:
            self.note(logging.ERROR, "closed, by a fault of ttlproxy", trouble=trouble)

    def note(
        self,
        level: int,
        text: str,
        *arguments: object,
        trouble: BaseException | None = None,
        **fields: object,
    ) -> None:
        """A line about it; `fields` stand in JSON beside the message."""
        if log.isEnabledFor(level):
            extra = {"client": self._number, **fields}
            words = f"client {self._number}: {text}"
            log.log(level, words, *arguments, exc_info=trouble, extra=extra)
