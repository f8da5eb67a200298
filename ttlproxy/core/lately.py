"""A memory of what came lately, with an upper limit."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Generic, TypeVar

Item = TypeVar("Item")


class Lately(Generic[Item]):
    """Has at least the last `most` items, and at most some more than twice as many: those of the
    last addition all count."""

    __slots__ = ("_before", "_most", "_newest")

    def __init__(self, most: int) -> None:
        self._most = most
        self._newest, self._before = set[Item](), set[Item]()

    def __len__(self) -> int:
        """How many items it has; one that came again after a while counts twice."""
        return len(self._newest) + len(self._before)

    def has_none(self, items: Iterable[Item]) -> bool:
        return self._newest.isdisjoint(items) and self._before.isdisjoint(items)

    def add(self, items: Iterable[Item]) -> None:
        self._newest.update(items)
        if len(self._newest) > self._most:
            self._before, self._newest = self._newest, set()
