"""Sends requests again that a node has sent back, or that no master can take for now.

All requests of a slot in trouble go one at a time, in their order, until none is left: so what is
sent again never meets what came later. The client sees no MOVED and no ASK: for what lasts for
longer than hold_max, or is sent back too often, it gets another error.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable, Sequence
from contextlib import suppress
from itertools import count
from typing import TYPE_CHECKING, Final

from ttlproxy.errors import NOT_SERVED, NoFreeConnection, SlotMoved
from ttlproxy.link import Backoff, Link, Masters
from ttlproxy.proxy.routed import lane_calls
from ttlproxy.proxy.routed.bounces import Bounce, read, shown
from ttlproxy.proxy.routed.lane import Lane
from ttlproxy.proxy.routed.pending_request import PendingRequest

if TYPE_CHECKING:
    from ttlproxy.proxy.routed.routed_client import RoutedClient

# The most times that a request is sent to another node.
_MOST: Final = 5
# Between two attempts while a slot is on its way, or has no master.
_AGAIN: Final = Backoff(cap=0.05, base=0.001)
# The longest wait for a change of the masters before the next attempt.
_CHANGE_S: Final = 0.5
_ON_THE_WAY: Final = (b"ASK", b"TRYAGAIN")


class Redirects:
    """
    lines: requests of one client that have come back, by slot; later ones have to wait in line
    """

    def __init__(self, masters: Masters, client: RoutedClient) -> None:
        self._masters = masters
        self._client = client
        self.lines: dict[int | None, deque[PendingRequest]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def add(self, requests: Iterable[PendingRequest]) -> None:
        """Requests that have come back, or are for a slot that is in trouble or has no master."""
        for request in requests:
            if request.slot is None and (told := read(request.error or b"")) and told.slot >= 0:
                request.slot = told.slot
            self._begin(request.slot, request.lane)
            self.lines[request.slot].append(request)

    def changed(self, owners: Sequence[Link | None]) -> None:
        """Slots have other masters: later requests wait for what is on its way to the old ones."""
        order = self._client.order
        order.open()
        for request in order.owed:
            lane, number = request.lane, request.slot
            if number is None or lane is None or request.reply is not None:
                continue
            if owners[number] is not lane.link:
                self._begin(number, lane)

    def end(self) -> None:
        """The client has gone, or ends."""
        for task in self._tasks:
            task.cancel()
        self.lines.clear()

    def _begin(self, slot: int | None, lane: Lane | None) -> None:
        """Begins a line, unless there is one; `lane`: where requests of the slot have gone."""
        if slot in self.lines:
            return
        self.lines[slot] = deque()
        task = asyncio.create_task(self._settle(slot, lane), name="redirects")
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (trouble := task.exception()) is not None:
            self._client.failed(trouble)

    async def _settle(self, slot: int | None, lane: Lane | None) -> None:
        """Sends what is in line, one request after the other, until nobody is left."""
        line = self.lines[slot]
        if lane is not None and not lane.is_closed:
            await lane.replies.answered()  # what went behind it may come back, too
        if line:
            self._put_in_order(line)
            self._give_up_overtaken(line)
        while line:
            request = line[0]
            reply = await self.ask(request)
            line.popleft()
            self._client.order.answered(request, reply)
            while reply == NOT_SERVED and line:  # they have waited as well
                self._client.order.answered(line.popleft(), reply)
            self._client.flush()
        self.lines.pop(slot, None)  # the last reply may have ended the client

    def _put_in_order(self, line: deque[PendingRequest]) -> None:
        """Puts them in the client's order: some come back from a node, others never went there."""
        places = {id(request): at for at, request in enumerate(self._client.order.owed)}
        found = sorted(line, key=lambda request: places.get(id(request), -1))
        line.clear()
        line.extend(found)

    def _give_up_overtaken(self, line: deque[PendingRequest]) -> None:
        """A later request on the same key may have been carried out before one that came back.

        If it has changed nothing, it is sent again. If it has, the earlier one comes too late, and
        the client gets its error.
        """
        table, order = self._client.routing_table, self._client.order
        back = set(map(id, line))
        keys = {key for request in line for key in table.keys_of(request.args)}
        overtaking = [
            request
            for request in order.behind(line[0])
            if request.reply is not None and id(request) not in back
            if not keys.isdisjoint(table.keys_of(request.args))
        ]
        if any(table.modifies(each.args) and not _has_failed(each) for each in overtaking):
            for request in [each for each in line if each.error is not None]:
                line.remove(request)
                self._client.order.answered(request, shown(request.error or b""))
            self._client.flush()
            return
        for request in overtaking:
            order.take_back(request)
        line.extend(overtaking)
        self._put_in_order(line)

    async def ask(self, request: PendingRequest) -> bytes:
        """The reply to a request, wherever it must go for it, or what is `shown` of the last error
        with which it came back; NOT_SERVED if there was no master for it for hold_max.

        Raises UpstreamError if the connection ended before the reply.
        """
        loop = asyncio.get_running_loop()
        until_s = loop.time() + self._client.hold_max_s
        error, moves = request.error, 0
        for attempt in count():
            told = read(error) if error is not None else None
            if error is not None and attempt and told is None:
                return error  # it is the reply
            if told is not None and told.kind in _ON_THE_WAY:
                reply = await self._asked_on_the_way(request, told)
                if reply is not None and read(reply) is None:
                    return reply
            moves += told is not None and told.kind == b"MOVED"
            if moves > _MOST or loop.time() > until_s:
                return NOT_SERVED if error is None else shown(error)
            await self._pause(request, told, attempt)
            error = await self._asked(request)
        raise AssertionError

    async def _asked(self, request: PendingRequest) -> bytes | None:
        """The reply of the slot's master, or its error; None if there is none for now."""
        lane = self._client.lanes.of(request.slot)
        if lane is None:
            return None
        try:
            return await lane_calls.asked(lane, request)
        except SlotMoved:
            return None

    async def _asked_on_the_way(self, request: PendingRequest, told: Bounce) -> bytes | None:
        """The reply of one of the two masters between which the slot is on its way; None if there
        is none for now."""
        lanes = self._client.lanes
        source = lanes.of(request.slot)
        if source is None:
            self._masters.look()
            return None
        try:
            await source.opened()
            bare = await lane_calls.unindexed(source, request)
            if lanes.of(request.slot) is not source:
                return None
            if bare is not None and (bare != request.raw or told.kind != b"ASK"):
                reply = await lane_calls.asked_as(source, request, bare)
                bounce = read(reply)
                if bounce is None:
                    return reply
                told = bounce
            return await self._asked_there(request, told, source, bare)
        except (SlotMoved, NoFreeConnection, TimeoutError):
            return None

    async def _asked_there(
        self, request: PendingRequest, told: Bounce, source: Lane, bare: bytes | None
    ) -> bytes | None:
        """The reply of the master that takes the slot over; None if it cannot be asked now. `bare`:
        the request, if its form is known already.

        While a lane to it is opened, the slot may arrive there: then its old master's link has
        forgotten what is due in it.
        """
        lanes = self._client.lanes
        if told.kind != b"ASK":
            return None
        target = lanes.at(told.host, told.port)
        if target is None:
            self._masters.look()
            return None
        await target.opened()
        if lanes.of(request.slot) is not source:
            return None
        data = lane_calls.on_the_way(source, request) if bare is None else bare
        if data is None:
            return None
        return await lane_calls.asked_as(target, request, data, asking=True)

    async def _pause(self, request: PendingRequest, told: Bounce | None, attempt: int) -> None:
        """Waits until another attempt may have another end."""
        if told is not None and told.kind in _ON_THE_WAY:
            await asyncio.sleep(_AGAIN.compute(attempt + 1))
            return
        before = request.lane.link if request.lane is not None else None
        with suppress(TimeoutError):
            async with asyncio.timeout(_CHANGE_S):
                while not self._is_served(request.slot, before):
                    self._masters.look()
                    await self._masters.change()

    def _is_served(self, slot: int | None, before: Link | None) -> bool:
        """Whether another master than before serves the slot."""
        if slot is None:
            return self._masters.home is not None
        return self._masters.owners[slot] not in (None, before)


def _has_failed(request: PendingRequest) -> bool:
    return request.reply is not None and request.reply.startswith(b"-")
