"""Limits the connections of clients to each master, and to all of them together.

A client that needs one more waits in line. An unused connection of another client makes room for it
at once, the one that was used the longest ago of those that were looked at; if there is none, this
looks again and again until somebody gives one up.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from itertools import count, islice
from typing import Final, NamedTuple

from ttlproxy.link import Link
from ttlproxy.proxy.routed.lane import Lane

# This many connections are looked at for one that is to be closed, as Redis looks at some keys for
# one that it evicts (maxmemory-samples). A look at one takes under a microsecond.
_SAMPLE: Final = 64
# Between two looks while somebody waits.
_LOOK_S: Final = 0.01


class _Waiter(NamedTuple):
    """number: the lowest has waited the longest"""

    number: int
    lane: Lane
    admitted: asyncio.Future[None]


class _Master:
    """The connections to one master, and the clients that wait for one.

    lanes: connections to it, also those that are being made, the one that was checked last at the
    end
    line: the clients that wait for a connection; closing: connections that were closed, and are not
    gone yet
    """

    def __init__(self) -> None:
        self.lanes: dict[Lane, None] = {}
        self.line: deque[_Waiter] = deque()
        self.closing: set[Lane] = set()

    def sample(self) -> list[Lane]:
        """Returns some of its connections, other ones each time."""
        some = list(islice(self.lanes, _SAMPLE))
        for lane in some:
            del self.lanes[lane]
            self.lanes[lane] = None
        return some


class ConnectionLimit:
    """Counts the connections of all clients of this process."""

    def __init__(self, each: Callable[[], int], in_all: Callable[[], int]) -> None:
        """`each`, `in_all`: the most to one master, and to all."""
        self._each = each
        self._in_all = in_all
        self._masters: dict[Link, _Master] = {}
        self._total = 0
        self._numbers = count()
        self._next_look: asyncio.TimerHandle | None = None

    async def enter(self, lane: Lane) -> None:
        """Ends when the lane may connect, which counts until `leave`."""
        master = self._masters.setdefault(lane.link, _Master())
        if not (master.line or self._is_full(master)):
            self._admit(master, lane)
            return
        context = lane.link.context
        context.node_counts.connection_waits += 1
        context.connections.waiting += 1
        admitted = asyncio.get_running_loop().create_future()
        waiter = _Waiter(next(self._numbers), lane, admitted)
        master.line.append(waiter)
        self._look()
        try:
            await admitted
        except BaseException:
            if waiter in master.line:
                master.line.remove(waiter)
            self.leave(lane)  # it may have been admitted just now
            raise
        finally:
            context.connections.waiting -= 1

    def leave(self, lane: Lane) -> None:
        """The lane's connection has gone, if it had one."""
        master = self._masters.get(lane.link)
        if master is None:
            return
        if lane in master.lanes:
            del master.lanes[lane]
            master.closing.discard(lane)
            self._total -= 1
            self._admit_next()
        if not (master.lanes or master.line):
            del self._masters[lane.link]

    def make_room_at(self, link: Link) -> None:
        """Gives up one connection to this master, which has refused another because it has too
        many."""
        master = self._masters.get(link)
        if master is not None and not master.closing:
            self._give_up([master])

    def _is_full(self, master: _Master) -> bool:
        return len(master.lanes) >= self._each() or self._total >= self._in_all()

    def _admit(self, master: _Master, lane: Lane) -> None:
        master.lanes[lane] = None
        self._total += 1

    def _admit_next(self) -> None:
        """Admits all clients that may connect now, those first that have waited the longest."""
        while True:
            open_to = [each for each in self._masters.values() if each.line]
            open_to = [each for each in open_to if not self._is_full(each)]
            if not open_to:
                return
            master = min(open_to, key=lambda each: each.line[0].number)
            waiter = master.line.popleft()
            if not waiter.admitted.done():
                self._admit(master, waiter.lane)
                waiter.admitted.set_result(None)

    def _look(self) -> None:
        """Closes unused connections for clients that wait, and looks again while there are any."""
        if self._next_look is not None:
            self._next_look.cancel()
            self._next_look = None
        self._admit_next()  # the limit may have been raised
        masters = list(self._masters.values())
        for master in masters:
            if len(master.lanes) >= self._each():
                while len(master.line) > len(master.closing) and self._give_up([master]):
                    pass
        if self._total >= self._in_all():
            while _waiting(masters) > _closing(masters) and self._give_up(masters):
                pass
        if _waiting(masters):
            self._next_look = asyncio.get_running_loop().call_later(_LOOK_S, self._look)

    def _give_up(self, masters: Iterable[_Master]) -> bool:
        """Closes an unused connection to one of these; False if none was found now."""
        looked = [(lane, master) for master in masters for lane in master.sample()]
        unused = [(lane, master) for lane, master in looked if lane.is_unused]
        if not unused:
            return False
        lane, master = min(unused, key=lambda each: each[0].used_s)
        master.closing.add(lane)
        lane.give_up()
        return True


def _waiting(masters: Iterable[_Master]) -> int:
    return sum(len(master.line) for master in masters)


def _closing(masters: Iterable[_Master]) -> int:
    return sum(len(master.closing) for master in masters)
