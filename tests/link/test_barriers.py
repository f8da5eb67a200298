"""Barriers: they tell a pause of writes from other silence, and when requests are carried out."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator

import pytest
from redis.asyncio import Redis
from redis.exceptions import ConnectionError as RedisConnectionError

from tests.link.conftest import until
from tests.support.containers import AnyServer
from tests.support.redis_client import Client
from tests.support.server_queries import connections
from ttlproxy.addresses import Upstream
from ttlproxy.core.registry import PIN_BARRIERS, Registry
from ttlproxy.link import Context, client
from ttlproxy.link import barriers as module
from ttlproxy.link.barriers import Barriers
from ttlproxy.net.tasks import cancel

LONG_MS = 60_000
Begin = Callable[[], "asyncio.Task[None]"]


@pytest.fixture
def users() -> list[str]:
    """The user and password of connections, if a test gives one."""
    return []


@pytest.fixture
def barriers(context: Context, server: AnyServer, users: list[str]) -> Barriers:
    def connect(name: str) -> Redis:
        login = "".join(users)
        at = Upstream.parse(f"redis://{login}127.0.0.1:{server.port}")
        return client(at, name, 30.0, patient=True)

    return Barriers(context, connect)


@pytest.fixture
async def begin(barriers: Barriers) -> AsyncIterator[Begin]:
    """`begin()` sends barriers from now on, and gives the task."""
    tasks = list[asyncio.Task[None]]()

    def run() -> asyncio.Task[None]:
        tasks.append(asyncio.create_task(barriers.run()))
        return tasks[-1]

    yield run
    await cancel(*tasks)


@pytest.fixture(autouse=True)
def _only_when_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_EVERY_S", 1e6)


@pytest.fixture
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each barrier is one for the registry."""
    monkeypatch.setattr(module, "_EVERY_S", 0.001)


@pytest.fixture
def pause(direct: Client) -> Iterator[Callable[[], None]]:
    def begin() -> None:
        assert direct.ask("CLIENT", "PAUSE", LONG_MS, "WRITE") == b"OK"

    yield begin
    direct.ask("CLIENT", "UNPAUSE")


Pause = Callable[[], None]


def _kill(direct: Client, server: AnyServer) -> None:
    for each in connections(server.port):
        if each["name"] == "ttlproxy:barrier":
            direct.ask("CLIENT", "KILL", "ID", each["id"])


async def test_a_server_that_answers_is_not_paused(
    barriers: Barriers, begin: Begin, registry: Registry
) -> None:
    registry.expect()
    begin()
    for _ in range(2 * PIN_BARRIERS):
        assert not await barriers.judged()
    assert registry.wants_barrier, "those that are sent because somebody asks do not count"


async def test_a_pause_of_writes_is_found_and_its_end(
    barriers: Barriers, begin: Begin, pause: Pause, direct: Client
) -> None:
    begin()
    for _ in range(2):
        pause()
        assert await barriers.judged()
        assert await barriers.judged()
        ending = asyncio.create_task(barriers.released())
        await asyncio.sleep(0)
        assert not ending.done()
        direct.ask("CLIENT", "UNPAUSE")
        await ending
        assert not await barriers.judged()


async def test_a_server_that_answers_nothing_is_not_taken_for_paused(
    barriers: Barriers, begin: Begin, direct: Client
) -> None:
    begin()
    await barriers.judged()
    direct.ask("CLIENT", "PAUSE", 4 * round(module.PATIENCE_S * 1000), "ALL")
    assert not await barriers.judged()


async def test_a_request_counts_as_carried_out_after_some_barriers(
    begin: Begin, registry: Registry, often: None
) -> None:
    begin()
    registry.expect()
    await until(lambda: not registry.wants_barrier)


async def test_a_barrier_that_redis_holds_or_refuses_does_not_count(
    barriers: Barriers,
    begin: Begin,
    registry: Registry,
    often: None,
    pause: Pause,
    direct: Client,
    users: list[str],
) -> None:
    users.append("narrow:x@")
    direct.ask("ACL", "SETUSER", "narrow", "on", "nopass", "~*", "&*", "+@all", "-@scripting")
    begin()
    registry.expect()
    for _ in range(2 * PIN_BARRIERS):
        assert not await barriers.judged()
    assert registry.wants_barrier
    pause()
    direct.ask("ACL", "SETUSER", "narrow", "+@scripting")
    assert await barriers.judged()
    assert registry.wants_barrier
    direct.ask("CLIENT", "UNPAUSE")
    await until(lambda: not registry.wants_barrier)


async def test_a_script_that_was_flushed_goes_as_text(
    barriers: Barriers, begin: Begin, context: Context, direct: Client, pause: Pause
) -> None:
    direct.ask("SCRIPT", "FLUSH")
    begin()
    context.scripts.loaded = True
    assert not await barriers.judged()
    assert not context.scripts.loaded
    context.scripts.loaded = True
    direct.ask("SCRIPT", "FLUSH")
    pause()
    assert await barriers.judged()


async def test_a_lost_connection_is_opened_again(
    barriers: Barriers, begin: Begin, pause: Pause, direct: Client, server: AnyServer
) -> None:
    begin()
    for _ in range(3):
        pause()
        assert await barriers.judged()
        _kill(direct, server)
        await barriers.released()
        assert await barriers.judged()
        direct.ask("CLIENT", "UNPAUSE")
        await barriers.released()


async def test_a_second_loss_in_a_row_is_told(
    barriers: Barriers, begin: Begin, pause: Pause, direct: Client, server: AnyServer
) -> None:
    sending = begin()
    pause()
    for _ in range(2):
        assert await barriers.judged()
        _kill(direct, server)
        await barriers.released()
    with pytest.raises(RedisConnectionError):
        await sending


async def test_when_it_ends_nobody_is_held_back_any_more(
    barriers: Barriers, begin: Begin, pause: Pause, server: AnyServer
) -> None:
    sending = begin()
    pause()
    assert await barriers.judged()
    ending = asyncio.create_task(barriers.released())
    await cancel(sending)
    await ending
    assert not barriers.holds
