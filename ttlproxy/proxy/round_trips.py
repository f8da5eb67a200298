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
from ttlproxy.proxy.round_trip import RoundTrip
from ttlproxy.proxy.write_batch import Write, WriteBatch

# From the end of one to the choice of the next: at least so long, and so many times as long as the
# counting took, which is much where pipelines are long. So it takes a thousandth of a core at most.
_PAUSE_S: Final = 0.2
_RARELY: Final = 1000
# A client that sends so little is waited for no longer; and Redis, longer than most clients wait.
_IDLE_S: Final = 2.0
_LONGEST_S: Final = 60.0
# So many connections of a turn are looked at.
_LOOKS: Final = 4
_EVALSHA: Final = b"EVALSHA"


class Watchable(Protocol):
    """A client's way to Redis, as it is seen here."""

    @property
    def may_be_watched(self) -> bool:
        """Whether a round trip can be measured here."""

    def watch(self, over: Callable[[RoundTrip], None]) -> RoundTrip:
        """Measures a round trip, from the next requests on; `over(it)` is called at its end."""

    def watch_no_more(self) -> None:
        """What comes and goes passes at once again."""


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
        self._watched: tuple[RoundTrip, Watchable] | None = None
        self._later: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Chooses from now on."""
        self._later = None
        self._write_batch.tell(self._choose)

    def stop(self) -> None:
        """Ends what is under way, and chooses no more."""
        self._write_batch.tell(None)
        if self._watched is not None:
            self._watched[0].end()
        if self._later is not None:
            self._later.cancel()

    def _choose(self, writes: Sequence[tuple[Write, bytes]]) -> None:
        """Takes one of the connections that are written to."""
        for write, _ in random.sample(writes, min(len(writes), _LOOKS)):
            protocol = write.__self__.get_protocol()  # type: ignore[attr-defined]
            way = protocol.watchable if isinstance(protocol, _HasWay) else None
            if way is not None and way.may_be_watched:
                self._watch(way)
                return
        self._wait(_PAUSE_S, self.start)

    def _watch(self, way: Watchable) -> None:
        round_trip = way.watch(self._over)
        self._watched = round_trip, way
        self._wait(_IDLE_S, self._lose_patience)

    def _lose_patience(self) -> None:
        if self._watched is None:
            return
        round_trip, _ = self._watched
        if round_trip.is_begun:
            self._wait(_LONGEST_S, round_trip.end)
        else:
            round_trip.end()

    def _wait(self, pause_s: float, then: Callable[[], None]) -> None:
        self._write_batch.tell(None)
        self._later = asyncio.get_running_loop().call_later(pause_s, then)

    def _over(self, round_trip: RoundTrip) -> None:
        if self._later is not None:
            self._later.cancel()
        if self._watched is not None:
            self._watched[1].watch_no_more()
            self._watched = None
        self._wait(max(_PAUSE_S, _RARELY * round_trip.spent_s), self.start)
        if round_trip.took_ms is not None:
            self._counters.round_trip_ms.observe(round_trip.took_ms)
            script = self._script(round_trip.request)
            if script is not None:
                self._counters.count_script_trip(
                    script, round_trip.took_ms, failed=round_trip.has_failed
                )

    def _script(self, request: Sequence[bytes] | None) -> str | None:
        """The script of ours that a request calls."""
        if request is None or request[0] != _EVALSHA or len(request) < 2:
            return None
        if request[1] not in self._known:
            self._known = self._names()
        return self._known.get(request[1])
