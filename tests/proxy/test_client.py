"""Clients of a proxy whose Redis is played by the test: what each side gets, and when it ends."""

from __future__ import annotations

import asyncio
import re
import socket
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager, closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.proxy.conftest import let_pass
from tests.support.proxy_ends import Streams
from tests.support.raw_client import command
from ttlproxy.addresses import Listen, Upstream
from ttlproxy.config import Settings
from ttlproxy.core.counters import Counters
from ttlproxy.core.families import ALL
from ttlproxy.errors import REFUSED
from ttlproxy.link import Context, Link
from ttlproxy.proxy.client_limit import ClientProtocol
from ttlproxy.proxy.server import Server

GET, QUIT, PONG = command("GET", "k"), command("QUIT"), b"+PONG\r\n"
OURS = command("HEXPIREFIELD", "h", "f", 100)  # needs what the proxy knows of Redis
LEASE = command("LEASE", "src", "dst", "EX", 100, "BLOCK", 0)
MIB = 1 << 20


class Source:
    """Clients by socket pairs, whose bytes arrive at once. ended: how many clients have gone"""

    def __init__(self) -> None:
        self.ended_count = 0
        self._change = asyncio.Event()

    async def start(self, protocol: ClientProtocol, /) -> Listen:
        self._protocol = protocol
        return Listen("127.0.0.1", 0)

    async def connect(self) -> Streams:
        client, accepted = socket.socketpair()
        loop = asyncio.get_running_loop()
        await loop.connect_accepted_socket(partial(self._protocol, ""), accepted)
        return await asyncio.open_connection(sock=client)

    def stop(self) -> None:
        pass

    def ended(self) -> None:
        self.ended_count += 1
        self._change.set()

    async def until_ended(self, count: int = 1) -> None:
        while self.ended_count < count:
            self._change.clear()
            await self._change.wait()


class Proxy:
    """A proxy without its link's tasks: the test says whether the link serves."""

    def __init__(self, upstream: Upstream, limits: dict[str, Any]) -> None:
        settings = Settings.read(limits)
        self.counters = Counters()
        context = Context(settings, self.counters)
        context.script_calls.families.confirm([ALL])
        self.link = Link(upstream, context, lambda: self.server.leave())
        self.source = Source()
        self.server = Server(settings, self.link, self.counters, self.source)
        self._accepted = asyncio.Queue[Streams]()
        self.ends = ExitStack()  # of all connections, which are closed with the proxy

    def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.ends.enter_context(closing(writer))
        self._accepted.put_nowait((reader, writer))

    async def connects(self) -> Streams:
        """A client that has not asked yet."""
        client = await self.source.connect()
        self.ends.enter_context(closing(client[1]))
        return client

    async def accepted(self) -> Streams:
        """Redis's end of the next connection."""
        return await self._accepted.get()

    async def client(self) -> tuple[Streams, Streams]:
        """A client that has asked once, and Redis's end of its connection."""
        client = await self.connects()
        client[1].write(GET)
        redis = await self.accepted()
        await _passes(client, redis, GET, b"$-1\r\n")
        return client, redis

    @property
    def gone(self) -> dict[str, int]:
        """The numbers of clients that have ended, by the reason."""
        return {why: count for why, count in self.counters.gone.items() if count}

    @property
    def is_asked(self) -> bool:
        """Whether somebody has connected to Redis."""
        return not self._accepted.empty()


async def _passes(client: Streams, redis: Streams, request: bytes, reply: bytes) -> None:
    """The request of a client arrives, and the reply to it."""
    assert await redis[0].readexactly(len(request)) == request
    redis[1].write(reply)
    assert await client[0].readexactly(len(reply)) == reply


@asynccontextmanager
async def proxied(folder: Path, **limits: Any) -> AsyncIterator[Proxy]:
    path = str(folder / "redis")
    proxy = Proxy(Upstream.parse(f"unix://{path}"), {"hold_max": 10.0, **limits})
    proxy.link.serving.start()
    async with await asyncio.start_unix_server(proxy.accept, path, limit=8 * MIB):
        await proxy.server.start()
        looks = asyncio.create_task(proxy.server.slow_clients.run())
        try:
            yield proxy
        finally:
            looks.cancel()
            proxy.ends.close()
            await proxy.server.close()
            await asyncio.sleep(0)  # the last sockets are closed


async def test_a_client_that_redis_closes_may_close_in_its_turn(tmp_path: Path) -> None:
    async with proxied(tmp_path) as proxy:
        client, redis = await proxy.client()
        redis[1].close()
        assert await client[0].read() == b""
        begun_s = asyncio.get_running_loop().time()
        client[1].close()
        await proxy.source.until_ended()
        assert asyncio.get_running_loop().time() == begun_s  # nothing was waited for
        assert proxy.gone == {"redis": 1}


async def test_a_client_that_disconnects_while_connecting_is_forgotten(tmp_path: Path) -> None:
    async with proxied(tmp_path) as proxy:
        proxy.link.serving.stop()
        _, writer = await proxy.connects()
        writer.close()
        await proxy.source.until_ended()
        assert proxy.counters.clients == 0
        proxy.link.serving.start()
        await let_pass(5)
        assert not proxy.is_asked


async def test_a_client_that_resets_its_connection_takes_that_to_redis_along(
    tmp_path: Path,
) -> None:
    async with proxied(tmp_path) as proxy:
        client, redis = await proxy.client()
        redis[1].write(PONG)  # unread bytes at a close are a reset
        client[1].transport.pause_reading()  # type: ignore[attr-defined]
        await let_pass(1)
        client[1].transport.abort()
        assert await redis[0].read() in (b"", b"*1\r\n$4\r\nQUIT\r\n")
        await proxy.source.until_ended()


async def test_a_departing_client_sends_no_more_and_gets_its_replies(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Its server is not served any more: no request must reach that."""
    async with proxied(tmp_path) as proxy:
        client, redis = await proxy.client()
        client[1].write(GET)
        assert await redis[0].readexactly(len(GET)) == GET
        proxy.server.leave()
        client[1].write(GET)
        assert await redis[0].read() == b""
        redis[1].write(PONG)
        assert await client[0].read() == PONG
        client[1].close()
        await proxy.source.until_ended()
        assert proxy.gone == {"moved": 1}
    assert not caplog.messages


async def test_a_departing_client_that_waits_for_an_item_gets_the_error_that_ends_the_wait(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A master that becomes a replica refuses. Nothing can be asked of it any more."""
    refusal = b"-READONLY You can't write against a read only replica.\r\n"
    async with proxied(tmp_path) as proxy:
        client, redis = await proxy.client()
        client[1].write(LEASE)
        await redis[0].readuntil(b"src")
        proxy.server.leave()
        await redis[0].read()
        redis[1].write(refusal)
        assert await client[0].read() == refusal
        client[1].close()
        await proxy.source.until_ended()
    assert not caplog.messages


async def test_a_client_that_connects_while_the_server_changes_departs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with proxied(tmp_path) as proxy:
        link = proxy.link

        def changes() -> None:
            link.server.term += 1

        monkeypatch.setattr(link.address, "probe_soon", changes)
        client = await proxy.connects()
        client[1].write(GET)
        assert await client[0].read() == b""
        client[1].close()
        await proxy.source.until_ended()
        assert proxy.gone == {"moved": 1}


async def test_a_request_is_held_for_the_link_as_long_as_the_setting_says(tmp_path: Path) -> None:
    async with proxied(tmp_path) as proxy:
        client, redis = await proxy.client()
        proxy.link.serving.stop()
        client[1].write(OURS)
        await let_pass(5)
        assert proxy.counters.holding == 1
        await let_pass(10)
        assert await client[0].read() == b""
        assert await redis[0].read() == b""
        assert proxy.gone == {"held": 1}
        assert proxy.counters.holding == 0
        assert sum(proxy.counters.hold_ms["redis"].counts) == 1


async def test_a_client_that_waits_for_the_link_too_long_is_told_before_it_is_closed(
    tmp_path: Path,
) -> None:
    async with proxied(tmp_path) as proxy:
        proxy.link.serving.stop()
        client = await proxy.connects()
        client[1].write(GET)
        await let_pass(5)
        assert proxy.counters.refused == 0
        assert await client[0].read() == REFUSED
        client[1].close()
        await proxy.source.until_ended()
        assert proxy.gone == {"refused": 1}


@pytest.mark.parametrize("request_", [OURS, LEASE], ids=["for the link", "for an item"])
async def test_requests_of_clients_that_wait_count(tmp_path: Path, request_: bytes) -> None:
    async with proxied(tmp_path, max_buffer_bytes=MIB) as proxy:
        clients = [await proxy.client() for _ in range(8)]
        if request_ == OURS:
            proxy.link.serving.stop()
        for client, _ in clients:
            client[1].write(request_ + GET * 10_000)
        await proxy.source.until_ended()
        assert proxy.gone.keys() == {"buffers"}
        assert proxy.counters.clients > 1


async def test_requests_that_redis_does_not_take_count(tmp_path: Path) -> None:
    async with proxied(tmp_path, max_buffer_bytes=MIB) as proxy:
        for _ in range(8):
            client, redis = await proxy.client()
            redis[1].transport.pause_reading()  # type: ignore[attr-defined]
            client[1].write(command("GET", "k" * 1000) * 800)
        await proxy.source.until_ended()
        assert proxy.gone.keys() == {"buffers"}
        assert proxy.counters.clients > 1


async def _read_until(redis: Streams, pattern: bytes) -> re.Match[bytes]:
    """Reads requests until they have this: one may be the text of a script."""
    data = b""
    while (found := re.search(pattern, data)) is None:
        data += (more := await redis[0].read(100_000))
        assert more, data
    return found


async def _answered_without_item(client: Streams, redis: Streams) -> None:
    """Redis is asked for an item, has none, and is asked for a reply that the client gets."""
    await _read_until(redis, re.escape(b"+100000/1\r\n") + rb"$")
    redis[1].write(b"$-1\r\n")
    await _read_until(redis, re.escape(b"+100000/1\r\n" + QUIT) + rb"$")
    redis[1].write(b"$-1\r\n+OK\r\n")
    redis[1].write_eof()
    assert await client[0].read() == b"$-1\r\n"


def _large(size: int) -> bytes:
    """A request that goes to Redis whole, as a script."""
    return command("HSETEX", "h", "EX", 100, "FIELDS", 1, "f", bytes(size))


def _stop_reading(redis: Streams) -> asyncio.ReadTransport:
    transport: asyncio.ReadTransport = redis[1].transport  # type: ignore[assignment]
    transport.pause_reading()
    return transport


async def test_a_large_request_arrives_in_pieces_as_redis_takes_it(tmp_path: Path) -> None:
    async with proxied(tmp_path) as proxy:
        client, redis = await proxy.client()
        slow = _stop_reading(redis)
        client[1].write(_large(4 * MIB) + GET)
        await let_pass(100)
        slow.resume_reading()
        await redis[0].readuntil(bytes(4 * MIB))
        redis[1].write(b":1\r\n")
        assert await client[0].readexactly(4) == b":1\r\n"
        await redis[0].readuntil(GET)
        assert (proxy.counters.held, proxy.counters.holding) == (0, 0)


async def test_the_pieces_that_redis_has_not_taken_count(tmp_path: Path) -> None:
    async with proxied(tmp_path, max_buffer_bytes=5 * MIB // 2) as proxy:
        for _ in range(3):
            client, redis = await proxy.client()
            _stop_reading(redis)
            client[1].write(_large(MIB))
            await let_pass(1)
        assert proxy.gone.keys() == {"buffers"}


async def test_a_client_that_has_gone_counts_no_more(tmp_path: Path) -> None:
    async with proxied(tmp_path, max_buffer_bytes=MIB) as proxy:
        for count in range(1, 9):
            client, redis = await proxy.client()
            client[1].write(_large(MIB)[: MIB // 2])
            await let_pass(1)
            client[1].close()
            await redis[0].read(100)
            redis[1].close()
            await proxy.source.until_ended(count)
        assert proxy.gone == {"client": 8}


async def test_requests_before_a_login_go_to_redis_though_the_link_is_away(tmp_path: Path) -> None:
    """Redis alone decides about it."""
    async with proxied(tmp_path) as proxy:
        proxy.link.context.rights.asks_login = True
        client, redis = await proxy.client()
        proxy.link.serving.stop()
        client[1].write(GET)
        await _passes(client, redis, GET, b"-NOAUTH Authentication required.\r\n")


async def test_a_client_that_does_not_close_is_closed_though_its_server_is_served_no_more(
    tmp_path: Path,
) -> None:
    async with proxied(tmp_path) as proxy:
        client, redis = await proxy.client()
        redis[1].close()
        assert await client[0].read() == b""
        proxy.server.leave()
        await proxy.source.until_ended()
        assert proxy.gone == {"redis": 1}


async def test_a_client_that_had_to_wait_for_redis_may_close_in_its_turn(tmp_path: Path) -> None:
    async with proxied(tmp_path) as proxy:
        client, redis = await proxy.client()
        _stop_reading(redis)
        client[1].write(command("GET", "k" * 1000) * 2000)
        await let_pass(1)
        redis[1].transport.abort()
        assert await client[0].read() == b""
        begun_s = asyncio.get_running_loop().time()
        client[1].close()
        await proxy.source.until_ended()
        assert asyncio.get_running_loop().time() == begun_s


async def test_a_client_that_is_connecting_while_the_proxy_drains_is_let_go(tmp_path: Path) -> None:
    async with proxied(tmp_path) as proxy:
        client = await proxy.connects()
        draining = asyncio.create_task(proxy.server.drain(60))
        redis = await proxy.accepted()
        assert await redis[0].readexactly(len(QUIT)) == QUIT
        redis[1].close()
        assert await client[0].read() == b""
        client[1].close()
        await draining
        assert proxy.gone == {"drained": 1}


async def test_a_client_that_sends_no_more_is_told_at_once_that_there_is_no_item(
    tmp_path: Path,
) -> None:
    async with proxied(tmp_path) as proxy:
        proxy.link.serving.stop()
        client = await proxy.connects()
        client[1].write(LEASE)
        client[1].write_eof()
        await let_pass(1)
        proxy.link.serving.start()
        redis = await proxy.accepted()
        await _answered_without_item(client, redis)


async def test_after_quit_nothing_goes_to_redis(tmp_path: Path) -> None:
    """It would reset the connection, and the replies before the last one might be lost."""
    async with proxied(tmp_path) as proxy:
        for before in (b"", GET, _large(MIB)):
            client, redis = await proxy.client()
            client[1].write(before + QUIT)
            await redis[0].readuntil(QUIT)
            client[1].write(GET + OURS)
            await let_pass(1)
            client[1].write(GET)
            await let_pass(1)
            redis[1].write(b"+OK\r\n")
            redis[1].write_eof()
            assert await client[0].read() == b"+OK\r\n"
            assert await redis[0].read() == b""
            client[1].close()
        await proxy.source.until_ended(3)
        assert proxy.gone == {"client": 3}


async def test_a_drain_lets_a_transaction_finish_and_ends_it_then(tmp_path: Path) -> None:
    async with proxied(tmp_path) as proxy:
        client, redis = await proxy.client()
        multi, execute = command("MULTI"), command("EXEC")
        client[1].write(multi)
        await _passes(client, redis, multi, b"+OK\r\n")
        draining = asyncio.create_task(proxy.server.drain(60))
        await let_pass(1)
        client[1].write(execute)
        assert await redis[0].readexactly(len(execute + QUIT)) == execute + QUIT
        redis[1].write(b"*0\r\n+OK\r\n")
        redis[1].write_eof()
        assert await client[0].read() == b"*0\r\n"
        client[1].close()
        await draining
        assert proxy.gone == {"drained": 1}


async def test_requests_that_wait_for_a_reap_count(tmp_path: Path) -> None:
    async with proxied(tmp_path, max_buffer_bytes=MIB) as proxy:
        proxy.link.context.registry.announced(0, b"h", 1)
        for _ in range(12):
            client, _ = await proxy.client()
            client[1].write(command("HSET", "h", "f", bytes(150_000)))
            await let_pass(0.1)
        assert proxy.counters.held == 12
        assert proxy.gone.keys() == {"buffers"}


async def test_redis_may_keep_up_again_while_a_request_waits_for_something_else(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with proxied(tmp_path) as proxy:
        client, redis = await proxy.client()
        (served,) = proxy.server.clients
        client[1].write(LEASE)
        await let_pass(1)
        for is_full in (True, False, True, False):
            served.full(is_full)
        draining = asyncio.create_task(proxy.server.drain(60))
        await _answered_without_item(client, redis)
        draining.cancel()
    assert not caplog.messages


async def test_redis_may_keep_up_and_fall_behind_in_one_turn(tmp_path: Path) -> None:
    async with proxied(tmp_path) as proxy:
        client, redis = await proxy.client()
        (served,) = proxy.server.clients
        slow = _stop_reading(redis)
        client[1].write(_large(4 * MIB))
        await let_pass(1)
        for is_full in (False, True, False, True):
            served.full(is_full)
        draining = asyncio.create_task(proxy.server.drain(60))
        await let_pass(1)
        assert not draining.done()  # this request may be finished
        slow.resume_reading()
        await redis[0].readuntil(bytes(4 * MIB))
        draining.cancel()
