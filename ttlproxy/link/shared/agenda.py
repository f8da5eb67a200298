"""The reaper's next tasks and their times: the link and clients add to it, the reaper does them.

Times are ms of the Redis server's clock; callers pass them in.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from typing import Final, NamedTuple

from ttlproxy.core.registry import DbKey
from ttlproxy.link.connecting.connections import Backoff
from ttlproxy.wire import NOTHING_DUE

# A key that Redis refuses to reap is tried again until somebody has removed the cause.
_PARKED = Backoff(cap=30.0, base=0.05)
# Trouble that passes by itself ends for all keys at once, however often it was met: short pauses.
_PASSING = Backoff(cap=0.5, base=0.05)
# By then a forwarded request has been carried out, unless something blocks it. What it leaves
# behind later is found when it falls due.
SWEEP_AFTER_MS = 200
# Of this many parked keys Redis's words are kept, up to this many letters.
_SAID: Final = 1000
_MOST_LETTERS: Final = 200


class ParkedKey(NamedTuple):
    """A parked key.

    why: a reason of counters.PARKED; said: Redis's own words, empty if they were not kept
    until_ms: when it is tried again, by the server's clock; failures: how often it was refused
    """

    place: DbKey
    why: str
    said: str
    until_ms: int
    failures: int


class Parked:
    """Keys whose reap Redis refuses: each is tried again after growing pauses."""

    def __init__(self) -> None:
        self._parked: dict[DbKey, ParkedKey] = {}
        self._worded = set[DbKey]()  # at most _SAID, of which Redis's words are kept

    def __len__(self) -> int:
        return len(self._parked)

    @property
    def reasons(self) -> Counter[str]:
        """The number of parked keys for each reason of counters.PARKED."""
        return Counter(each.why for each in self._parked.values())

    def park(
        self,
        place: DbKey,
        now_ms: int,
        why: str = "other",
        passes: bool = False,
        together_ms: int = 1,
        said: str = "",
    ) -> None:
        """Parks a key that Redis has just refused, for a reason that `passes` by itself or does
        not.

        together_ms: keys whose pauses end within this time are tried together; said: Redis's words
        """
        failures = self._parked[place].failures + 1 if place in self._parked else 1
        until_ms = now_ms + round((_PASSING if passes else _PARKED).compute(failures) * 1000)
        until_ms += -until_ms % together_ms
        if place not in self._worded and len(self._worded) >= _SAID:
            said = ""
        else:
            self._worded.add(place)
        self._parked[place] = ParkedKey(place, why, said[:_MOST_LETTERS], until_ms, failures)

    def first(self, most: int) -> list[ParkedKey]:
        """Returns the keys that have been parked for the longest time, at most `most`."""
        return list(islice(self._parked.values(), most))

    def holds(self, place: DbKey, now_ms: int) -> bool:
        """Whether the key must not be tried yet."""
        return place in self._parked and self._parked[place].until_ms > now_ms

    def first_ms(self, now_ms: int = -1) -> int:
        """Returns when the next key is tried again; NOTHING_DUE if no pause lasts longer than
        `now_ms`."""
        untils_ms = (each.until_ms for each in self._parked.values())
        return min((until_ms for until_ms in untils_ms if until_ms > now_ms), default=NOTHING_DUE)

    def put_off_no_more(self) -> None:
        """Lets each key be tried now."""
        self._parked = {at: each._replace(until_ms=0) for at, each in self._parked.items()}

    def drop(self, has_gone: Callable[[bytes], bool]) -> None:
        """Forgets the keys for which `has_gone` is true: another server has them."""
        self._keep(lambda each: not has_gone(each.place[1]))

    def forget(self, now_ms: int, is_tried: Callable[[DbKey], bool] = lambda place: False) -> None:
        """Forgets keys whose pause is over, which were tried and not refused again; not those that
        are still being tried."""
        self._keep(lambda each: each.until_ms > now_ms or is_tried(each.place))

    def _keep(self, stays: Callable[[ParkedKey], bool]) -> None:
        self._parked = {at: each for at, each in self._parked.items() if stays(each)}
        self._worded &= self._parked.keys()


class Agenda:
    """The plan of the reaper: when it checks the schedules next, which keys are swept when, and
    which are parked.

    leads: whether this proxy's reaper is the one that acts at deadlines, as it believes; the others
    do not wake at deadlines
    next_ms: when something may be due; woken: set when that becomes earlier
    take_over_ms: when to try for the lease that another proxy has, because something is late
    sweep_after_ms: the time for a request to be executed before its keys are swept
    """

    def __init__(self) -> None:
        self._leads = False
        self._turned = asyncio.Event()  # set when `leads` changes
        self.next_ms = self.take_over_ms = NOTHING_DUE
        self.woken = asyncio.Event()
        self.sweep_after_ms = SWEEP_AFTER_MS
        self.parked = Parked()
        self._sweeps: dict[DbKey, int] = {}  # when each is due
        # The places among these that get deadlines by rules, and when the last write there was
        # carried out.
        self._awaiting_ttl: dict[DbKey, int] = {}
        # What was last taken of both.
        self._taken: dict[DbKey, int] = {}
        self._taken_ttl: dict[DbKey, int] = {}

    @property
    def leads(self) -> bool:
        return self._leads

    @leads.setter
    def leads(self, leads: bool) -> None:
        if leads != self._leads:
            self._leads = leads
            turned, self._turned = self._turned, asyncio.Event()
            turned.set()

    async def until(self, leads: bool) -> None:
        """Ends when this proxy leads, or does not, as `leads` says."""
        while self._leads != leads:
            await self._turned.wait()

    def begin(self, leads: bool) -> None:
        """Begins with a server, perhaps another one than before."""
        self.leads, self.take_over_ms = leads, NOTHING_DUE

    def announced(self, db: int, deadline_ms: int) -> None:
        """Takes the first deadline of a key, which was announced."""
        if self.leads:
            self.look_at(deadline_ms)

    def lead(self) -> None:
        """Makes this proxy act at deadlines from now on, and look for what is due already."""
        self.leads = True
        self.look_at(0)

    def take_over(self, at_ms: int) -> None:
        """Plans a look at `at_ms`, because something is late. If another proxy leads, this one then
        tries for the lease."""
        if not self.leads:
            self.take_over_ms = min(self.take_over_ms, at_ms)
        self.look_at(at_ms)

    def look_at(self, due_ms: int) -> None:
        """Plans a look once the clock is past this time, because something may be due."""
        if due_ms < self.next_ms:
            self.next_ms = due_ms
            self.woken.set()

    def look_now(self) -> None:
        """Does at once what was put off by the old clock, because the server's clock was set."""
        self._sweeps = dict.fromkeys(self._sweeps, 0)
        self._awaiting_ttl = dict.fromkeys(self._awaiting_ttl, 0)
        self.parked.put_off_no_more()
        self.take_over(0)  # the proxy that leads may notice later
        self.look_at(0)

    def sweep(self, places: Iterable[DbKey], now_ms: int) -> None:
        """Plans a sweep: a request, or a reap, of now may leave index entries whose element is
        gone."""
        due_ms = now_ms + self.sweep_after_ms
        for place in places:
            self._sweeps.setdefault(place, due_ms)
            self.look_at(due_ms)

    def apply_ttl(self, places: Iterable[DbKey], now_ms: int) -> None:
        """Plans a sweep of these places, after which elements get deadlines by rules of ONWRITE."""
        places = list(places)
        self._awaiting_ttl.update(dict.fromkeys(places, now_ms + self.sweep_after_ms))
        self.sweep(places, now_ms)

    def swapped(self, one: int, other: int) -> None:
        """Plans what is planned, or was just done, in one of two databases in the other one, too:
        they have changed places, before the write that it is for or after it."""
        partners = {one: other, other: one}

        def moved(places: Mapping[DbKey, int]) -> dict[DbKey, int]:
            in_either = ((at, due_ms) for at, due_ms in places.items() if at[0] in partners)
            return {(partners[db], key): due_ms for (db, key), due_ms in in_either}

        self._awaiting_ttl = moved(self._taken_ttl | self._awaiting_ttl) | self._awaiting_ttl
        self._sweeps = moved(self._taken | self._sweeps) | self._sweeps
        self.parked.put_off_no_more()
        self.look_at_sweeps()

    def drop(self, has_gone: Callable[[bytes], bool]) -> set[DbKey]:
        """Forgets the keys for which `has_gone` is true, because another server has them; returns
        those whose elements were to get deadlines."""
        self.parked.drop(has_gone)
        gone = {place for place in self._awaiting_ttl if has_gone(place[1])}
        self._awaiting_ttl = {
            at: due_ms for at, due_ms in self._awaiting_ttl.items() if at not in gone
        }
        self._sweeps = {at: due_ms for at, due_ms in self._sweeps.items() if not has_gone(at[1])}
        return gone

    def take_sweeps(self, now_ms: int) -> dict[DbKey, int]:
        """Takes the sweeps that are due: each place, and since when."""
        due = [place for place, due_ms in self._sweeps.items() if due_ms < now_ms]
        taken = {place: self._sweeps.pop(place) for place in due}
        self._taken = taken or self._taken
        return dict(taken)

    def take_awaiting_ttl(self, sweeps: Mapping[DbKey, int]) -> set[DbKey]:
        """Takes those of these sweeps that also give deadlines.

        A write there that came later than that of the sweep gets another one.
        """
        taken = {at: self._awaiting_ttl[at] for at in sweeps if at in self._awaiting_ttl}
        self._taken_ttl = taken if sweeps else self._taken_ttl
        for place, due_ms in taken.items():
            if due_ms > sweeps[place]:
                self._sweeps.setdefault(place, due_ms)
            else:
                del self._awaiting_ttl[place]
        return {*taken}

    def put_back(self, sweeps: dict[DbKey, int], awaiting_ttl: Iterable[DbKey]) -> None:
        """Puts back sweeps that were not done; `awaiting_ttl`: places of deadlines by rules."""
        self._sweeps = sweeps | self._sweeps
        self._awaiting_ttl = {place: sweeps[place] for place in awaiting_ttl} | self._awaiting_ttl

    def look_at_sweeps(self) -> None:
        """Plans a look for each sweep that is left."""
        for due_ms in self._sweeps.values():
            self.look_at(due_ms)
