"""What happens between two heartbeats: jobs, looks for clients that wait, and the next beat."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
from redis.asyncio import Redis

from ttlproxy.core.registry import Registry
from ttlproxy.link.knowledge import confirmations as module
from ttlproxy.link.knowledge.confirmations import Confirmations
from ttlproxy.scripts import Scripts
from ttlproxy.scripts.unconfirmed import Flush, UnconfirmedChanges

# A connection that is passed on and never used.
NOBODY = Redis()
LONG_S = 60


class World:
    """Confirmations, and what they did: "look", "job"; `answers`: of the looks, then False."""

    def __init__(self) -> None:
        self.scripts = Scripts(b"__ttl:")
        self.unconfirmed = UnconfirmedChanges(self.scripts)
        self.confirmations = Confirmations(self.unconfirmed)
        self.done: list[str] = []
        self.answers: Iterator[bool] = iter(())
        self.has_job = asyncio.Event()

    async def look(self, redis: Redis) -> bool:
        assert redis is NOBODY
        self.done.append("look")
        return next(self.answers, False)

    async def job(self, redis: Redis) -> None:
        assert redis is NOBODY
        self.done.append("job")
        self.has_job.set()

    def flushes(self) -> None:
        """A client flushes the scripts, all of which Redis has."""
        self.scripts.loaded = True
        self.unconfirmed.note(Flush(), Registry())

    def begin(self, pause_s: float = LONG_S) -> asyncio.Task[None]:
        return asyncio.create_task(self.confirmations.until_beat(pause_s, NOBODY, self.look))


@pytest.fixture
def world() -> World:
    return World()


async def test_a_pause_that_is_over_ends_it(world: World) -> None:
    await world.begin(0.001)
    await world.begin(-1)
    assert world.done == []


async def test_jobs_have_their_turn_if_heartbeats_take_all_the_time(world: World) -> None:
    world.confirmations.first(world.job)
    await world.begin(-1)
    assert world.done == ["job"]


async def test_a_beat_that_is_asked_for_ends_it_once(world: World) -> None:
    beat = world.begin()
    await asyncio.sleep(0)
    world.confirmations.beat()
    await beat
    second = world.begin()
    done, _ = await asyncio.wait({second}, timeout=0.01)
    assert not done, "the next one comes at its time"
    second.cancel()


async def test_it_rests_unless_something_is_asked(world: World) -> None:
    found = []

    async def job(redis: Redis) -> None:
        found.append(world.confirmations.rests)
        world.confirmations.beat()

    assert not world.confirmations.rests
    beat = world.begin()
    await asyncio.sleep(0)
    assert world.confirmations.rests
    world.confirmations.first(job)
    await beat
    assert found == [False]
    assert not world.confirmations.rests


async def test_a_job_is_done_at_once_and_once(world: World) -> None:
    beat = world.begin()
    await asyncio.sleep(0)
    world.confirmations.first(world.job)
    await world.has_job.wait()
    world.confirmations.first(world.job)
    world.confirmations.beat()
    await beat
    assert world.done == ["job", "job"], "before the beat"
    world.confirmations.beat()
    await world.begin()
    assert world.done == ["job", "job"]


async def test_a_look_that_is_asked_for_with_a_beat_comes_after_it(world: World) -> None:
    world.confirmations.beat()
    waiting = asyncio.create_task(world.confirmations.confirm())
    await asyncio.sleep(0)
    await world.begin()
    assert world.done == []
    beat = world.begin()
    await waiting
    assert set(world.done) == {"look"}
    beat.cancel()


async def test_there_are_several_looks_until_one_finds_a_change(world: World) -> None:
    beat = world.begin()
    await world.confirmations.confirm()
    assert world.done == ["look"] * 5
    world.answers = iter([False, True])
    await world.confirmations.confirm()
    assert world.done == ["look"] * 8, "and one more"
    world.confirmations.beat()
    await beat
    world.confirmations.beat()
    await world.begin()
    assert world.done == ["look"] * 8, "nobody has asked for more"


async def test_after_a_wrong_change_looks_are_few(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_DISTRUST_S", LONG_S)
    beat = world.begin()
    world.flushes()
    await world.confirmations.confirm()
    assert not world.unconfirmed.believed
    del world.done[:]
    await world.confirmations.confirm()
    assert world.done == ["look"] * 2
    assert not world.unconfirmed.believed
    beat.cancel()


async def test_changes_are_believed_again_after_a_while(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_DISTRUST_S", 0.0)
    beat = world.begin()
    for _ in range(2):
        world.flushes()
        await world.confirmations.confirm()
        assert not world.unconfirmed.believed
        await asyncio.sleep(0)  # timers of this moment have their turn
        await asyncio.sleep(0.001)
        assert world.unconfirmed.believed
    beat.cancel()


async def test_a_change_that_is_found_restores_trust_at_once(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_DISTRUST_S", LONG_S)
    beat = world.begin()
    world.flushes()
    await world.confirmations.confirm()
    assert not world.unconfirmed.believed
    world.answers = iter([True])
    await world.confirmations.confirm()
    assert world.unconfirmed.believed
    world.unconfirmed.believed = False  # nobody is about to restore it
    world.answers = iter([True])
    await world.confirmations.confirm()
    assert not world.unconfirmed.believed
    assert not beat.done()
    beat.cancel()


async def test_a_waiting_caller_goes_on_even_if_the_look_fails(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_PATIENCE_S", LONG_S * 60)

    async def fail(redis: Redis) -> bool:
        raise OSError("lost")

    waiting = asyncio.create_task(world.confirmations.confirm())
    await asyncio.sleep(0)
    with pytest.raises(OSError, match="lost"):
        await world.confirmations.until_beat(LONG_S, NOBODY, fail)
    await waiting


async def test_nobody_waits_for_a_look_longer_than_a_second(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_PATIENCE_S", 0.01)
    await world.confirmations.confirm()
    assert world.done == []
