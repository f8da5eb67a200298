"""What clients asked for and what they were shown, and whether that is possible. Knows no I/O.

Instants are ms of the machine's clock, which this module does not read. Deadlines are ms of the
server's clock, which jumps. Each element has one writer. It begins nothing before its last request
is answered, and gives up an element whose last request got no reply. So at any time one request
determines an element, and at most one more may.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import NamedTuple

# A fault's history shows the reads within this time of the wrong one.
_NEAR_MS = 2000
# The news of a deadline take a way of their own to a proxy, also to the one that set it: a reader
# behind the reply may be faster, if the deadline was past by then.
_NEWS_MS = 100

Window = tuple[float, float]


@dataclass(frozen=True)
class State:
    """What a request leaves: a value, or None for no element; and its deadline, if known.

    The deadline lies between `least_ms` and `most_ms`: it may have been given as a time to live.
    """

    value: str | None
    least_ms: float = math.inf
    most_ms: float = math.inf


GONE = State(None)
# A key that is past its expiry is deleted within this time, unless the clock jumps back before.
_DELETED_MS = 500


@dataclass(frozen=True)
class Write:
    """A request about one element, or several requests in a row that were sent together.

    ended_ms: when the reply had come; infinite if none came: it may or may not have been carried
    out
    states: what each of the requests leaves; the last state stays
    may_be_lost: the reply may have been that of a master which is one no more
    given_up_ms: when the client saw that no reply will come
    """

    begun_ms: float
    ended_ms: float
    states: tuple[State, ...]
    words: str
    may_be_lost: bool = False
    given_up_ms: float = -math.inf

    @property
    def in_doubt(self) -> bool:
        return math.isinf(self.ended_ms)


@dataclass(frozen=True)
class Read:
    """A read of a whole key: the elements that were shown, and their values."""

    begun_ms: float
    ended_ms: float
    shown: Mapping[str, str]
    by: str


class ServersClock:
    """What the server's clock showed, and when."""

    def __init__(self) -> None:
        # from, until, how far it was ahead of the machine's clock
        self._spans: list[tuple[float, float, float]] = [(-math.inf, math.inf, 0.0)]

    def jumped(self, begun_ms: float, ended_ms: float, ahead_ms: float) -> None:
        """Between these instants the clock jumped; since then it has been so far ahead."""
        begin, _, before_ms = self._spans[-1]
        self._spans[-1] = (begin, ended_ms, before_ms)
        self._spans.append((begun_ms, math.inf, ahead_ms))

    def surely_past(self, deadline_ms: float, since_ms: float) -> float:
        """The first instant from `since_ms` on at which it was past the deadline, and stayed so."""
        moments = [since_ms, *(end + 1 for _, end, _ in self._spans)]
        moments += [deadline_ms - ahead + 1 for _, _, ahead in self._spans]
        past = (
            at_ms
            for at_ms in moments
            if at_ms >= since_ms and self.least(at_ms, at_ms + _DELETED_MS) > deadline_ms
        )
        return min(past, default=math.inf)

    def forget_before(self, ms: float) -> None:
        """Drops the past: nobody will ask for it."""
        self._spans = [span for span in self._spans if span[1] >= ms]

    def least(self, begun_ms: float, ended_ms: float) -> float:
        """The least that it can have shown in between."""
        return min(
            max(begin, begun_ms) + ahead
            for begin, end, ahead in self._spans
            if begin <= ended_ms and end >= begun_ms
        )

    def most(self, begun_ms: float, ended_ms: float) -> float:
        """The most that it can have shown in between."""
        return max(
            min(end, ended_ms) + ahead
            for begin, end, ahead in self._spans
            if begin <= ended_ms and end >= begun_ms
        )

    def most_before(self, shown_ms: float, within_ms: float) -> float:
        """The most that it can have shown when it showed `shown_ms`, or up to `within_ms` earlier.

        That is more than `shown_ms` only if the clock jumped back in between.
        """
        moments = self._moments(shown_ms)
        return max((self.most(at_ms - within_ms, at_ms) for at_ms in moments), default=shown_ms)

    def most_since(self, shown_ms: float) -> float:
        """The most that it can have shown just before it jumped back, since it first showed
        `shown_ms`; that itself if it did not jump back."""
        since_ms = min(self._moments(shown_ms), default=math.inf)
        before_jumps = (
            end + ahead
            for (_, end, ahead), (_, _, later) in pairwise(self._spans)
            if later < ahead and end >= since_ms
        )
        return max(before_jumps, default=shown_ms)

    def _moments(self, shown_ms: float) -> list[float]:
        """When it can have shown this."""
        return [
            shown_ms - ahead
            for begin, end, ahead in self._spans
            if begin <= shown_ms - ahead <= end + 1  # the value may be cut to a whole ms
        ]

    def first_past(self, deadline_ms: float, since_ms: float) -> float:
        """The first instant from `since_ms` on when it can have been past the deadline."""
        return min(
            (
                at_ms
                for begin, end, ahead in self._spans
                if end >= since_ms
                and (at_ms := max(begin, since_ms, deadline_ms - ahead)) <= end
                and at_ms < math.inf
            ),
            default=math.inf,
        )


@dataclass
class Excuses:
    """When a server in trouble may show what it otherwise would not.

    late: elements past their deadline may still be shown
    lagging: some connections may still lead to a server that is no longer the master
    rewound: what was acknowledged then may be lost, as a replica has taken over that lacks it
    evicting: a key that has an expiry may be evicted
    ahead: the clock was set forward. Where there are rules of ONEXPIRE, a key that ends by that may
      take writes until it is reaped
    """

    late: list[Window] = field(default_factory=list)
    lagging: list[Window] = field(default_factory=list)
    rewound: list[Window] = field(default_factory=list)
    evicting: list[Window] = field(default_factory=list)
    ahead: list[Window] = field(default_factory=list)

    def forget_before(self, ms: float) -> None:
        """Drops the past: nobody will ask for it."""
        for windows in (self.late, self.lagging, self.rewound, self.evicting, self.ahead):
            windows[:] = [window for window in windows if window[1] >= ms]

    def set_forward(self, begun_ms: float, seen_ms: float) -> None:
        """The clock was set forward; since `seen_ms` all proxies know."""
        self.late.append((begun_ms, seen_ms))
        self.ahead.append((begun_ms, seen_ms))

    def marked(self, writes: Sequence[Write]) -> list[Write]:
        """The same writes, with a mark if they may be lost."""
        return [
            replace(write, may_be_lost=write.may_be_lost or within(self.rewound, write.ended_ms))
            for write in writes
        ]


def within(windows: Sequence[Window], at_ms: float) -> bool:
    """Whether one of the windows has this moment."""
    return any(begin <= at_ms <= end for begin, end in windows)


def meets(windows: Sequence[Window], begun_ms: float, ended_ms: float) -> bool:
    """Whether one of the windows has a moment of this time."""
    return any(begin <= ended_ms and end >= begun_ms for begin, end in windows)


@dataclass(frozen=True)
class Ends:
    """When a key ended as a whole, by its own expiry, or evicted: what is known of that.

    writes: those of its expiry, by one client, in order; a state's deadline is the expiry
    """

    writes: Sequence[Write]
    clock: ServersClock
    excuses: Excuses

    def may_be(self, begun_ms: float, ended_ms: float) -> bool:
        """Whether the key may have ended in this time."""
        for at, write in enumerate(self.writes):
            for expiry in write.states:
                if expiry.value is None:
                    continue
                replaced_ms = min(
                    (
                        later.ended_ms
                        for later in self.writes[at + 1 :]
                        if not (later.may_be_lost or self._is_too_late(later, expiry))
                    ),
                    default=math.inf,
                )
                begin = max(begun_ms, write.begun_ms)
                end = min(ended_ms, replaced_ms, self._over_ms(write, expiry))
                is_evicted = begin <= end and meets(self.excuses.evicting, begin, end)
                if is_evicted or self.clock.first_past(expiry.least_ms, begin) <= end:
                    return True
        return False

    def _is_too_late(self, later: Write, expiry: State) -> bool:
        """Whether the clock was set forward past the expiry, and the key may not have been reaped
        yet when this was carried out: then the key does not outlive that reap."""
        begun_ms, ended_ms = later.begun_ms, later.ended_ms
        is_past = self.clock.first_past(expiry.least_ms, begun_ms) <= ended_ms
        return is_past and meets(self.excuses.ahead, begun_ms, ended_ms)

    def _over_ms(self, write: Write, expiry: State) -> float:
        """Since when the key has ended if that was its expiry: later writes make a new key."""
        if write.in_doubt:
            return math.inf
        over_ms = self.clock.surely_past(expiry.most_ms, write.ended_ms)
        seen = [end for begin, end in self.excuses.ahead if begin <= over_ms <= end]
        return max([over_ms, *seen])

    def due_ms(self, written: Write | None, read: Read) -> float:
        """The latest time at which the key ended with what that left; infinite if it may not have.

        That is certain only of what was there before, in a key that was not evicted, and whose
        expiry nobody changed, until then.
        """
        if written is None or written.in_doubt:
            return math.inf
        found = [math.inf]
        for at, write in enumerate(self.writes):
            expiry = write.states[-1]
            if write.in_doubt or write.may_be_lost or math.isinf(expiry.most_ms):
                continue
            over_ms, changed_ms = self._over_ms(write, expiry), math.inf
            if at + 1 < len(self.writes):
                changed_ms = self.writes[at + 1].begun_ms
            begun_ms = min(write.begun_ms, written.begun_ms)
            ended_ms = max(write.ended_ms, written.ended_ms)
            if (
                over_ms <= min(changed_ms, read.begun_ms)
                and self.clock.most(begun_ms, ended_ms) <= expiry.least_ms
                and not meets(self.excuses.evicting, write.begun_ms, over_ms)
            ):
                found.append(expiry.most_ms)
        return min(found)


@dataclass(frozen=True)
class Fault:
    """Something that is not possible."""

    key: str
    element: str
    what: str
    history: tuple[str, ...]

    def __str__(self) -> str:
        return "\n    ".join([f"{self.key} {self.element}: {self.what}", *self.history])


@dataclass
class Key:
    """The history of one key: the writes of each of its elements, and of its own expiry, in order,
    and all reads."""

    name: str
    writes: dict[str, list[Write]] = field(default_factory=dict)
    reads: list[Read] = field(default_factory=list)
    expiry: list[Write] = field(default_factory=list)

    def faults(self, clock: ServersClock, excuses: Excuses) -> Iterator[Fault]:
        """At most one for each element."""
        marked = {name: excuses.marked(writes) for name, writes in self.writes.items()}
        left, unknown = dict(marked), set[str]()
        ends = Ends(excuses.marked(self.expiry), clock, excuses)
        for read in sorted(self.reads, key=lambda read: read.begun_ms):
            if meets(excuses.lagging, read.begun_ms, read.ended_ms):
                continue
            late = meets(excuses.late, read.begun_ms, read.ended_ms)
            for element in read.shown.keys() - self.writes.keys() - unknown:
                unknown.add(element)
                yield Fault(self.name, element, f"shown to {read.by}, and never written", ())
            for element in [*left, *(read.shown.keys() & (self.writes.keys() - left.keys()))]:
                writes = marked[element]
                if writes[0].begun_ms > read.ended_ms and element not in read.shown:
                    continue
                counting = _counting(writes, read)
                what = _wrong(read.shown.get(element), counting, read, ends, late=late)
                if what is not None:
                    yield self._fault(element, what, read, clock)
                if what is not None or (
                    element not in read.shown and writes[-1].ended_ms < read.begun_ms
                ):
                    left.pop(element, None)  # gone for good: nobody writes it any more

    def _fault(self, element: str, what: str, read: Read, clock: ServersClock) -> Fault:
        writes = [
            _Line(write.begun_ms, write.ended_ms, write.words)
            for write in [*self.writes[element], *self.expiry]
        ]
        reads = [
            _Line(
                other.begun_ms,
                other.ended_ms,
                f"{other.by} is shown {other.shown.get(element, 'nothing')!r}",
            )
            for other in self.reads
            if abs(other.begun_ms - read.begun_ms) < _NEAR_MS
        ]
        lines = [
            f"{line.begun_ms:.0f} to {line.ended_ms:.0f} "
            f"(server {clock.least(line.begun_ms, line.begun_ms):.0f}): {line.what}"
            for line in sorted([*writes, *reads])
        ]
        return Fault(self.name, element, f"{what}, at {read.begun_ms:.0f}", tuple(lines))


class _Line(NamedTuple):
    begun_ms: float
    ended_ms: float
    what: str


class _Met(NamedTuple):
    """What a read may have met: a state, and the write that left it; None: before all writes."""

    state: State
    write: Write | None

    @property
    def since_ms(self) -> float:
        """The earliest time at which the state can have existed."""
        return -math.inf if self.write is None else self.write.begun_ms

    def due_ms(self, ends: Ends, read: Read) -> float:
        """The latest time at which it is due, or its key has ended.

        If the deadline is past when the write is carried out, the time of the write counts: if
        there are rules of ONEXPIRE, elements stay until they are reaped. A read after the reply,
        and after the news of the deadline, does not show them.
        """
        if self.write is None:
            return self.state.most_ms
        begun_ms, ended_ms = self.write.begun_ms, self.write.ended_ms
        if self.write.in_doubt:
            ended_ms = max(begun_ms, self.write.given_up_ms)
        due_ms, replied_ms = self.state.most_ms, ends.clock.most(begun_ms, ended_ms)
        if due_ms < replied_ms:
            due_ms = replied_ms + _NEWS_MS
        return min(due_ms, ends.due_ms(self.write, read))


def _counting(writes: Sequence[Write], read: Read) -> list[_Met]:
    """All states that a read may have met."""
    met = [_Met(GONE, None)]
    for write in writes:
        if write.begun_ms > read.ended_ms:
            break
        if write.ended_ms < read.begun_ms and not write.may_be_lost:
            met = [_Met(write.states[-1], write)]
        else:
            met += [_Met(state, write) for state in write.states]
    return met


def _wrong(
    value: str | None,
    met: Sequence[_Met],
    read: Read,
    ends: Ends,
    *,
    late: bool,
) -> str | None:
    """What is wrong with what was shown of an element; None if it is possible."""
    if value is None:
        for each in met:
            past_ms = ends.clock.first_past(each.state.least_ms, each.since_ms)
            if each.state.value is None or past_ms <= read.ended_ms:
                return None
            if ends.may_be(each.since_ms, read.ended_ms):
                return None
        return f"not shown to {read.by}"
    alike = [each for each in met if each.state.value == value]
    if not alike:
        return f"{value!r} shown to {read.by}"
    shown_ms = math.floor(ends.clock.least(read.begun_ms, read.ended_ms))
    left_ms = max(each.due_ms(ends, read) for each in alike) - shown_ms
    if left_ms >= 0 or late:
        return None
    return f"shown to {read.by} {-left_ms:.0f} ms after its deadline"
