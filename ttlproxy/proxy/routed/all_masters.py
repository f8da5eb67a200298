"""Asks several masters the same, so that each that is a master at the end has answered."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from itertools import count
from typing import TYPE_CHECKING, Final

from ttlproxy.errors import SlotMoved
from ttlproxy.link import Backoff, Link
from ttlproxy.proxy.routed.bounces import is_bounce, shown
from ttlproxy.proxy.routed.lane import Lane
from ttlproxy.proxy.routed.lane_calls import asked
from ttlproxy.proxy.routed.pending_request import PendingRequest

if TYPE_CHECKING:
    from ttlproxy.proxy.routed.routed_client import RoutedClient

_AGAIN: Final = Backoff(cap=0.1, base=0.002)
# A master that has just become a replica answers with this.
_READ_ONLY: Final = b"-READONLY "
Links = Callable[[], Awaitable[Mapping[str, Link]]]


async def replies_of(
    client: RoutedClient, links: Links, args: Sequence[bytes], raw: bytes
) -> dict[str, bytes]:
    """The reply of each of these masters, by its id; `links()`: which they are now.

    A node that sends the request back is asked again, or the one that has replaced it is asked; for
    at most hold_max, then its error counts. Raises TimeoutError if it has none, and UpstreamError
    if a connection ends before the reply.
    """
    loop = asyncio.get_running_loop()
    until_s = loop.time() + client.hold_max_s
    replies: dict[str, bytes] = {}
    for attempt in count(1):
        now = await links()
        lacking = [name for name in now if _is_sent_back(replies.get(name))]
        replying = [_asked(client.lanes.to(now[name]), args, raw) for name in lacking]
        for name, reply in zip(lacking, await asyncio.gather(*replying), strict=True):
            replies[name] = reply or replies.get(name, b"")
        found = {name: replies[name] for name in now}
        if not any(map(_is_sent_back, found.values())):
            return found
        if loop.time() > until_s:
            if b"" in found.values():
                raise TimeoutError
            return {name: shown(reply) for name, reply in found.items()}
        client.masters.look()
        await asyncio.sleep(_AGAIN.compute(attempt))
    raise AssertionError


async def _asked(lane: Lane, args: Sequence[bytes], raw: bytes) -> bytes:
    """The reply; empty if the lane is given up before the request has gone."""
    try:
        return await asked(lane, PendingRequest(list(args), raw, None))
    except SlotMoved:
        return b""


def _is_sent_back(reply: bytes | None) -> bool:
    return not reply or is_bounce(reply) or reply.startswith(_READ_ONLY)
