"""SUBSCRIBE and its like in front of several masters: at the home, or at the master of a slot.

In RESP2 messages are arrays like any reply, so a subscribed client's requests go one at a time.
"""

from __future__ import annotations

import asyncio
from itertools import count
from typing import TYPE_CHECKING, Final

from ttlproxy.core.keys import slot
from ttlproxy.link import Backoff
from ttlproxy.proxy.routed.bounces import is_bounce, shown
from ttlproxy.proxy.routed.lane import Lane
from ttlproxy.proxy.routed.ticket import Ticket
from ttlproxy.wire import encode

if TYPE_CHECKING:
    from ttlproxy.proxy.routed.routed_client import RoutedClient

_AGAIN: Final = Backoff(cap=0.1, base=0.002)
# What a request changes, and whether it adds.
KINDS: Final = {
    "SUBSCRIBE": ("channel", True),
    "UNSUBSCRIBE": ("channel", False),
    "PSUBSCRIBE": ("pattern", True),
    "PUNSUBSCRIBE": ("pattern", False),
    "SSUBSCRIBE": ("shard", True),
    "SUNSUBSCRIBE": ("shard", False),
}


class Subscriptions:
    """The channels and patterns of one client, by connection and kind."""

    def __init__(self, client: RoutedClient) -> None:
        self._client = client
        self._names: dict[tuple[Lane, str], set[bytes]] = {}

    @property
    def listens(self) -> bool:
        return any(self._names.values())

    @property
    def limits(self) -> bool:
        """Whether Redis takes only requests about subscriptions: the client is in RESP2."""
        return self.listens and not self._client.connection_settings.is_resp3

    def needs(self, lane: Lane) -> bool:
        return any(names and at is lane for (at, _), names in self._names.items())

    def reset(self, home: Lane) -> None:
        self._names.clear()
        home.forget_subscriptions()

    async def ask(self, args: list[bytes], raw: bytes) -> None:
        """A request of a subscribed client in RESP2: PING is answered, and others are refused.

        That comes after the look at the slot, so the request names a slot of that master.
        """
        lane = next(at for (at, _), names in self._names.items() if names)
        keys, own = set(self._client.ways.certain_keys_of(args)), lane.link.context.keys.own_tag
        words = [own if word in keys else word for word in args]
        self._client.say(await lane.asked(Ticket(words, encode(tuple(words)), None)))

    async def change(self, args: list[bytes], raw: bytes) -> None:
        """Sends the request where it belongs; again if its slot has moved."""
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

    async def _lane(self, args: list[bytes]) -> Lane:
        """Where a request goes, once there is a master for it."""
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
        by_push = self._client.connection_settings.is_resp3
        reply = await lane.confirmed(Ticket(args, raw, None), confirmations, by_push=by_push)
        if reply.startswith(b"-"):
            pass
        elif adds:
            names.update(args[1:])
        else:
            names.difference_update(args[1:] or tuple(names))
        if not self.needs(lane):
            lane.forget_subscriptions()
        return reply

    def _kind(self, args: list[bytes]) -> tuple[str, bool]:
        return KINDS[self._client.ways.router.find(args[0]).name]
