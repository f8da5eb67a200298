"""Tasks that fall due once, in front of a Cluster whose failovers may lose acknowledged requests.
Knows no I/O."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from tests.chaos.history import Excuses, within
from tests.chaos.ledger import Tasks


@dataclass
class Deliveries(Tasks):
    """The tasks of one slot, and when requests about them were acknowledged, in ms.

    seen_ms: when a task was first seen to be delivered, where the delivery tells no time
    """

    written_ms: dict[str, float] = field(default_factory=dict)
    cancelled_ms: dict[str, float] = field(default_factory=dict)
    seen_ms: dict[str, float] = field(default_factory=dict)

    def see(self, tasks: Sequence[str], at_ms: float) -> None:
        """These are delivered, at the latest since `at_ms`."""
        for task in tasks:
            self.seen_ms.setdefault(task, at_ms)

    def faults_but(self, excuses: Excuses, fired_ms: Sequence[tuple[str, float]]) -> Iterator[str]:
        """The faults that no failover explains; `fired_ms`: as `faults` takes them."""
        lost = {name for name, at in self.written_ms.items() if within(excuses.rewound, at)}
        undone = {name for name, at in self.cancelled_ms.items() if within(excuses.rewound, at)}
        known = Tasks(
            self.due_ms, self.written - lost, self.cancelled - undone, self.doubted | undone
        )
        return known.faults(fired_ms)

    def seen(self, tasks: Sequence[str]) -> list[tuple[str, float]]:
        """Each of these tasks, with the time at which it was seen."""
        return [(task, self.seen_ms.get(task, math.inf)) for task in tasks]
