"""A connection that clients share, with a real socket and without Redis."""

from __future__ import annotations

import asyncio
import socket

from ttlproxy.core.counters import Connections, Sharing, Tally
from ttlproxy.proxy.sharing.shared_connection import SharedConnection


class _Rider:
    """A client that only sends."""

    def takes(self, data: bytes, replies: int) -> None: ...

    def full(self, is_full: bool) -> None: ...

    def lost(self) -> None: ...


async def test_a_large_chunk_is_sent_before_the_turn_of_the_loop_ends() -> None:
    """uvloop reads many chunks of a socket in one turn, and all would be gathered."""
    to_redis, redis = socket.socketpair()

    async def dial(connection: SharedConnection) -> None:
        await asyncio.get_running_loop().create_connection(lambda: connection, sock=to_redis)

    with redis:
        redis.setblocking(False)
        shared = SharedConnection(
            dial, lambda _: None, lambda: 1, Tally(), Connections(), Sharing(), 0, ()
        )
        await shared.opened
        small, large = b"s" * 16, b"l" * (16 * 1024 + 1)
        for data in (small, large):
            shared.send(_Rider(), 1, data)
        assert redis.recv(1 << 20) == small + large
        shared.close()
