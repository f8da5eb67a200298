"""Where the server is: whether it has moved, and whether another one is at its address."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from tests.link.conftest import until
from tests.support.containers import AnyServer
from tests.support.processes import CLOSED_PORT, START_TIMEOUT_S
from tests.support.redis_client import Client
from ttlproxy.addresses import Upstream
from ttlproxy.cli.main import load
from ttlproxy.errors import ServerChanged, UpstreamError
from ttlproxy.link.connecting import discovery as module
from ttlproxy.link.connecting.discovery import AddressWatch
from ttlproxy.link.connecting.known_server import Identity, KnownServer
from ttlproxy.link.connecting.reachability import identity
from ttlproxy.net.tasks import cancel

LIMIT_S = 30.0
OTHER = Identity("x" * 40, True, 1, [])


class Known(KnownServer):
    """The known server; it tells how often sessions were ended."""

    def __init__(self) -> None:
        self.ended = 0
        super().__init__("", self._end)

    def _end(self) -> None:
        self.ended += 1


@pytest.fixture
def known() -> Known:
    return Known()


@pytest.fixture
def upstream(server: AnyServer) -> Upstream:
    return Upstream.parse(server.url)


Watching = Callable[..., AddressWatch]


@pytest.fixture
def watching(known: Known) -> Watching:
    """`watching(url)` is the watch of this URL."""

    def make(url: str, timeout_s: float = LIMIT_S) -> AddressWatch:
        settings = load(["--upstream", url, "--connect-timeout", str(timeout_s)])
        return AddressWatch(settings, Upstream.parse(url), known)

    return make


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Names of hosts, each with its number, until a test changes it; others are not found."""
    found, real = dict[str, str](), socket.getaddrinfo

    def getaddrinfo(host: str, *args: Any, **options: Any) -> Any:
        if not host[0].isdigit() and host not in found:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return real(found.get(host, host), *args, **options)

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    return found


@pytest.fixture
async def probe(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Callable[..., Any]]:
    """`probe(watch)` is the task that probes, without a rest between two probes."""
    monkeypatch.setattr(module, "_EVERY_S", 0.0)
    tasks = list[asyncio.Task[None]]()

    def begin(watch: AddressWatch) -> asyncio.Task[None]:
        tasks.append(asyncio.create_task(watch.probe()))
        return tasks[-1]

    yield begin
    await cancel(*tasks)


Probe = Callable[[AddressWatch], "asyncio.Task[None]"]


async def _finds_another(probing: asyncio.Task[None]) -> None:
    async with asyncio.timeout(START_TIMEOUT_S):
        with pytest.raises(ServerChanged):
            await probing


async def test_an_address_stays_as_it_is(
    watching: Watching, server: AnyServer, known: Known, upstream: Upstream
) -> None:
    watch = watching(server.url)
    known.met(await identity(upstream, LIMIT_S))
    assert watch.shown == f"127.0.0.1:{server.port}"
    assert not await watch.find()
    assert watch.now == upstream
    assert known.ended == 0


async def test_a_name_that_moves_ends_no_session_by_itself(
    watching: Watching, server: AnyServer, known: Known, names: dict[str, str], upstream: Upstream
) -> None:
    names["redis.example"] = "127.0.0.1"
    watch = watching(f"redis://redis.example:{server.port}")
    known.met(await identity(upstream, LIMIT_S))
    assert await watch.find()
    assert watch.now.host == "127.0.0.1"
    names["redis.example"] = "127.0.0.2"
    assert await watch.find()
    assert watch.shown == f"127.0.0.2:{server.port}"
    assert known.ended == 0


async def test_a_master_that_is_found_elsewhere_ends_the_sessions_at_the_old_one(
    watching: Watching, server: AnyServer, known: Known, upstream: Upstream
) -> None:
    watch = watching(f"redis://127.0.0.1:{CLOSED_PORT},127.0.0.1:{server.port}")
    assert await watch.find()
    assert watch.now.port == server.port
    assert known.ended == 0, "no session has been served yet"
    known.met(await identity(upstream, LIMIT_S))
    assert not await watch.find()
    assert known.ended == 0
    watch.now = Upstream.parse(f"redis://127.0.0.1:{CLOSED_PORT}")
    assert await watch.find()
    assert known.ended == 1


async def test_of_several_servers_no_replica_is_served(
    watching: Watching, server: AnyServer, known: Known
) -> None:
    several = watching(f"redis://127.0.0.1:{server.port},127.0.0.1:{server.port}")
    alone = watching(server.url)
    several.check()
    known.met(OTHER)
    several.check()
    known.met(OTHER._replace(is_master=False))
    alone.check()
    with pytest.raises(UpstreamError, match="a replica"):
        several.check()


def test_the_address_that_people_see(watching: Watching, tmp_path: Path) -> None:
    assert watching("redis-sentinel://127.0.0.1:1/0#main").shown == ""
    assert watching(f"unix://{tmp_path}/sock").shown == f"{tmp_path}/sock"


async def test_another_server_at_the_address_is_noticed_when_somebody_looks(
    watching: Watching, server: AnyServer, known: Known, upstream: Upstream, probe: Probe
) -> None:
    watch = watching(server.url)
    known.met(await identity(upstream, LIMIT_S))
    probing = probe(watch)
    watch.probe_soon()
    await asyncio.wait({probing}, timeout=0.05)
    assert not probing.done()
    known.identity = OTHER
    await asyncio.wait({probing}, timeout=0.05)
    assert not probing.done(), "nobody has looked"
    watch.probe_soon()
    await _finds_another(probing)


async def test_a_look_without_an_answer_is_repeated(
    watching: Watching, server: AnyServer, direct: Client, known: Known, probe: Probe
) -> None:
    watch = watching(server.url, timeout_s=0.05)
    known.met(OTHER)
    direct.ask("CLIENT", "PAUSE", 150, "ALL")
    probing = probe(watch)
    watch.probe_soon()
    await _finds_another(probing)


async def test_a_look_is_repeated_while_the_name_is_not_found(
    watching: Watching, server: AnyServer, known: Known, names: dict[str, str], probe: Probe
) -> None:
    watch = watching(f"redis://redis.example:{server.port}")
    names["redis.example"] = "127.0.0.2"
    await watch.find()
    known.met(OTHER)
    del names["redis.example"]
    probing = probe(watch)
    watch.probe_soon()
    await asyncio.wait({probing}, timeout=0.05)
    assert not probing.done()
    names["redis.example"] = "127.0.0.1"
    await _finds_another(probing)


async def test_a_proxy_that_may_not_ask_which_server_it_is_does_not_ask_again_and_again(
    watching: Watching, server: AnyServer, direct: Client, known: Known, probe: Probe
) -> None:
    direct.ask("ACL", "SETUSER", "narrow", "on", "nopass", "~*", "+@all", "-info")
    direct.ask("ACL", "LOG", "RESET")
    try:
        watch = watching(f"redis://narrow:x@127.0.0.1:{server.port}")
        known.met(OTHER)
        probing = probe(watch)
        watch.probe_soon()
        await until(lambda: direct.ask("ACL", "LOG") != [])
        direct.ask("ACL", "SETUSER", "narrow", "+info")
        await asyncio.wait({probing}, timeout=0.05)
        assert not probing.done()
    finally:
        direct.ask("ACL", "DELUSER", "narrow")


async def test_it_waits_where_nothing_tells_more(watching: Watching, server: AnyServer) -> None:
    watch = watching(server.url)
    waits = [watch.run(), watch.watch(), watch.pause(LIMIT_S)]
    tasks = [asyncio.create_task(each) for each in waits]
    done, _ = await asyncio.wait(tasks, timeout=0.01)
    assert not done
    await watch.pause(0.0)
    await cancel(*tasks)
