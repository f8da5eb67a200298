"""The time that a session is held until the elements that it must not see are reaped."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from redis.asyncio import Redis

from tests.link.conftest import FAR_MS, KEYS, Become, S, manage
from tests.support.containers import AnyServer
from tests.support.redis_client import Client
from ttlproxy.addresses import Upstream
from ttlproxy.cli.main import load
from ttlproxy.config import Settings
from ttlproxy.errors import ReapRefused
from ttlproxy.link import Context, Link, client
from ttlproxy.link.knowledge.jobs import Job
from ttlproxy.link.life import holds as module
from ttlproxy.net.tasks import cancel


class World:
    """Holds, and the parts that they ask, each with a connection of its own."""

    def __init__(self, url: str, context: Context) -> None:
        self._upstream = Upstream.parse(url)
        link = Link(self._upstream, context)
        link.jobs.soon = self._first  # type: ignore[method-assign]
        context.scripts.on_call = lambda: None  # no heartbeat loads them
        self.serving = context.serving
        self.serving.start()
        self._jobs: list[asyncio.Task[None]] = []
        self.barriers, self.requests, self.holds = link.barriers, link.reap_requests, link.holds

    def _first(self, job: Job) -> None:
        """As a heartbeat does that comes at once."""

        async def work() -> None:
            redis = self._connect("test")
            await job(redis)
            await redis.aclose()

        self._jobs.append(asyncio.create_task(work()))

    def _connect(self, name: str) -> Redis:
        return client(self._upstream, name, 30.0, patient=True)

    def ask(self, *, only_reads: bool = False) -> asyncio.Task[None]:
        held = self.holds.until_reaped([S], [], [], only_reads)
        return asyncio.create_task(held)


@pytest.fixture
def hold_max() -> float:
    return 30.0


@pytest.fixture
def settings(server: AnyServer, hold_max: float) -> Settings:
    return load(["--upstream", server.url, "--hold-max", str(hold_max)])


# A hold that ends soon; and one that ends in the test, but not because the machine is busy.
soon = pytest.mark.parametrize("hold_max", [0.05])
later = pytest.mark.parametrize("hold_max", [1.0])


@pytest.fixture
async def world(
    server: AnyServer, context: Context, redis: Redis, direct: Client
) -> AsyncIterator[World]:
    """Something is due in S."""
    world = World(server.url, context)
    manage(direct, "s", m=1)
    running = [
        asyncio.create_task(world.requests.run(redis)),
        asyncio.create_task(world.barriers.run()),
    ]
    yield world
    direct.ask("CLIENT", "UNPAUSE")
    assert not any(task.done() for task in running)
    await cancel(*running)
    world.requests.stop()


def _pause(direct: Client, kind: str = "WRITE", pause_ms: int = 60_000) -> None:
    direct.ask("CLIENT", "PAUSE", pause_ms, kind)


async def _outlasts(held: asyncio.Task[None], hold_max: float) -> bool:
    """Whether it still waits when hold_max is over."""
    done, _ = await asyncio.wait({held}, timeout=1.1 * hold_max)
    return not done


async def test_it_ends_when_all_that_is_asked_for_is_reaped_and_swept(
    world: World, direct: Client, context: Context
) -> None:
    context.clock.adjust(direct.now_ms(), context.clock.reading())
    manage(direct, "t", m=1)
    manage(direct, "u", m=FAR_MS, gone=FAR_MS)
    direct.ask("SREM", "u", "gone")
    await world.holds.until_reaped([S], [0], [(0, b"u")], False)
    assert direct.ask("EXISTS", "s", "t") == 0
    assert direct.ask("ZRANGE", KEYS.index(b"u"), 0, -1) == [b"m"]


async def test_it_tells_which_keys_have_an_index(world: World, direct: Client) -> None:
    """Once Redis is there. Nothing need be reaped for that."""
    direct.ask("SADD", "plain", "m")
    world.serving.stop()
    asked = asyncio.create_task(world.holds.indexed([S, (0, b"plain")]))
    await asyncio.wait({asked}, timeout=0.01)
    assert not asked.done()
    world.serving.start()
    assert await asked == {b"s": True, b"plain": False}
    assert direct.ask("EXISTS", "s") == 1


async def test_it_waits_until_redis_is_there(world: World, direct: Client) -> None:
    world.serving.stop()
    held = [world.ask(), world.ask(only_reads=True)]
    await asyncio.wait(held, timeout=0.01)
    assert direct.ask("EXISTS", "s") == 1
    assert not any(each.done() for each in held)
    world.serving.start()
    await asyncio.gather(*held)
    assert direct.ask("EXISTS", "s") == 0


@soon
async def test_it_waits_for_redis_no_longer_than_hold_max(world: World) -> None:
    world.serving.stop()
    with pytest.raises(TimeoutError):
        await world.ask()


async def test_after_a_loss_it_asks_again(world: World, direct: Client) -> None:
    world.serving.stop()
    held = world.ask()
    await asyncio.sleep(0)
    world.serving.ready.set()
    await asyncio.sleep(0)
    world.requests.stop()  # the life is over: what was asked for is lost
    await held
    assert direct.ask("EXISTS", "s") == 0


@later
@pytest.mark.parametrize("only_reads", [False, True])
async def test_a_refusal_by_redis_is_the_reason_in_the_end(
    world: World, become: Become, only_reads: bool
) -> None:
    await become("-eval -evalsha")
    with pytest.raises(ReapRefused, match="permission"):
        await world.ask(only_reads=only_reads)


@soon
async def test_a_reap_that_is_neither_done_nor_refused_is_waited_for_no_longer_than_hold_max(
    server: AnyServer, context: Context
) -> None:
    with pytest.raises(TimeoutError):
        await World(server.url, context).ask()


@later
async def test_a_pause_of_writes_lets_reads_pass_and_holds_the_others(
    world: World, direct: Client, hold_max: float
) -> None:
    """The time of the pause does not count."""
    _pause(direct)
    tasks = asyncio.all_tasks()
    await world.ask(only_reads=True)
    assert world.barriers.holds
    held = world.ask()
    await world.ask(only_reads=True)
    left = {task.get_name() for task in asyncio.all_tasks() - tasks - {held}}
    assert left <= {"barrier", "before a barrier"}
    assert await _outlasts(held, hold_max)
    direct.ask("CLIENT", "UNPAUSE")
    await held
    assert direct.ask("EXISTS", "s") == 0


@later
async def test_while_redis_is_silent_no_time_counts(
    world: World, direct: Client, hold_max: float
) -> None:
    _pause(direct, "ALL", round(1500 * hold_max))
    held = [world.ask(), world.ask(only_reads=True)]
    assert all([await _outlasts(each, hold_max) for each in held[:1]])
    assert not held[1].done()
    await asyncio.gather(*held)
    assert direct.ask("EXISTS", "s") == 0


@later
async def test_after_a_pause_the_rest_of_the_time_counts(
    world: World, direct: Client, become: Become, hold_max: float
) -> None:
    await become("-eval -evalsha")
    _pause(direct)
    held = world.ask()
    assert await world.barriers.judged()
    assert await _outlasts(held, hold_max)
    direct.ask("CLIENT", "UNPAUSE")
    with pytest.raises(ReapRefused):
        await held


async def test_a_reap_that_is_slow_without_a_pause_is_waited_for(
    world: World, direct: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PATIENCE_S", 0.0)
    for _ in range(5):
        manage(direct, "s", m=1)
        await world.ask()
        assert direct.ask("EXISTS", "s") == 0
        manage(direct, "s", m=1)
        await world.ask(only_reads=True)
        assert direct.ask("EXISTS", "s") == 0
