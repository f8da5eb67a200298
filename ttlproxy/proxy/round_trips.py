"""Measures round trips to Redis now and then, one at a time, so that all others cost nothing.

A connection is chosen by chance among those that are written to in a turn of the event loop: the
more it is used, the more often. At rest nothing is done.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Final, Protocol, runtime_checkable

from ttlproxy.core.counters import Counters
from ttlproxy.proxy.redis_connection import Watchable
from ttlproxy.proxy.write_batch import Write, WriteBatch
from ttlproxy.wire import whole

# Seconds from the end of one to the choice of the next.
_PAUSE_S: Final = 0.2
# A client that sends nothing is waited for no longer; and Redis, longer than most clients wait.
_IDLE_S: Final = 2.0
_LONGEST_S: Final = 60.0
# Connections of a turn that are looked at.
_LOOKS: Final = 4
# Larger chunks are not read, to see which script they call.
_LARGEST: Final = 4096
_EVALSHA: Final = b"EVALSHA"


@runtime_checkable
class _HasWay(Protocol):
    """A transport's protocol on a client's way to Redis."""

    @property
    def watchable(self) -> Watchable | None: ...


class RoundTrips:
    """Chooses connections, and keeps what was measured in the counters."""

    def __init__(
        self,
        counters: Counters,
        write_batch: WriteBatch,
        names: Callable[[], Mapping[bytes, str]],
    ) -> None:
        """`names()`: SHA -> name of the proxy's scripts."""
        self._counters = counters
        self._write_batch = write_batch
        self._names = names
        self._known: Mapping[bytes, str] = {}
        self._later: asyncio.TimerHandle | None = None
        self._number = 0  # of the present round trip

    def start(self) -> None:
        """Chooses from now on."""
        self._number += 1
        self._later = None
        self._write_batch.tell(self._choose)

    def stop(self) -> None:
        """Chooses no more."""
        self._number += 1
        self._write_batch.tell(None)
        if self._later is not None:
            self._later.cancel()

    def _choose(self, writes: Sequence[tuple[Write, bytes]]) -> None:
        """Takes one of the connections that are written to."""
        for write, _ in random.sample(writes, min(len(writes), _LOOKS)):
            protocol = write.__self__.get_protocol()  # type: ignore[attr-defined]
            way = protocol.watchable if isinstance(protocol, _HasWay) else None
            if way is not None and way.may_be_watched:
                last = [data for other, data in writes if other == write][-1]
                self._watch(way, last)
                return
        self._wait(_PAUSE_S, self.start)

    def _watch(self, way: Watchable, data: bytes) -> None:
        number = self._number

        def over(took_ms: float | None, data: bytes, is_error: bool) -> None:
            if number != self._number:
                return  # it has taken too long
            if took_ms is not None:
                self._counters.round_trip_ms.observe(took_ms)
                if script := self._script(data):
                    self._counters.count_script_trip(script, took_ms, failed=is_error)
            self._number += 1
            self._wait(_PAUSE_S, self.start)

        def lose_patience() -> None:
            self._wait(_LONGEST_S if way.is_measured else 0, self.start)

        self._wait(_IDLE_S, lose_patience)
        way.watch(data, over)

    def _wait(self, pause_s: float, then: Callable[[], None]) -> None:
        self._write_batch.tell(None)
        if self._later is not None:
            self._later.cancel()
        self._later = asyncio.get_running_loop().call_later(pause_s, then)

    def _script(self, data: bytes) -> str | None:
        """The script of ours that is called, if that is all there is."""
        requests = whole(data) if len(data) <= _LARGEST else None
        if not requests or len(requests) > 1 or requests[0][0] != _EVALSHA:
            return None
        sha = requests[0][1]
        if sha not in self._known:
            self._known = self._names()
        return self._known.get(sha)
