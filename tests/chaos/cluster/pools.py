"""Items that are put into a list or a set, some with a deadline, and taken out once. Knows no I/O.

Instants are ms of the machine's clock, which is also the servers'.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from tests.chaos.history import Excuses, Window, meets, within


@dataclass
class Pool:
    """
    key: the list, or set
    due_ms: the deadline of each item that was asked for; infinite without one
    put: when items were acknowledged
    put_until: when the request for each had its reply, or was given up. Where there are rules of
      ONEXPIRE, an item whose deadline has passed before it is put may be taken until then
    taken: when each was asked for, and had come; in_doubt: requests for an item whose reply is lost
    """

    key: str
    due_ms: dict[str, float] = field(default_factory=dict)
    put: dict[str, float] = field(default_factory=dict)
    put_until: dict[str, float] = field(default_factory=dict)
    taken: dict[str, list[Window]] = field(default_factory=dict)
    in_doubt: list[Window] = field(default_factory=list)

    def faults(self, left: Sequence[str], at_ms: float, excuses: Excuses) -> Iterator[str]:
        """`left`: what is there at the end, at `at_ms`."""
        places = Counter(left)
        yield from (f"{item} is there {n} times" for item, n in places.items() if n > 1)
        yield from (
            f"{item} came from nowhere" for item in {*left, *self.taken} - self.due_ms.keys()
        )
        for item in places:
            late_ms = at_ms - self.due_ms.get(item, math.inf)
            if late_ms > 0:
                yield f"{item} is there {late_ms:.0f} ms after its deadline"
        for item, windows in self.taken.items():
            yield from self._faults_of(item, windows, places[item], excuses)
        gone = [item for item in self.put if self._is_lost(item, places, at_ms, excuses)]
        if len(gone) > len(self.in_doubt):
            yield f"{', '.join(gone)} are lost, and {len(self.in_doubt)} replies"

    def _faults_of(
        self, item: str, windows: Sequence[Window], left: int, excuses: Excuses
    ) -> Iterator[str]:
        kept = [window for window in windows if not within(excuses.rewound, window[1])]
        if len(kept) > 1 or (kept and left):
            yield f"{item} was taken {len(windows)} times, and is there {left} times"
        for begun_ms, ended_ms in windows:
            due_ms = self.due_ms.get(item, math.inf)
            # The servers' clock has whole ms.
            late_ms = math.floor(begun_ms) - max(due_ms, self.put_until.get(item, due_ms))
            if late_ms > 0 and not meets(excuses.late, begun_ms, ended_ms):
                took_ms = ended_ms - begun_ms
                yield (
                    f"{item} was taken {late_ms:.0f} ms after its deadline, from {begun_ms:.0f} on,"
                    f" within {took_ms:.0f} ms"
                )

    def _is_lost(self, item: str, places: Counter[str], at_ms: float, excuses: Excuses) -> bool:
        is_known = item in places or item in self.taken or within(excuses.rewound, self.put[item])
        return not is_known and self.due_ms[item] > at_ms
