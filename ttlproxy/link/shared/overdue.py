"""The keys that are past their deadline and still there, according to the schedules.

The registry cannot tell: it holds lower bounds, and hears of no other proxy's reaps.
"""

from __future__ import annotations

from ttlproxy.link.connecting.failures import is_wrong_type
from ttlproxy.link.shared.schedule_queries import Late


class Overdue:
    """The findings of the last look.

    keys: how many are overdue in all databases
    broken: databases, or slots of a Cluster, where another type of key is in place of the schedule
    """

    def __init__(self) -> None:
        self.keys = 0
        self.broken: list[int] = []
        self._first_ms: int | None = None  # the earliest deadline that is past

    def update(self, late: Late) -> None:
        """Takes what Redis has just told."""
        self.keys, self._first_ms, refused = late
        self.broken = [db for db, refusal in refused.items() if is_wrong_type(refusal)]

    def oldest_s(self, now_ms: int) -> float:
        """Returns for how long the oldest key has been due, in s; 0 if none is."""
        first_ms = self._first_ms
        return 0.0 if first_ms is None else max(now_ms - first_ms, 0) / 1000
