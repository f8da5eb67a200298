"""A client's memory is free when it has gone: no reference cycle waits for the garbage collector.

The proxy freezes its objects at start, so collections are rare, and large buffers would wait.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import uvloop

from tests.conftest import StartProxy
from tests.support.certificates import Authority
from tests.support.containers import AnyServer
from tests.support.event_loops import LOOPS, both_loops
from tests.support.processes import wait_until
from tests.support.raw_client import Connection, command
from ttlproxy.config import Settings
from ttlproxy.core.counters import Counters
from ttlproxy.link import Context, Link
from ttlproxy.net.tasks import cancel
from ttlproxy.net.tls import Tls
from ttlproxy.proxy.accept import Gate
from ttlproxy.proxy.client import Client
from ttlproxy.proxy.redis_connection import Backend
from ttlproxy.proxy.server import Server
from ttlproxy.proxy.sharing.shared_upstream import ClientUpstream
from ttlproxy.session import Session

pytestmark = [pytest.mark.any_server, pytest.mark.long]

MIB = 1 << 20
LARGE = command("HSET", "h", "f", "v" * (8 * MIB))
ATTEMPTS = 2_000

Stream = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Connect = Callable[[int], Coroutine[None, None, Stream]]
End = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Coroutine[None, None, None]]
# What a client has sent before it ends, and the number of bytes in the reply.
SAID = {
    "a request": (b"PING\r\n", 7),
    "part of a large request": (LARGE[: 5 * MIB], 0),
    "a large request": (LARGE, 4),
    "a request of ours": (command("HSETEX", "h2", "EX", 10, "FIELDS", 1, "f", "v"), 4),
    "a wait for an item": (command("LEASE", "a", "b", "EX", 10, "BLOCK", 0), 0),
    "a wait of Redis's": (command("BLPOP", "none", 0), 0),
    "half a transaction": (b"MULTI\r\nGET k\r\n", 14),
    "what has to be looked at": (command("SCRIPT", "FLUSH"), 5),
    "a login": (command("AUTH", "a", "b"), 1),
    "no request": (b"*1\r\n:5\r\n", 1),
    "a farewell": (b"QUIT\r\n", 5),
}


async def _closes(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.close()


async def _resets(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.transport.abort()


async def _says_the_end(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write_eof()
    await reader.read()
    writer.close()


ENDS = (_closes, _resets, _says_the_end)


def _left() -> list[str]:
    """The kinds of objects that are left of those made since the collector was switched off."""
    kinds = (Client, Backend, Session, Tls, ClientUpstream)
    young = gc.get_objects(generation=0)
    return [type(each).__name__ for each in young if isinstance(each, kinds)]


@contextlib.asynccontextmanager
async def _serving(settings: Settings) -> AsyncIterator[int]:
    """The port of a proxy in this process, without the collector."""
    assert settings.upstream is not None
    counters = Counters()
    link = Link(settings.upstream, Context(settings, counters))
    server = Server(settings, link, counters, Gate(settings))
    running = [asyncio.create_task(link.run()), asyncio.create_task(server.slow_clients.run())]
    await link.serving.ready.wait()
    address = await server.start()
    gc.collect()
    gc.disable()
    try:
        yield address.port
    finally:
        gc.enable()
        await server.close()
        await cancel(*running)


async def _ends_freed(
    settings: Settings, ends: Sequence[End], connect: Connect, longest: int
) -> None:
    async with _serving(settings) as port:
        reader, writer = await connect(port)
        writer.write(b"PING\r\n")
        await reader.readexactly(7)
        assert _left(), "what is looked for is seen while it is there"
        writer.transport.abort()
        del reader, writer
        for said, count in SAID.values():
            if len(said) > longest:
                continue
            for end in ends:
                reader, writer = await connect(port)
                writer.write(said)
                await reader.readexactly(count)
                await end(reader, writer)
                del reader, writer
                for _ in range(ATTEMPTS):
                    if not _left():
                        break
                    await asyncio.sleep(0.01)
                assert not _left(), (said[:40], end.__name__)


def _settings(server: AnyServer, **chosen: Any) -> Settings:
    given: dict[str, Any] = {"upstream": server.url, "listen": "127.0.0.1:0", **chosen}
    return Settings.read(given)


def _run(
    loop: str,
    settings: Settings,
    ends: Sequence[End],
    connect: Connect,
    longest: int = len(LARGE),
) -> None:
    factory = uvloop.new_event_loop if loop == "uvloop" else asyncio.new_event_loop
    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(_ends_freed(settings, ends, connect, longest))


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("chosen", [{}, {"timeout": 100}, {"share_upstream": 1}], ids=str)
def test_nothing_of_a_client_outlives_it(
    server: AnyServer, loop: str, chosen: dict[str, int]
) -> None:
    settings = _settings(server, **chosen)
    _run(loop, settings, ENDS, lambda port: asyncio.open_connection("127.0.0.1", port))


@pytest.mark.parametrize("loop", LOOPS)
def test_nothing_of_a_client_by_tls_outlives_it(
    server: AnyServer, loop: str, tmp_path: Path
) -> None:
    authority = Authority(tmp_path)
    cert, key = authority.issue("localhost")
    settings = _settings(server, tls_cert=cert, tls_key=key)
    context = authority.trusted()
    _run(
        loop,
        settings,
        (_resets,),  # the loops' own TLS takes time to close
        lambda port: asyncio.open_connection(
            "127.0.0.1", port, ssl=context, server_hostname="localhost"
        ),
        longest=1 << 16,  # the test's own end keeps more of it until it is sent
    )


@pytest.mark.slow
@both_loops
@pytest.mark.parametrize("part", [LARGE[:-100], LARGE], ids=["begun", "carried out"])
def test_memory_is_back_after_a_storm_of_clients(serve: StartProxy, part: bytes) -> None:
    proxy = serve()
    _storm(proxy.port, part, 1)
    before = proxy.rss_bytes()
    for _ in range(3):
        _storm(proxy.port, part, 12)
        wait_until(lambda: proxy.rss_bytes() < before * 1.1, "the memory is free")


@pytest.mark.slow
@both_loops
def test_memory_for_the_requests_of_many_clients_is_free_when_they_close(serve: StartProxy) -> None:
    """Their chunks are smaller than what the allocator returns to the system by itself."""
    proxy = serve()
    _storm(proxy.port, LARGE[:200_000], 20)
    before = proxy.rss_bytes()
    _storm(proxy.port, LARGE[:200_000], 400)
    wait_until(lambda: proxy.rss_bytes() - before < 16 * MIB, "the memory is free")


def _storm(port: int, said: bytes, count: int) -> None:
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(Connection(port)) for _ in range(count)]
        for client in clients:
            assert client.ask("HSETEX", "h", "EX", 100, "FIELDS", 1, "f", "v") == b":1\r\n"
            client.send(said)


BOUND = 48 * MIB
# A rewritten request exists up to four times for a moment. Chunks add to that, and so do a
# transport's bytes below its high-water mark, which are not counted.
BESIDE = 5 * len(LARGE) + 24 * MIB


@pytest.mark.slow
@both_loops
@pytest.mark.parametrize("part", [LARGE[:-100], LARGE], ids=["begun", "carried out"])
def test_memory_for_all_clients_stays_below_its_limit(serve: StartProxy, part: bytes) -> None:
    proxy = serve("--max-buffer-bytes", str(BOUND))
    _storm(proxy.port, part, 1)
    proxy.forget_peak()
    before = proxy.rss_bytes()
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(Connection(proxy.port)) for _ in range(30)]
        with ThreadPoolExecutor(len(clients)) as threads:
            list(threads.map(lambda client: _send(client, part), clients))
        with Connection(proxy.port) as other:
            assert other.ask("PING") == b"+PONG\r\n"
        assert proxy.peak_bytes() - before < BOUND + BESIDE


def _send(client: Connection, said: bytes) -> None:
    """Sends what is accepted before the connection ends."""
    with contextlib.suppress(OSError):
        client.send(said)
