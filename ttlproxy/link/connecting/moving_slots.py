"""Requests for keys whose slot may be on its way: its new master is asked what the old lacks."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from redis.asyncio import Redis
from redis.exceptions import AskError, MovedError, RedisError

from ttlproxy.addresses import Address
from ttlproxy.link.connecting.connections import close
from ttlproxy.link.connecting.pipeline import Words, run
from ttlproxy.net.time_limit import time_limit


class MovingSlots:
    """Of one master. It is asked first, so what it does not have by then is at the slot's new
    master, or nowhere: keys of such a slot are made there alone."""

    def __init__(self, connect: Callable[[Address], Redis], timeout_s: float) -> None:
        """`connect(address)`: a connection to another node of the Cluster."""
        self._connect = connect
        self._timeout_s = timeout_s

    async def ask(self, redis: Redis, requests: Sequence[tuple[int, Words]]) -> list[object]:
        """The same as `run`, for requests that name one key each. Where the new master cannot be
        asked, the reply is the old one's AskError."""
        replies = await run(redis, requests)
        moved: dict[Address, list[int]] = {}
        for at, reply in enumerate(replies):
            if isinstance(reply, AskError) and not isinstance(reply, MovedError):
                moved.setdefault(Address(reply.host, reply.port), []).append(at)
        for address, places in moved.items():
            there = await self._asked(address, [requests[at] for at in places])
            for at, reply in zip(places, there, strict=False):
                replies[at] = reply
        return replies

    async def _asked(
        self, address: Address, requests: Sequence[tuple[int, Words]]
    ) -> Sequence[object]:
        """The replies of the new master; none if it does not answer."""
        redis = self._connect(address)
        try:
            async with time_limit(self._timeout_s):
                asking = [each for one in requests for each in ((0, (b"ASKING",)), one)]
                return (await run(redis, asking))[1::2]
        except (RedisError, OSError):
            return ()
        finally:
            await close(redis)
