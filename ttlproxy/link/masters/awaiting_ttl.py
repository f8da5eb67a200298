"""Elements of a Cluster that rules of ONWRITE have still to give deadlines to, by the keys' slots.

The link through which they were written may have lost the slot before it could do that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ttlproxy.core.keys import slot
from ttlproxy.core.registry import DbKey
from ttlproxy.link.life.link import Link


class AwaitingTtl:
    """Hands each place to the link of the master that has its slot."""

    def __init__(self, owner: Callable[[int], Link | None]) -> None:
        """`owner(slot)`: None while no master is served that has it."""
        self._owner = owner
        self._waiting: set[DbKey] = set()

    def add(self, places: Iterable[DbKey]) -> None:
        """Elements there have no deadline yet."""
        for place in places:
            link = self._owner(slot(place[1]))
            if link is None:
                self._waiting.add(place)
            else:
                link.context.apply_ttl_later([place])

    def owners_changed(self) -> None:
        """Slots have another owner."""
        if self._waiting:
            waiting, self._waiting = self._waiting, set()
            self.add(waiting)
