"""SUBSCRIBE and its like in front of several masters: at the home, or at the master of a slot.

A subscription that may hear keyspace events is made at all other masters of the client's port, too,
from which the client gets nothing else. In RESP2 messages are arrays like any reply, so a
subscribed client's requests go one at a time.
"""

from __future__ import annotations

import asyncio
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Final

from ttlproxy.core.keys import slot
from ttlproxy.link import Backoff
from ttlproxy.proxy.routed.bounces import is_bounce, shown
from ttlproxy.proxy.routed.keyspace_events import bulks, is_event, may_be, published_key
from ttlproxy.proxy.routed.lane import Lane
from ttlproxy.proxy.routed.lane_calls import asked, confirmed, forget_subscriptions
from ttlproxy.proxy.routed.lane_replies import CONFIRMATIONS, MESSAGES
from ttlproxy.proxy.routed.pending_request import PendingRequest
from ttlproxy.wire import encode

if TYPE_CHECKING:
    from ttlproxy.proxy.routed.routed_client import RoutedClient

_AGAIN: Final = Backoff(cap=0.1, base=0.002)
# (the kind of what a request changes, whether it adds).
KINDS: Final = {
    "SUBSCRIBE": ("channel", True),
    "UNSUBSCRIBE": ("channel", False),
    "PSUBSCRIBE": ("pattern", True),
    "PUNSUBSCRIBE": ("pattern", False),
    "SSUBSCRIBE": ("shard", True),
    "SUNSUBSCRIBE": ("shard", False),
}
_REQUESTS: Final = {what: name.encode() for name, what in KINDS.items()}


class Subscriptions:
    """The channels and patterns of one client, by connection and kind."""

    def __init__(self, client: RoutedClient) -> None:
        self._client = client
        self._names: dict[tuple[Lane, str], set[bytes]] = {}
        self._main: Lane | None = None  # where channels and patterns are subscribed to
        self._events: dict[str, set[bytes]] = {"channel": set(), "pattern": set(), "shard": set()}
        self._others: set[Lane] = set()  # where those that may hear events are, too

    @property
    def listens(self) -> bool:
        return any(self._names.values())

    @property
    def limits(self) -> bool:
        """Whether Redis takes only requests about subscriptions: the client is in RESP2."""
        return self.listens and not self._client.connection_settings.is_resp3

    @property
    def hears_events(self) -> bool:
        return any(self._events.values())

    def needs(self, lane: Lane) -> bool:
        return lane in self._others or any(
            names and at is lane for (at, _), names in self._names.items()
        )

    def reset(self, home: Lane) -> None:
        self._names.clear()
        self._others.clear()
        for names in self._events.values():
            names.clear()
        forget_subscriptions(home)

    async def ask(self, args: list[bytes], raw: bytes) -> bytes:
        """The reply to a request of a subscribed client in RESP2: PING is answered, and others are
        refused.

        That comes after the look at the slot, so the request names a slot of that master.
        """
        lane = next(at for (at, _), names in self._names.items() if names)
        keys, own = (
            set(self._client.routing_table.certain_keys_of(args)),
            lane.link.context.keys.own_tag,
        )
        words = [own if word in keys else word for word in args]
        return await asked(lane, PendingRequest(words, encode(tuple(words)), None))

    async def change(self, args: list[bytes], raw: bytes) -> None:
        """Events come from all masters as soon as the client has its confirmation."""
        kind, adds = self._kind(args)
        if not adds:
            known = self._events[kind]
            await self._tell_others(kind, known.intersection(args[1:] or known), adds=False)
            await self._change_at_one(args, raw)
        elif events := {name for name in args[1:] if kind != "shard" and may_be(name, kind)}:
            await self._reach_others()
            await self._tell_others(kind, events - self._events[kind], adds=True)
            before = self._events[kind]
            self._events[kind] = before | events
            if self._client.lanes.lacks_one:  # it is served since just now
                await self._reach_others()
            if (await self._change_at_one(args, raw)).startswith(b"-"):
                await self._tell_others(kind, events - before, adds=False)
        else:
            await self._change_at_one(args, raw)
        self._hear()

    async def _reach_others(self) -> None:
        lanes = await self._client.lanes.reach_all()
        fresh = {*lanes} - self._others - {self._client.lanes.home()}
        for lane in fresh:
            lane.replies.hears = _is_of_no_subscription
            for kind, names in self._events.items():
                await self._told(lane, kind, names, adds=True)
        self._others |= fresh

    async def _tell_others(self, kind: str, names: set[bytes], *, adds: bool) -> None:
        await asyncio.gather(*(self._told(lane, kind, names, adds=adds) for lane in self._others))
        if not adds:
            self._events[kind] = self._events[kind] - names

    async def _told(self, lane: Lane, kind: str, names: set[bytes], *, adds: bool) -> None:
        if names:
            words = [_REQUESTS[kind, adds], *names]
            request = PendingRequest(words, encode(tuple(words)), None)
            await confirmed(lane, request, len(names))

    def _hear(self) -> None:
        """Has each connection pass the messages of what the client is subscribed to now."""
        lanes = [*self._others, *filter(None, (self._main,))]
        hears_events = self.hears_events
        if not hears_events:
            self._others.clear()
        for lane in lanes:
            lane.replies.hears = partial(self._hears, lane) if hears_events else None
            if not self.needs(lane):
                forget_subscriptions(lane)

    def _hears(self, lane: Lane, push: bytes) -> bool:
        """Whether the client gets what a master says to it.

        An event that a script has published comes from each master: it counts from that of its
        key, where it is in order with other events of the key.
        """
        is_main = lane is self._main
        if b"__:" not in push or not push.startswith(MESSAGES[:2], 4):
            return is_main or _is_of_no_subscription(push)
        *_, channel, message = bulks(push)
        key = published_key(channel, message)
        owner = None if key is None else self._client.masters.owners[slot(key)]
        if owner is not None:
            return owner is lane.link
        return is_main or (key is None and is_event(channel))

    async def _change_at_one(self, args: list[bytes], raw: bytes) -> bytes:
        """Sends the request where it belongs; again if its slot has moved. Returns the last
        confirmation, or the error; the client has it."""
        client, loop = self._client, asyncio.get_running_loop()
        until_s = loop.time() + client.hold_max_s
        for attempt in count(1):
            async with asyncio.timeout_at(until_s):
                lane = await self._lane(args)
            reply = await self._changed(lane, args, raw)
            if not is_bounce(reply) or loop.time() > until_s:
                break
            client.masters.look()
            await asyncio.sleep(_AGAIN.compute(attempt))
        if reply.startswith(b"-"):
            client.say(shown(reply))
        return reply

    async def _lane(self, args: list[bytes]) -> Lane:
        """The lane of a request, once there is a master for it."""
        client = self._client
        kind, _ = self._kind(args)
        if len(args) == 1:
            known = (at for (at, of), names in self._names.items() if of == kind and names)
            if (subscribed := next(known, None)) is not None:
                return subscribed
        number = slot(args[1]) if kind == "shard" and len(args) > 1 else None
        while (lane := client.lanes.of(number)) is None:
            client.masters.look()
            await client.masters.change()
        return lane

    async def _changed(self, lane: Lane, args: list[bytes], raw: bytes) -> bytes:
        """The last of the confirmations, which have gone to the client, or the error."""
        kind, adds = self._kind(args)
        names = self._names.setdefault((lane, kind), set())
        confirmations = len(args) - 1 or len(names) or 1
        if kind != "shard":
            self._main = lane
        reply = await confirmed(lane, PendingRequest(args, raw, None), confirmations)
        if reply.startswith(b"-"):
            pass
        elif adds:
            names.update(args[1:])
        else:
            names.difference_update(args[1:] or tuple(names))
        if not self.needs(lane):
            forget_subscriptions(lane)
        return reply

    def _kind(self, args: list[bytes]) -> tuple[str, bool]:
        return KINDS[self._client.routing_table.router.find(args[0]).name]


def _is_of_no_subscription(push: bytes) -> bool:
    """Whether it is neither a message of a channel nor the confirmation of a subscription."""
    return not push.startswith((*CONFIRMATIONS[:4], *MESSAGES[:2]), 4)
