"""MULTI, EXEC and WATCH in front of several masters: a transaction is at one of them.

The first key says which. A transaction that comes back, because its slot has moved, is begun anew
at the slot's master, as nothing of it has been carried out; unless keys are watched, which may have
changed meanwhile: then EXEC answers null.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from itertools import count
from typing import TYPE_CHECKING, Final

from ttlproxy import errors
from ttlproxy.core.keys import slot
from ttlproxy.errors import NoFreeConnection, SlotMoved, UpstreamError
from ttlproxy.link import Backoff
from ttlproxy.proxy.routed.bounces import is_bounce
from ttlproxy.proxy.routed.connection_settings import is_setting
from ttlproxy.proxy.routed.gathering import OK
from ttlproxy.proxy.routed.lane import Lane
from ttlproxy.proxy.routed.lane_calls import asked, asked_together
from ttlproxy.proxy.routed.pending_request import PendingRequest
from ttlproxy.proxy.routed.requests_in import Request, RequestsIn
from ttlproxy.proxy.routed.subscriptions import KINDS
from ttlproxy.wire import encode

if TYPE_CHECKING:
    from ttlproxy.proxy.routed.routed_client import RoutedClient

_AGAIN: Final = Backoff(cap=0.1, base=0.002)
_MULTI: Final[Request] = ([b"MULTI"], encode((b"MULTI",)))
_DISCARD: Final[Request] = ([b"DISCARD"], encode((b"DISCARD",)))
_UNWATCH: Final[Request] = ([b"UNWATCH"], encode((b"UNWATCH",)))
# Refused by Redis for its number of words, so that EXEC aborts.
_SPOILING: Final[Request] = ([b"GET"], encode((b"GET",)))
# A transaction cannot have these: the replies in that of EXEC could not be counted, or every master
# must be told.
_REFUSED: Final = frozenset({"MONITOR", "SYNC", "PSYNC", "ONEXPIRE", "ONWRITE"}) | KINDS.keys()
_LAST: Final = frozenset({"EXEC", "DISCARD", "RESET", "QUIT"})
_QUEUED: Final = b"+QUEUED\r\n"
_CROSS_SLOT: Final = b"-%b\r\n" % errors.CROSS_SLOT
_ABORTED: Final = b"-EXECABORT Transaction discarded because of previous errors.\r\n"


class Transactions:
    """
    is_open: MULTI has passed, and neither EXEC nor DISCARD
    """

    def __init__(self, client: RoutedClient) -> None:
        self.is_open = False
        self._client = client
        self._lane: Lane | None = None  # where it is
        self._watched: Lane | None = None  # where keys are watched
        self._watched_slots: set[int | None] = set()
        self._history: list[Request] = []  # what Redis has queued
        self._lost = b""  # what EXEC answers, as the transaction cannot be carried out any more

    def needs(self, lane: Lane) -> bool:
        return lane is self._watched or (self.is_open and lane is self._lane and not self._lost)

    def reset(self) -> None:
        self.is_open = False
        self._lane = self._watched = None
        self._watched_slots.clear()
        self._history, self._lost = [], b""

    async def begin(self) -> bytes:
        self.is_open = True
        return OK

    async def watch(self, args: list[bytes], raw: bytes) -> bytes:
        client, request = self._client, PendingRequest(args, raw, slot(args[1]))
        lane = client.lanes.of(request.slot)
        if self._watched not in (None, lane):
            return _CROSS_SLOT
        reply = await client.redirects.ask(request)
        if reply.startswith(b"+"):
            self._watched = request.lane
            self._watched_slots.add(request.slot)
        return reply

    async def unwatch(self, args: list[bytes], raw: bytes) -> bytes:
        watched, self._watched = self._watched, None
        self._watched_slots.clear()
        if watched is None:
            return await self._client.ask(args, raw, None)
        return await asked(watched, PendingRequest(args, raw, None))

    async def go_on(self, requests: RequestsIn) -> None:
        """Takes the requests up to the end of the transaction, or as many as there are."""
        client, router = self._client, self._client.routing_table.router
        taken: list[Request] = []
        name = ""
        while requests.waiting and name not in _LAST:
            taken.append(requests.next())
            args = taken[-1][0]
            route = router.find(args[0])
            name = route.name if route.fits(len(args)) else ""
        rest = taken.pop() if name in ("RESET", "QUIT") else None
        is_over = name in ("EXEC", "DISCARD")
        replies = await self._answers(taken, is_over=is_over) if taken else []
        client.order.say(b"".join(replies))
        if is_over:
            self.reset()
        if rest is not None:
            self.is_open = False
            requests.waiting.appendleft(rest)

    async def _answers(self, requests: list[Request], *, is_over: bool) -> list[bytes]:
        """The replies to further requests of the transaction."""
        if self._has_moved(requests):
            await self._exchange(self._watched, [_UNWATCH] if self._lane is None else [_DISCARD])
            self._lost, self._lane = self._null(), None
        if self._lost:
            return self._without_redis(requests)
        loop = asyncio.get_running_loop()
        until_s = loop.time() + self._client.hold_max_s
        for attempt in count(1):
            lane = await self._place(requests, until_s)
            before = [] if lane is self._lane else [_MULTI, *self._history]
            refused = [self._refusal(args, lane) for args, _ in requests]
            checked = list(zip(refused, requests, strict=True))
            sent = [_SPOILING if each else request for each, request in checked]
            try:
                replies = await self._exchange(lane, [*before, *sent])
            except SlotMoved:  # some of it has not gone to Redis, EXEC at least
                replies, is_begun = None, True
            else:
                is_begun = not is_over
            if replies is not None and not any(map(is_bounce, replies)):
                self._lane, own = lane, replies[len(before) :]
                self._history += sent
                return [each or reply for each, reply in zip(refused, own, strict=True)]
            if is_begun and not lane.is_closed:
                await self._exchange(lane, [_DISCARD])
            self._lane = None
            if self._watched is not None or loop.time() > until_s:
                self._lost = self._null() if self._watched is not None else _ABORTED
                return self._without_redis(requests)
            self._client.masters.look()
            await asyncio.sleep(_AGAIN.compute(attempt))
        raise AssertionError

    async def _place(self, requests: list[Request], until_s: float) -> Lane:
        """The lane where the transaction is to be. Raises TimeoutError while it has no master."""
        client = self._client
        if self._watched is not None:
            return self._watched
        number = self._slot(requests)
        if number is None and self._lane is not None:
            return self._lane
        async with asyncio.timeout_at(until_s):
            while (lane := client.lanes.of(number)) is None:
                client.masters.look()
                await client.masters.change()
        if self._lane not in (None, lane):  # so far it had no key
            await self._exchange(self._lane, [_DISCARD])
            self._lane = None
            if lane.is_closed:  # it was given up meanwhile
                return client.lanes.to(lane.link)
        return lane

    def _slot(self, requests: Sequence[Request]) -> int | None:
        """The slot of the first key in the transaction."""
        slots = map(
            self._client.routing_table.slot_of, (args for args, _ in [*self._history, *requests])
        )
        return next((number for number in slots if number is not None), None)

    def _refusal(self, args: list[bytes], lane: Lane) -> bytes:
        """The error of a request that the transaction cannot have; empty if it can.

        Its key is at another master; or more than one node must know of it.
        """
        client = self._client
        name = client.routing_table.router.find(args[0]).name
        if name in _REFUSED or is_setting(name, args):
            return b"-%b\r\n" % errors.NOT_IN_A_TRANSACTION % name.encode()
        number = client.routing_table.slot_of(args)
        is_elsewhere = number is not None and client.lanes.of(number) not in (None, lane)
        return _CROSS_SLOT if is_elsewhere else b""

    async def _exchange(self, lane: Lane | None, requests: Sequence[Request]) -> list[bytes]:
        """The replies of a master to requests that go together."""
        assert lane is not None
        try:
            return await asked_together(
                lane, [PendingRequest(args, raw, None) for args, raw in requests]
            )
        except NoFreeConnection as trouble:
            raise UpstreamError(str(trouble)) from trouble  # it ends with its client

    def _without_redis(self, requests: Sequence[Request]) -> list[bytes]:
        names = [self._client.routing_table.router.find(args[0]).name for args, _ in requests]
        said = {"EXEC": self._lost, "DISCARD": OK}
        return [said.get(name, _QUEUED) for name in names]

    def _has_moved(self, requests: Sequence[Request]) -> bool:
        """Whether another master has the slot of watched keys now."""
        client, watched = self._client, self._watched
        if watched is None or self._lost:
            return False
        slots = self._watched_slots.intersection(
            client.routing_table.slot_of(args) for args, _ in requests
        )
        return any(client.lanes.of(number) not in (None, watched) for number in slots)

    def _null(self) -> bytes:
        return b"_\r\n" if self._client.connection_settings.is_resp3 else b"*-1\r\n"
