"""Log lines for events that may happen to thousands of clients in a second.

The first event is logged at once, the others are counted in one line per second. So no attacker,
probe or lost Redis can flood the log.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from typing import Final
from weakref import WeakSet

EVERY_S: Final = 1.0
# Kinds of events, and addresses of each kind, that are counted in one second; addresses that are
# shown.
_KINDS: Final = 16
_ADDRESSES: Final = 256
_SHOWN: Final = 5
_REST: Final = "other reasons"
_ELSEWHERE: Final = "elsewhere"


class LineCount:
    """Counts the events since the last summary. Knows no clock and no log."""

    def __init__(self) -> None:
        self._counts: dict[str, Counter[str]] = {}

    def is_first(self, kind: str, address: str) -> bool:
        """Whether the event gets a line of its own; if not, it is counted."""
        counts = self._counts.get(kind)
        if counts is None and len(self._counts) < _KINDS:
            self._counts[kind] = Counter()
            return True
        if counts is None:
            counts = self._counts.setdefault(_REST, Counter())
        counts[address if address in counts or len(counts) < _ADDRESSES else _ELSEWHERE] += 1
        return False

    def end(self) -> dict[str, Counter[str]]:
        """Returns kind -> address -> count, and resets the counts. The next event of a returned
        kind does not count as its first."""
        ended = {kind: counts for kind, counts in self._counts.items() if counts}
        self._counts = {kind: Counter() for kind in ended}
        return ended


class Summaries:
    """Limits the lines of one logger that may become too many."""

    def __init__(self, log: logging.Logger) -> None:
        self._log = log
        self._tallies: dict[int, LineCount] = {}  # by level
        self._next: asyncio.TimerHandle | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        _ALL.add(self)

    def note(
        self,
        level: int,
        kind: str,
        peer: str = "",
        line: str = "",
        trouble: BaseException | None = None,
        **fields: object,
    ) -> None:
        """Logs an event of a client, or counts it.

        kind: the event, in the words of summaries; line: the words of the first line, if they
        differ; peer: the client's address, empty if unknown; fields: extra JSON fields of the first
        line
        """
        if not self._log.isEnabledFor(level):
            return
        address = _host(peer)
        if self._tallies.setdefault(level, LineCount()).is_first(kind, address):
            extra = {"peer": peer, **fields}
            self._log.log(level, "%s%s", line or kind, _from(peer), exc_info=trouble, extra=extra)
        self._summarise_later()

    def flush(self) -> None:
        """Logs what has been counted so far."""
        for level, tally in list(self._tallies.items()):
            ended = tally.end()
            for kind, counts in ended.items():
                extra = {"count": counts.total(), "addresses": dict(counts.most_common(_SHOWN))}
                words = "%d more in a second: %s%s"
                self._log.log(
                    level, words, counts.total(), kind, _from(_shown(counts)), extra=extra
                )
            if not ended:
                del self._tallies[level]

    def _summarise_later(self) -> None:
        loop = asyncio.get_running_loop()
        if self._next is None or self._loop is not loop:
            self._next, self._loop = loop.call_later(EVERY_S, self._summarise), loop

    def _summarise(self) -> None:
        self._next = None
        self.flush()
        if self._tallies:  # an event that goes on gets no line of its own, but is counted
            self._summarise_later()


_ALL: Final[WeakSet[Summaries]] = WeakSet()


def flush_all() -> None:
    """Logs all counts that have not been logged; call it before the process ends."""
    for each in list(_ALL):
        each.flush()


def _host(peer: str) -> str:
    """Returns an address without its port, which differs for each connection."""
    host, _, port = peer.rpartition(":")
    return host if host and port.isdigit() else peer


def _from(addresses: str) -> str:
    return f", from {addresses}" if addresses else ""


def _shown(counts: Counter[str]) -> str:
    """Returns the most frequent addresses, and how many others there are."""
    most = counts.most_common(_SHOWN)
    shown = [f"{address} ({count})" for address, count in most if address]
    if others := len(counts) - len(most):
        shown.append(f"{others} other addresses")
    return ", ".join(shown)
