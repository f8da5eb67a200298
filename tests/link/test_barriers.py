"""Barriers: they tell a pause of writes from other silence."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator

import pytest
from redis.asyncio import Redis
from redis.exceptions import ConnectionError as RedisConnectionError

from tests.support.containers import AnyServer
from tests.support.processes import wait_until
from tests.support.redis_client import Client
from tests.support.relay import Gate, Relay
from tests.support.server_queries import calls, connections
from ttlproxy.addresses import Upstream
from ttlproxy.link import Context, client
from ttlproxy.link.shared import barriers as module
from ttlproxy.link.shared.barriers import Barriers
from ttlproxy.net.tasks import cancel

LONG_MS = 60_000
Begin = Callable[[], "asyncio.Task[None]"]


@pytest.fixture
def users() -> list[str]:
    """The user and password of connections, if a test gives one."""
    return []


def _connection(port: int, name: str, login: str = "") -> Redis:
    upstream = Upstream.parse(f"redis://{login}127.0.0.1:{port}")
    return client(upstream, name, 30.0, patient=True)


@pytest.fixture
def barriers(context: Context, server: AnyServer, users: list[str]) -> Barriers:
    return Barriers(context, lambda name: _connection(server.port, name, "".join(users)))


@pytest.fixture
async def begin(barriers: Barriers) -> AsyncIterator[Begin]:
    """`begin()` sends barriers from now on, and gives the task."""
    tasks = list[asyncio.Task[None]]()

    def run() -> asyncio.Task[None]:
        tasks.append(asyncio.create_task(barriers.run()))
        return tasks[-1]

    yield run
    await cancel(*tasks)


@pytest.fixture
def pause(direct: Client) -> Iterator[Callable[[], None]]:
    def begin() -> None:
        assert direct.ask("CLIENT", "PAUSE", LONG_MS, "WRITE") == b"OK"

    yield begin
    direct.ask("CLIENT", "UNPAUSE")


Pause = Callable[[], None]


def _ours(server: AnyServer) -> list[str]:
    """The ids of its connections."""
    return [each["id"] for each in connections(server.port) if each["name"] == "ttlproxy:barrier"]


def _kill(direct: Client, server: AnyServer) -> None:
    for number in _ours(server):
        direct.ask("CLIENT", "KILL", "ID", number)


async def test_a_server_that_answers_is_not_paused(barriers: Barriers, begin: Begin) -> None:
    begin()
    for _ in range(4):
        assert not await barriers.judged()


async def test_a_pause_of_writes_is_found_and_its_end(
    barriers: Barriers, begin: Begin, pause: Pause, direct: Client
) -> None:
    begin()
    for _ in range(2):
        pause()
        assert await barriers.may_hold()
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


async def test_a_pause_that_ends_before_it_is_proven_is_none(
    context: Context, server: AnyServer, pause: Pause, direct: Client
) -> None:
    """A read on another connection is not answered in time to prove it."""
    with Gate(b"TIME") as gate, Relay(server.port, 1000, gate) as relay:
        ports = iter((server.port, relay.port))
        barriers = Barriers(context, lambda name: _connection(next(ports), name))
        sending = asyncio.create_task(barriers.run())
        gate.arm()
        pause()
        asking = asyncio.create_task(barriers.judged())
        await asyncio.to_thread(gate.held.wait)
        direct.ask("CLIENT", "UNPAUSE")
        assert not await asking
        assert not await barriers.judged()
        await cancel(sending)
        gate.release()


async def test_a_verdict_that_does_not_come_soon_may_mean_a_pause(
    context: Context, server: AnyServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Gate(b"TIME") as gate, Relay(server.port, 1000, gate) as relay:
        barriers = Barriers(context, lambda name: _connection(relay.port, name))
        sending = asyncio.create_task(barriers.run())
        gate.arm()
        monkeypatch.setattr(module, "_SOON_S", 0.01)
        assert await barriers.may_hold()
        monkeypatch.setattr(module, "_SOON_S", 30.0)
        gate.release()
        assert not await barriers.may_hold()
        await cancel(sending)


async def test_a_barrier_that_redis_refuses_shows_no_pause(
    barriers: Barriers, begin: Begin, pause: Pause, direct: Client, users: list[str]
) -> None:
    users.append("narrow:x@")
    direct.ask("ACL", "SETUSER", "narrow", "on", "nopass", "~*", "&*", "+@all", "-@scripting")
    begin()
    pause()
    for _ in range(4):
        assert not await barriers.judged()
    direct.ask("ACL", "SETUSER", "narrow", "+@scripting")
    assert await barriers.judged()
    direct.ask("CLIENT", "UNPAUSE")
    await barriers.released()
    assert not await barriers.judged()


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
    barriers: Barriers,
    begin: Begin,
    pause: Pause,
    direct: Client,
    server: AnyServer,
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
    await asyncio.to_thread(wait_until, lambda: not _ours(server), "its connections are closed")


async def test_a_caller_that_asks_when_it_ends_has_an_answer(
    barriers: Barriers, begin: Begin
) -> None:
    sending = begin()
    await asyncio.sleep(0)
    asking = asyncio.create_task(barriers.judged())
    await asyncio.sleep(0)
    await cancel(sending)
    assert not await asking


async def test_while_nobody_wants_a_barrier_none_is_sent(
    barriers: Barriers, begin: Begin, direct: Client, server: AnyServer
) -> None:
    begin()
    await barriers.judged()
    sent = calls(server.port, "eval")
    for _ in range(20):
        await asyncio.to_thread(direct.ask, "PING")
    assert calls(server.port, "eval") == sent
