"""The pools of shared connections, one for each state of a connection, without Redis."""

from __future__ import annotations

import asyncio
from typing import cast

from ttlproxy.proxy.sharing.pool import Pool, Pools
from ttlproxy.session.sharing import ConnectionState


class _Pool:
    """A pool that takes a turn of the event loop to close."""

    has_riders = False

    def __init__(self, state: ConnectionState) -> None:
        self.state = state
        self.is_closed = False

    async def close(self) -> None:
        self.is_closed = True
        await asyncio.sleep(0)


async def test_clients_that_ask_for_the_same_new_state_at_once_get_the_same_pool() -> None:
    made: list[_Pool] = []

    def make(state: ConnectionState) -> Pool:
        made.append(_Pool(state))
        return cast(Pool, made[-1])

    pools = Pools(make)
    for number in range(64):
        await pools.of(ConnectionState(db=b"%d" % number))
    found = await asyncio.gather(*(pools.of(ConnectionState(db=b"new")) for _ in range(3)))
    assert len(set(map(id, found))) == 1
    await pools.close()
    assert all(each.is_closed for each in made)
