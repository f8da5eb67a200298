"""The entries that the registry of a master has given up, until the master's replicas have given
them up too.

A replica has what its master had some time ago. The registry knows of every key that needed
attention at its master then, up to some instant, except where a reap or a new reading of the
schedules raised a bound or ended an entry. So what it has given up since the replica's time, added
again, is what the replica needs up to that instant. Knows no replica and no connection.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from ttlproxy.core.keys import SLOTS

# Entries, some 200 bytes each. A proxy reaps some ten thousand keys a second at most.
MOST: Final = 200_000


class Undone(NamedTuple):
    """
    raised: the lowest bound, in ms, of keys whose bound was raised or that were left out
    slots: those of which nothing older is known
    until_ms: how far ahead the registry was read when the part began
    """

    raised: dict[bytes, int]
    slots: set[int]
    until_ms: int


class UndoLog:
    """Parts with growing numbers: each begins where `begin_part` was called.

    number: of the last part; interrupted_in: of the last one in which slots were interrupted
    """

    def __init__(self) -> None:
        self.number = self.interrupted_in = 0
        self._parts = {0: Undone({}, set(), 0)}
        self._size = 0

    def raised(self, key: bytes, bound: int) -> None:
        """`bound` was the key's own; now it is a later one, or the key is not known any more."""
        raised = self._parts[self.number].raised
        self._size += key not in raised
        raised[key] = min(bound, raised.get(key, bound))
        if self._size > MOST:
            self.interrupted(range(SLOTS))

    def interrupted(self, slots: Iterable[int]) -> None:
        """Keys of these slots were forgotten, or read anew."""
        part = self._parts[self.number]
        part.slots.update(slots)
        self.interrupted_in = self.number
        if len(part.slots) == SLOTS:
            for each in self._parts.values():
                each.raised.clear()
            self._size = 0

    def begin_part(self, until_ms: int) -> int:
        """`until_ms`: that of the registry. Returns the part's number."""
        self.number += 1
        self._parts[self.number] = Undone({}, set(), until_ms)
        return self.number

    def drop(self, number: int) -> None:
        """Nobody needs the parts before this one any more."""
        for each in [each for each in self._parts if each < min(number, self.number)]:
            self._size -= len(self._parts.pop(each).raised)

    def since(self, number: int) -> Undone:
        """The entries that were given up in this part and in those after it."""
        found = Undone(
            {}, set(), min(part.until_ms for at, part in self._parts.items() if at >= number)
        )
        for part in (part for at, part in self._parts.items() if at >= number):
            found.slots.update(part.slots)
            for key, bound in part.raised.items():
                found.raised[key] = min(bound, found.raised.get(key, bound))
        return found
