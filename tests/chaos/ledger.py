"""What clients know of their requests, and what must be true at the end. Knows no I/O.

A request whose connection broke is in doubt: it was carried out completely or not at all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field


@dataclass
class Tasks:
    """Tasks that fall due once.

    due_ms: of all tasks that were asked for; written, cancelled: confirmed by Redis; doubted:
    perhaps cancelled
    """

    due_ms: dict[str, int] = field(default_factory=dict)
    written: set[str] = field(default_factory=set)
    cancelled: set[str] = field(default_factory=set)
    doubted: set[str] = field(default_factory=set)

    def faults(self, fired_ms: Sequence[tuple[str, float]]) -> Iterator[str]:
        """Faults in what was delivered: pairs of a task and its time of delivery in ms."""
        times = Counter(task for task, _ in fired_ms)
        yield from (f"{task} came {count} times" for task, count in times.items() if count > 1)
        yield from (f"{task} came from nowhere" for task in times.keys() - self.due_ms.keys())
        yield from (f"{task} came though cancelled" for task in times.keys() & self.cancelled)
        kept = self.written - self.cancelled - self.doubted
        yield from (f"{task} was lost" for task in kept - times.keys())
        for task, at_ms in fired_ms:
            if at_ms <= self.due_ms.get(task, 0):
                yield f"{task} came {self.due_ms[task] - at_ms:.0f} ms early"


@dataclass
class Items:
    """Items that are leased until they are done.

    asked: all that may be there; written: confirmed by Redis; done: how often Redis confirmed it;
    doubted: perhaps done; twice: seen to be lent and in the list at the same time
    """

    asked: set[str] = field(default_factory=set)
    written: set[str] = field(default_factory=set)
    done: Counter[str] = field(default_factory=Counter)
    doubted: set[str] = field(default_factory=set)
    twice: set[str] = field(default_factory=set)

    def faults(self, places: Counter[str]) -> Iterator[str]:
        """Faults, given the number of places that each item is in now."""
        yield from (f"{item} was lent, and still in the list" for item in self.twice)
        yield from (f"{item} is done {n} times" for item, n in self.done.items() if n > 1)
        yield from (f"{item} is in {n} places" for item, n in places.items() if n > 1)
        yield from (f"{item} came from nowhere" for item in places.keys() - self.asked)
        yield from (f"{item} is done, and still there" for item in places.keys() & self.done.keys())
        gone = self.written - self.done.keys() - self.doubted - places.keys()
        yield from (f"{item} was lost" for item in gone)
