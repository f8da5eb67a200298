"""The pools of shared connections, one for each state of a connection, without Redis."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

from ttlproxy.core.counters import Connections, Counters
from ttlproxy.link import Link
from ttlproxy.proxy.sharing.pool import Pool, Pools
from ttlproxy.proxy.sharing.shared_connection import SharedConnection
from ttlproxy.session.sharing import ConnectionState


class _Link:
    server = SimpleNamespace(term=1)


async def test_clients_that_ask_for_the_same_new_state_at_once_get_the_same_pool() -> None:
    async def dial(_: Any) -> None:
        await asyncio.Event().wait()

    def connect(_: Link, pool: Pool) -> SharedConnection:
        return SharedConnection(dial, pool.forget, pool.term, Counters(), Connections(), 0, ())

    pools, link, made = Pools(2, connect), cast(Link, _Link()), []
    for number in range(64):
        pool = await pools.of(link, ConnectionState(db=b"%d" % number))
        assert pool is not None
        made.append(pool.least_used())  # so that it takes a turn of the event loop to close
    found = await asyncio.gather(*(pools.of(link, ConnectionState(db=b"new")) for _ in range(3)))
    assert len(set(map(id, found))) == 1
    await pools.close()
    assert all(each.is_lost for each in made)
