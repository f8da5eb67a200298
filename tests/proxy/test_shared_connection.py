"""A connection that clients share, with a real socket and without Redis."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext
from typing import cast

import pytest

from tests.proxy.conftest import until
from ttlproxy.core.counters import Connections, Counters
from ttlproxy.proxy.redis_connection import Send
from ttlproxy.proxy.reply_queue import ReplyQueue
from ttlproxy.proxy.round_trips import RoundTrips
from ttlproxy.proxy.sharing.pool import Pool
from ttlproxy.proxy.sharing.shared_connection import PING, SharedConnection
from ttlproxy.proxy.sharing.shared_upstream import ClientUpstream
from ttlproxy.proxy.sharing.sharing_client import SharingClient
from ttlproxy.proxy.staggered_closes import PER_TURN, StaggeredCloses
from ttlproxy.session.sharing import ConnectionState


class _Sharer:
    """A client. replies: those that it has got"""

    def __init__(self) -> None:
        self.replies = [b""]

    def takes(self, data: bytes, ends: list[int], begin: int) -> None:
        at = 0
        for end in ends:
            self.replies[-1] += data[at : end - begin]
            self.replies.append(b"")
            at = end - begin
        self.replies[-1] += data[at:]

    def full(self, is_full: bool) -> None: ...

    def lost(self, *, is_owed: bool) -> None: ...


def _round_trips() -> RoundTrips:
    return RoundTrips(Counters(), dict)


class _Client:
    """A client of one Redis. has_ended: whether it was told to end"""

    unread = 0
    is_plain = False

    def __init__(self) -> None:
        self.has_ended = False
        self.to_redis: Send = self.write

    def write(self, data: bytes, count: int = 0) -> None: ...

    def queue(self) -> ReplyQueue:
        return ReplyQueue(self.write)

    def send_by(self, send: Send) -> None:
        self.to_redis = send

    def full(self, is_full: bool) -> None: ...

    def end(self) -> None:
        self.has_ended = True

    def reads_slowly(self) -> None: ...


@asynccontextmanager
async def _shared(
    *first: bytes, answers: bytes = b""
) -> AsyncIterator[tuple[SharedConnection, socket.socket]]:
    """A shared connection, and Redis's end of it, which answers the first requests so."""
    to_redis, redis = socket.socketpair()

    async def dial(connection: SharedConnection) -> None:
        await asyncio.get_running_loop().create_connection(lambda: connection, sock=to_redis)

    with redis:
        redis.setblocking(False)
        redis.send(answers)
        shared = SharedConnection(
            dial, lambda _: None, lambda: 1, Counters(), Connections(), 0, first
        )
        try:
            await shared.opened
            yield shared, redis
        finally:
            shared.close()


@pytest.mark.parametrize(
    ("reply", "serves"),
    [
        (b"+PONG", True),
        (b"-NOPERM User bert has no permissions to run the 'ping' command", True),
        (b"-BUSY Redis is busy running a script.", True),  # clients are to hear that
        (b"-NOAUTH Authentication required.", False),
        (b"-ERR max number of clients reached", False),
    ],
)
async def test_a_server_that_does_not_serve_is_refused(reply: bytes, serves: bool) -> None:
    with nullcontext() if serves else pytest.raises(ConnectionError):
        async with _shared(PING, answers=reply + b"\r\n") as (_, redis):
            assert redis.recv(1 << 20) == PING


async def test_a_large_chunk_is_sent_before_the_turn_of_the_loop_ends() -> None:
    """uvloop reads many chunks of a socket in one turn, and all would be gathered."""
    async with _shared() as (shared, redis):
        small, large = b"s" * 16, b"l" * (16 * 1024 + 1)
        for data in (small, large):
            shared.send(_Sharer(), 1, data)
        assert redis.recv(1 << 20) == small + large


async def test_each_client_learns_where_its_replies_end() -> None:
    counts = (1, 3, 1, 2, 1)
    replies = [b"$9\r\nabc\r\ndefg\r\n", b"+%d\r\n", b"*2\r\n:1\r\n*1\r\n$-1\r\n", b":7\r\n"] * 2
    stream = b"".join(replies)
    for size in range(1, len(stream) + 1):
        async with _shared() as (shared, _):
            sharers = [_Sharer() for _ in counts]
            for sharer, count in zip(sharers, counts, strict=True):
                shared.send(sharer, count, b"")
            for at in range(0, len(stream), size):
                shared.data_received(stream[at : at + size])
            assert not shared.is_lost
            assert [len(sharer.replies) - 1 for sharer in sharers] == [*counts]
            assert [reply for sharer in sharers for reply in sharer.replies if reply] == replies


async def test_clients_of_a_lost_connection_end_some_in_each_turn_and_send_no_more() -> None:
    staggered, clients, upstreams = StaggeredCloses(), [_Client() for _ in range(3 * PER_TURN)], []
    async with _shared() as (shared, redis), _shared() as (other, _):
        pool = Pool(1, lambda: 1, lambda _: other, ConnectionState())
        pool.connections.add(shared)
        for client in clients:
            sharing = cast(SharingClient, client)
            upstream = ClientUpstream(sharing, pool, staggered, _round_trips())
            client.send_by(upstream.send)
            upstreams.append(upstream)
            client.to_redis(b"PING", 1)
        pool.connections.clear()  # the next one is the other
        redis.close()
        await until(lambda: shared.is_lost)
        assert sum(client.has_ended for client in clients) == PER_TURN
        leaving = asyncio.create_task(upstreams[-1].replies.answered())
        for client in clients:
            client.to_redis(b"PING", 1)
        await until(lambda: all(client.has_ended for client in clients))
        assert not leaving.done()
        assert not other.clients
        leaving.cancel()


async def test_nobody_waits_for_a_new_connection_while_another_is_there() -> None:
    """A server that hangs opens none."""
    never = asyncio.Event()

    async def dial(_: SharedConnection) -> None:
        await never.wait()

    def connect(_: Pool) -> SharedConnection:
        return SharedConnection(dial, lambda _: None, lambda: 1, Counters(), Connections(), 0, ())

    async with _shared() as (shared, _):
        pool = Pool(2, lambda: 1, connect, ConnectionState())
        pool.connections.add(shared)
        client = cast(SharingClient, _Client())
        staggered, trips = StaggeredCloses(), _round_trips()
        upstreams = [ClientUpstream(client, pool, staggered, trips) for _ in range(2)]
        for upstream in upstreams:
            await upstream.opened()
        assert shared.clients == {*upstreams}
        await pool.close()
