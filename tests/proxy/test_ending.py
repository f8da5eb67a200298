"""Ends that take time: what is still on its way to a client arrives before them."""

from __future__ import annotations

import asyncio
import socket
import struct

from tests.proxy.conftest import let_pass, until
from tests.support.proxy_ends import Streams, connected, socket_pair
from ttlproxy.proxy.ending import CloseWhenQuiet, LingeringClose, cut_later
from ttlproxy.proxy.redis_connection import half_close

# More than the buffers of the sockets take.
MUCH = 16 << 20
# A state of Linux's struct tcp_info.
TCP_CLOSE = 7


async def _read(client: Streams, count: int) -> None:
    await client[0].readexactly(count)


async def test_a_departing_client_ends_once_its_server_sends_nothing_more() -> None:
    async with connected() as (_, backend, redis), socket_pair() as (transport, _):
        ended = asyncio.Event()
        CloseWhenQuiet(transport, backend, ended.set)
        await ended.wait()
        assert asyncio.get_running_loop().time() < 1
        assert await redis[0].read() == b""  # it is told that nobody waits for it


async def test_writing_cannot_be_ended_where_the_connection_is_over() -> None:
    async with socket_pair() as (transport, _):
        transport.abort()
        await let_pass(0.01)
        assert not half_close(transport)


async def test_a_departing_client_stays_while_its_server_still_sends() -> None:
    """A server that is busy for a moment has not sent its last yet."""
    async with connected() as (client, backend, redis), socket_pair() as (transport, _):
        ended = asyncio.Event()
        CloseWhenQuiet(transport, backend, ended.set)
        for _ in range(20):
            redis[1].write(b"+OK\r\n")
            await client.gets(b"+OK\r\n")
            await let_pass(0.25)  # two looks or three
            assert not ended.is_set()
        await ended.wait()


async def test_a_departing_client_has_time_to_read() -> None:
    async with connected() as (_, backend, _), socket_pair() as (transport, client):
        ended = asyncio.Event()
        transport.write(bytes(MUCH))
        CloseWhenQuiet(transport, backend, ended.set)
        await let_pass(60)
        assert not ended.is_set()
        await _read(client, MUCH)
        await ended.wait()


async def test_a_departing_client_that_is_gone_ends_at_the_next_look() -> None:
    async with connected() as (_, backend, _), socket_pair() as (transport, _):
        ended = asyncio.Event()
        transport.write(bytes(MUCH))
        CloseWhenQuiet(transport, backend, ended.set)
        transport.close()
        await ended.wait()
        transport.abort()


async def test_a_close_that_is_cancelled_ends_nobody() -> None:
    async with connected() as (_, backend, redis), socket_pair() as (transport, _):
        ended = asyncio.Event()
        CloseWhenQuiet(transport, backend, ended.set).cancel()
        await let_pass(60)
        assert not ended.is_set()
        backend.send(b"PING\r\n", 1)
        assert await redis[0].readline() == b"PING\r\n"


async def test_replies_that_a_client_has_not_taken_are_not_cut_off_by_its_close() -> None:
    async with socket_pair() as (transport, client):
        transport.write(bytes(MUCH))
        LingeringClose(transport)
        await let_pass(60)
        assert not transport.is_closing()
        await _read(client, MUCH)
        assert await client[0].read() == b""


async def test_a_close_that_is_cancelled_closes_nothing() -> None:
    async with socket_pair() as (transport, _):
        LingeringClose(transport).cancel()
        await let_pass(60)
        assert not transport.is_closing()


async def test_a_large_request_that_ended_early_is_cut_off_after_a_while() -> None:
    async with connected() as (_, backend, redis):
        cut_later(backend).cancel()
        await let_pass(60)
        assert not backend.is_cut
        cut_later(backend)
        assert not backend.is_cut
        assert await redis[0].read() == b""
        assert backend.is_cut


async def test_a_connection_that_has_been_reset_is_no_half_open_one() -> None:
    async with socket_pair() as (transport, client):
        assert half_close(transport)
        assert await client[0].read() == b""
        assert not transport.is_closing()
    async with socket_pair() as (transport, client):
        transport.pause_reading()  # so that asyncio does not hear of it
        reset = client[1].get_extra_info("socket")
        reset.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        client[1].transport.abort()
        known = transport.get_extra_info("socket")
        info = socket.IPPROTO_TCP, socket.TCP_INFO, 1
        await until(lambda: known.getsockopt(*info)[0] == TCP_CLOSE)
        assert not half_close(transport)
        assert transport.is_closing()
