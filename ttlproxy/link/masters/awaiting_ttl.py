"""Elements of a Cluster that still await deadlines by rules of ONWRITE, by the keys' slots.

The link through which they were written may have lost the slot before it could give them deadlines.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ttlproxy.core.keys import slot
from ttlproxy.core.registry import DbKey
from ttlproxy.link.life.link import Link


class AwaitingTtl:
    """Hands each place to the link of the master that has its slot."""

    def __init__(self, owner: Callable[[int], Link | None]) -> None:
        """`owner(slot)` returns None while no master that has it is served."""
        self._owner = owner
        self._waiting: set[DbKey] = set()

    def add(self, places: Iterable[DbKey]) -> None:
        """Takes places where elements have no deadline yet."""
        for place in places:
            link = self._owner(slot(place[1]))
            if link is None:
                self._waiting.add(place)
            else:
                link.context.apply_ttl_later([place])

    def owners_changed(self) -> None:
        """Hands on what waits, because slots have another owner."""
        if self._waiting:
            waiting, self._waiting = self._waiting, set()
            self.add(waiting)
