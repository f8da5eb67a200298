"""Keys that this proxy has claimed for a while, because it claims them again and again.

As long as a key is reserved, no other proxy remembers that it has no deadlines. So a write of a
deadline that is not near needs no claim of its own (link/knowledge/claims.py). Knows no socket and
no clock: instants are ms of the Redis server's clock.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from itertools import islice
from typing import Final

from ttlproxy.core.lately import Lately
from ttlproxy.core.registry import Place

# How long a reservation lasts. It is renewed in its second half, when the key is written.
RESERVED_MS: Final = 60_000
# A request may be so long on its way to Redis; and so long others may take to hear of a deadline.
MARGIN_MS: Final = 1_000
# So many places that were claimed lately are remembered, up to twice; and so many are reserved.
_MOST: Final = 16_384
# How many reservations are forgotten at a time where there is no room for more: one in so many.
_PART: Final = 16


class Reservations:
    """
    on_waning: called when the first reservation since `take_waning` is to be renewed
    losses: how often all may have been lost
    """

    __slots__ = ("_claimed", "_until_ms", "_waning", "losses", "on_waning")

    def __init__(self) -> None:
        self.losses = 0
        self.on_waning: Callable[[], None] = lambda: None
        self._waning = set[Place]()
        self._until_ms: dict[Place, int] = {}
        self._claimed = Lately[Place](_MOST)

    def holds(self, place: Place, now_ms: int) -> bool:
        """Whether a place stays reserved until a request that is sent now has been carried out."""
        left_ms = self._until_ms.get(place, 0) - now_ms
        if left_ms < MARGIN_MS:
            return False
        if left_ms < RESERVED_MS // 2:
            if not self._waning:
                self.on_waning()
            self._waning.add(place)
        return True

    def take_waning(self) -> set[Place]:
        """Those that are to be renewed."""
        taken, self._waning = self._waning, set()
        return taken

    def is_wanted(self, place: Place) -> bool:
        """Notes that a place is claimed; returns whether that is not the first time lately."""
        is_first = self._claimed.has_none((place,))
        self._claimed.add((place,))
        return not is_first

    def made(self, places: Collection[Place], until_ms: int, losses: int) -> None:
        """Redis had these places as reserved until then, when so many had been lost."""
        if losses != self.losses:
            return
        for place in places:
            if len(self._until_ms) >= _MOST:
                for old in list(islice(self._until_ms, _MOST // _PART)):
                    del self._until_ms[old]
            self._until_ms[place] = until_ms

    def renewed(self, places: Collection[Place], until_ms: int, losses: int, now_ms: int) -> None:
        """The same of places that were reserved before. Where that was over by `now_ms`, others may
        have looked the key up in between, so it is to be claimed again."""
        in_time = [at for at in places if self._until_ms.get(at, 0) - now_ms >= MARGIN_MS]
        self.made(in_time, until_ms, losses)

    def lose(self) -> None:
        """None is reserved any more, as far as is known."""
        self.losses += 1
        self._until_ms.clear()
        self._waning.clear()
