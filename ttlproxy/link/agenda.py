"""What the reaper is to do, and when: said by the link and by clients, done by the reaper.

Instants are ms of the Redis server's clock, and come in from outside.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable

from ttlproxy.core.registry import Place
from ttlproxy.link.backoff import Backoff

NEVER = 1 << 62
# A key, or a schedule, that Redis refuses is tried again until somebody has mended it.
_PARKED = Backoff(cap=30.0, base=0.05)
# What passes by itself does so for all keys at once: however often it was met, it may be over.
_PASSING = Backoff(cap=0.5, base=0.05)
# A request that was just forwarded has been carried out by then, unless something blocks it: what
# it leaves behind after that is found when it falls due.
SWEEP_AFTER_MS = 200


class Parked:
    """Keys whose reap Redis refuses: each is left alone for a while, and then for longer."""

    def __init__(self) -> None:
        self._until: dict[Place, tuple[int, int]] = {}  # ms of the server's clock, failures
        self._reasons: dict[Place, str] = {}

    def __len__(self) -> int:
        return len(self._until)

    @property
    def reasons(self) -> Counter[str]:
        """How many there are for each of the reasons in metrics.PARKED."""
        return Counter(self._reasons[place] for place in self._until)

    def park(self, place: Place, now_ms: int, why: str = "other", passes: bool = False) -> None:
        """It was refused just now, for a reason that `passes` by itself or does not."""
        failures = self._until.get(place, (0, 0))[1] + 1
        pause_s = (_PASSING if passes else _PARKED).compute(failures)
        self._until[place] = (now_ms + round(pause_s * 1000), failures)
        self._reasons[place] = why

    def holds(self, place: Place, now_ms: int) -> bool:
        """Whether it is not to be tried yet."""
        return self._until.get(place, (0, 0))[0] > now_ms

    def first_ms(self) -> int:
        """When one is to be tried again."""
        return min((until_ms for until_ms, _ in self._until.values()), default=NEVER)

    def put_off_no_more(self) -> None:
        """Each is to be tried now."""
        self._until = {place: (0, failures) for place, (_, failures) in self._until.items()}

    def forget(self, now_ms: int) -> None:
        """All that could be tried by now has been: those that were not refused again are mended."""
        self._until = {place: held for place, held in self._until.items() if held[0] > now_ms}
        self._reasons = {place: self._reasons[place] for place in self._until}


class Agenda:
    """When to look next, which keys to sweep when, and which to leave alone for now.

    next_ms: when something may be due; woken: set where that is sooner than it was
    sweep_after_ms: how long a request is left to be carried out before its keys are swept
    """

    def __init__(self) -> None:
        self.next_ms = NEVER
        self.woken = asyncio.Event()
        self.sweep_after_ms = SWEEP_AFTER_MS
        self.parked = Parked()
        self._sweeps: dict[Place, int] = {}  # when each is to be done

    def announced(self, db: int, deadline_ms: int) -> None:
        """The first deadline of some key."""
        self.look_at(deadline_ms)

    def look_at(self, due_ms: int) -> None:
        """Something may be due once the clock is past this."""
        if due_ms < self.next_ms:
            self.next_ms = due_ms
            self.woken.set()

    def look_now(self) -> None:
        """The server's clock was set: whatever was put off by it is done now."""
        self._sweeps = dict.fromkeys(self._sweeps, 0)
        self.parked.put_off_no_more()
        self.look_at(0)

    def sweep(self, places: Iterable[Place], now_ms: int) -> None:
        """A request that was forwarded may leave index entries whose element is gone."""
        due_ms = now_ms + self.sweep_after_ms
        for place in places:
            self._sweeps.setdefault(place, due_ms)
        self.look_at(due_ms)

    def take_sweeps(self, now_ms: int) -> dict[Place, int]:
        """Places that are to be swept by now, and since when."""
        due = [place for place, due_ms in self._sweeps.items() if due_ms < now_ms]
        return {place: self._sweeps.pop(place) for place in due}

    def put_back(self, sweeps: dict[Place, int]) -> None:
        """Sweeps that were taken, and not done."""
        self._sweeps = sweeps | self._sweeps

    def look_at_sweeps(self) -> None:
        """Those that are left are not to be forgotten."""
        for due_ms in self._sweeps.values():
            self.look_at(due_ms)
