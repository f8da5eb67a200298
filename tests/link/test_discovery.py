"""The server that a URL means: a name that moves, several servers, or Sentinels."""

from __future__ import annotations

import asyncio
import signal
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.conftest import StartServer
from tests.support.containers import AnyServer
from tests.support.processes import CLOSED_PORT
from tests.support.redis_client import Client
from tests.support.scripted_sentinel import NAME, ScriptedSentinel, scripted_sentinel
from ttlproxy.addresses import Address, Upstream
from ttlproxy.errors import ServerChanged, UpstreamError
from ttlproxy.link import located
from ttlproxy.link.connecting import discovery as module
from ttlproxy.link.connecting import sentinels
from ttlproxy.link.connecting.discovery import Discovery, discovery
from ttlproxy.link.connecting.known_server import Identity
from ttlproxy.link.connecting.reachability import identity
from ttlproxy.net.tasks import cancel

HOST = "redis.example"
LONG_S = 60.0


class Hosts(dict[str, str]):
    """Names and what they point to; asked: how often one was looked up."""

    asked = 0

    async def get_asked(self, times: int) -> None:
        """Ends when names were looked up so many times more."""
        until = self.asked + times
        while self.asked < until:  # noqa: ASYNC110 - lookups are in a thread
            await asyncio.sleep(0.001)


@pytest.fixture
def hosts(monkeypatch: pytest.MonkeyPatch) -> Hosts:
    """Of each test alone: other names are not found."""
    found, real = Hosts(), socket.getaddrinfo

    def getaddrinfo(host: str, *words: Any, **options: Any) -> Any:
        found.asked += 1
        if host not in found:
            raise socket.gaierror(socket.EAI_NONAME, "unknown")
        return real(found[host], *words, **options)

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    return found


def _of(url: str, timeout_s: float = LONG_S) -> Discovery:
    return discovery(Upstream.parse(url), lambda: timeout_s)


def _url(*ports: int) -> str:
    return f"redis://{','.join(f'127.0.0.1:{port}' for port in ports)}"


@asynccontextmanager
async def _watched(found: Discovery, now: Upstream) -> AsyncIterator[asyncio.Queue[None]]:
    """What it watches; an entry for each `look`."""
    looks = asyncio.Queue[None]()
    watching = asyncio.create_task(found.watch(now, lambda: looks.put_nowait(None)))
    try:
        yield looks
        assert not watching.done()
    finally:
        await cancel(watching)


async def _goes_on(waits: asyncio.Task[Any]) -> bool:
    """Whether it still waits after some turns of the loop."""
    done, _ = await asyncio.wait({waits}, timeout=0.01)
    waits.cancel()
    return not done


@pytest.mark.parametrize("url", ["redis://127.0.0.1:7", "redis://[::1]:7", "unix:///tmp/s"])
async def test_a_number_or_a_socket_is_the_server_and_stays_it(
    url: str, hosts: Hosts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_LOOK_S", 0.0)
    found, upstream = _of(url), Upstream.parse(url)
    assert await found.find() == upstream
    assert await found.again(upstream) is upstream
    async with _watched(found, upstream) as looks:
        await found.pause(0.01)
        assert looks.empty()
    assert hosts.asked == 0
    assert await _goes_on(asyncio.create_task(found.run()))


async def test_a_name_that_moves_is_noticed(hosts: Hosts, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_LOOK_S", 0.001)
    found = _of(f"redis://{HOST}:7")
    with pytest.raises(OSError, match=f"the name {HOST} is not found"):
        await found.find()
    hosts[HOST] = "127.0.0.1"
    old = await found.find()
    assert (old.host, old.port) == ("127.0.0.1", 7)
    assert await found.again(old) is old
    async with _watched(found, old) as looks:
        await hosts.get_asked(2)
        assert looks.empty()
        del hosts[HOST]
        await hosts.get_asked(2)
        assert looks.empty(), "it may be unknown for a while"
        hosts[HOST] = "127.0.0.2"
        for _ in range(2):
            await looks.get()
    assert (await found.again(old)).host == "127.0.0.2"


async def test_names_are_not_looked_up_all_the_time(hosts: Hosts) -> None:
    hosts[HOST] = "127.0.0.1"
    found = _of(f"redis://{HOST}:7")
    async with _watched(found, await found.find()):
        asked = hosts.asked
        await found.pause(0.02)
        assert hosts.asked == asked


async def test_a_pause_lasts_as_long_as_is_said() -> None:
    for url in (_url(7), _url(7, 8)):
        found = _of(url)
        assert await _goes_on(asyncio.create_task(found.pause(LONG_S)))
        await found.pause(0)


@pytest.fixture
async def replica(direct: Client, server: AnyServer) -> AsyncIterator[AnyServer]:
    direct.ask("REPLICAOF", "127.0.0.1", CLOSED_PORT)
    yield server
    direct.ask("REPLICAOF", "NO", "ONE")


async def test_the_first_master_of_several_is_found(
    replica: AnyServer, direct: Client, start_server: StartServer
) -> None:
    master = start_server()
    found = _of(_url(CLOSED_PORT, replica.port, master.port))
    assert (await found.find()).address == f"127.0.0.1:{master.port}"
    direct.ask("REPLICAOF", "NO", "ONE")
    assert (await found.find()).address == f"127.0.0.1:{replica.port}", "the URL's order counts"
    now = Upstream.parse(_url(replica.port))
    assert await found.again(now) is now
    async with _watched(found, now) as looks:
        assert await _goes_on(asyncio.create_task(found.run()))
        assert looks.empty()


async def test_without_a_master_each_of_several_is_named_with_a_reason(
    replica: AnyServer, start_server: StartServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    hanging, locked = start_server(), start_server("--requirepass", "word")

    async def known(server: Upstream, timeout_s: float) -> Identity:
        return await identity(server, 0.05 if server.port == hanging.port else timeout_s)

    monkeypatch.setattr(module, "identity", known)
    hanging.child.send_signal(signal.SIGSTOP)
    try:
        places = (replica.port, hanging.port, locked.port)
        with pytest.raises(UpstreamError) as error:
            await _of(_url(*places)).find()
    finally:
        hanging.child.send_signal(signal.SIGCONT)
    one, two, three = (f"127.0.0.1:{port}" for port in places)
    assert str(error.value).startswith(
        f"no server is a master: {one}: it is a replica; {two}: it does not answer; {three}: Redis"
        " requires a password"
    )


async def test_one_of_several_that_hangs_delays_the_master_for_a_moment_only(
    server: AnyServer, start_server: StartServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However long the master itself takes."""
    monkeypatch.setattr(module, "_PATIENCE_S", 0.0)
    hanging = start_server()
    found = _of(_url(hanging.port, server.port))
    hanging.child.send_signal(signal.SIGSTOP)
    try:
        async with asyncio.timeout(LONG_S / 2):
            assert (await found.find()).address == f"127.0.0.1:{server.port}"
        assert asyncio.all_tasks() == {asyncio.current_task()}, "it is asked no more"
    finally:
        hanging.child.send_signal(signal.SIGCONT)


async def test_the_only_master_may_take_longer(
    server: AnyServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_PATIENCE_S", 0.0)
    found = _of(_url(CLOSED_PORT, server.port))
    assert (await found.find()).address == f"127.0.0.1:{server.port}"


async def test_a_fault_of_ours_is_no_reason_why_a_server_is_away(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def fails(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(module, "identity", fails)
    with pytest.raises(ZeroDivisionError):
        await _of(_url(7, 8)).find()


A, B = Address("127.0.0.1", 7001), Address("127.0.0.1", 7002)


@pytest.fixture
async def sentinel(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[ScriptedSentinel]:
    monkeypatch.setattr(sentinels, "_EVERY_S", 0.01)
    async with scripted_sentinel(A) as sentinel:
        yield sentinel


@pytest.fixture
async def by_sentinel(sentinel: ScriptedSentinel) -> AsyncIterator[Discovery]:
    found = _of(f"redis-sentinel://{sentinel.address}#{NAME}")
    running = asyncio.create_task(found.run())
    yield found
    assert not running.done()
    await cancel(running)


def _name(sentinel: ScriptedSentinel, master: Address, epoch: int) -> None:
    sentinel.master, sentinel.epoch = master, epoch
    sentinel.publish("+switch-master", "")


async def test_the_master_that_sentinels_name_is_the_server_until_they_name_another(
    by_sentinel: Discovery, sentinel: ScriptedSentinel
) -> None:
    now = await by_sentinel.find()
    assert now.address == str(A)
    assert await by_sentinel.again(now) is now
    await sentinel.has_listener.wait()
    watching = asyncio.create_task(by_sentinel.watch(now, lambda: None))
    for master, epoch in ((A, 8), (B, 6)):
        _name(sentinel, master, epoch)
        await sentinel.gets_asked(2)
        assert not watching.done(), "the same one, or one from before"
    sentinel.master = None
    await sentinel.gets_asked(2)
    assert not watching.done()
    _name(sentinel, B, 7)
    with pytest.raises(ServerChanged, match=f"the Sentinels name {B} as the master now"):
        await watching
    assert (await by_sentinel.find()).address == str(B)


async def test_before_a_master_was_found_none_has_moved(
    by_sentinel: Discovery, sentinel: ScriptedSentinel
) -> None:
    watching = asyncio.create_task(by_sentinel.watch(Upstream(), lambda: None))
    await sentinel.gets_asked(2)
    assert await _goes_on(watching)


async def test_a_pause_ends_when_sentinels_name_another_master(
    by_sentinel: Discovery, sentinel: ScriptedSentinel
) -> None:
    await by_sentinel.find()
    await sentinel.has_listener.wait()
    await by_sentinel.pause(0)
    pause = asyncio.create_task(by_sentinel.pause(LONG_S))
    sentinel.master = None
    sentinel.publish("+switch-master", "")
    await sentinel.gets_asked(2)
    assert not pause.done()
    _name(sentinel, B, 8)
    await pause


async def test_a_caller_that_looks_once_gets_the_server_and_leaves_nothing(
    sentinel: ScriptedSentinel, server: AnyServer
) -> None:
    before = asyncio.all_tasks()
    for url, expected in (
        (f"redis-sentinel://{sentinel.address}#{NAME}", str(A)),
        (server.url, f"127.0.0.1:{server.port}"),
        (_url(CLOSED_PORT, server.port), f"127.0.0.1:{server.port}"),
    ):
        assert (await located(Upstream.parse(url), LONG_S)).address == expected
    await sentinel.close()
    assert asyncio.all_tasks() == before
