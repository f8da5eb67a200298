"""Logs what happens to one client's connection: each line has the client's number."""

from __future__ import annotations

import asyncio
import logging

from ttlproxy.addresses import Listen
from ttlproxy.errors import ReapRefused
from ttlproxy.net.log_summaries import Summaries

log = logging.getLogger(__name__)
_summaries = Summaries(log)


def peer_shown(peername: object) -> str:
    """An address as asyncio and the socket module give it, in a readable form."""
    return str(Listen(*peername[:2])) if isinstance(peername, tuple) else "a unix socket"


class ClientLog:
    """The log of a connection, from its opening on. Nothing here is called for a request.

    number: counts the clients since the start; peer: its address, from the PROXY header if it has
    one
    """

    __slots__ = ("_opened_s", "number", "peer")

    def __init__(self, number: int, transport: asyncio.BaseTransport, source: str) -> None:
        """`source`: the address from a PROXY header; empty without one."""
        self.number = number
        self._opened_s = asyncio.get_running_loop().time()
        self.peer = source or peer_shown(transport.get_extra_info("peername"))
        self.note(logging.DEBUG, "opened by %s", self.peer, peer=self.peer)

    @property
    def age_s(self) -> float:
        """Seconds since it was opened."""
        return round(asyncio.get_running_loop().time() - self._opened_s, 3)

    def closed(self, why: str) -> None:
        """`why`: as in Counters.gone."""
        if not log.isEnabledFor(logging.DEBUG):
            return  # as usually: thousands may end at once
        seconds = self.age_s
        words = "closed after %.3f s, from %s: %s"
        about = (seconds, self.peer, why)
        self.note(logging.DEBUG, words, *about, peer=self.peer, seconds=seconds, why=why)

    def refused(self, trouble: BaseException) -> None:
        self.often(logging.INFO, f"refused: {trouble}")

    def failed(self, trouble: BaseException) -> None:
        """Logs why the proxy closes it."""
        if isinstance(trouble, TimeoutError):
            self.often(logging.WARNING, "closed: Redis was unavailable for longer than hold_max")
        elif isinstance(trouble, ReapRefused):
            words = f"closed: Redis refuses the reap for longer than hold_max: {trouble}"
            self.often(logging.WARNING, words)
        else:
            self.often(logging.ERROR, "closed: internal error", trouble=trouble)

    def often(
        self, level: int, kind: str, more: str = "", trouble: BaseException | None = None
    ) -> None:
        """Logs a line about it. If many clients have such a line now, counts them instead.

        kind: what happens to them all; more: what is added for this one.
        """
        number = self.number
        line = f"client {number}: {kind}{more}"
        _summaries.note(level, f"clients {kind}", self.peer, line, trouble, client=number)

    def note(self, level: int, text: str, *arguments: object, **fields: object) -> None:
        """Logs a line about it; `fields` stand in JSON beside the message."""
        if log.isEnabledFor(level):
            extra = {"client": self.number, **fields}
            words = f"client {self.number}: {text}"
            log.log(level, words, *arguments, extra=extra)
