"""What happens between two heartbeats: jobs, looks for clients that wait, and the next beat."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator

import pytest
from redis.asyncio import Redis

from ttlproxy.core.registry import Registry
from ttlproxy.link.knowledge import jobs as module
from ttlproxy.link.knowledge.jobs import Jobs
from ttlproxy.scripts import Scripts
from ttlproxy.scripts.unconfirmed import Flush, UnconfirmedChanges

# A connection that is passed on and never used.
NOBODY = Redis()
LONG_S = 60


class World:
    """Jobs, and what they did: "look", "job"; `answers`: of the looks, then False."""

    def __init__(self) -> None:
        self.scripts = Scripts(b"__ttl:")
        self.unconfirmed = UnconfirmedChanges(self.scripts)
        self.jobs = Jobs(self.unconfirmed)
        self.jobs.look = self.look
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

    async def verify(self, *answers: bool) -> None:
        """A request has been answered; the next looks find this."""
        self.answers = iter(answers)
        await self.jobs.verify(_at_once())

    def begin(self, pause_s: float = LONG_S) -> asyncio.Task[None]:
        return asyncio.create_task(self.jobs.until_beat(pause_s, NOBODY))


async def _at_once() -> None:
    """The reply has come."""


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
async def distrusting(world: World, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[World]:
    """A refused change ends belief for longer than the test; what is asked for is done."""
    monkeypatch.setattr(module, "_DISTRUST_S", LONG_S)
    beat = world.begin()
    yield world
    assert not beat.done()
    beat.cancel()


async def test_a_pause_that_is_over_ends_it(world: World) -> None:
    await world.begin(0.001)
    await world.begin(-1)
    assert world.done == []


async def test_jobs_have_their_turn_if_heartbeats_take_all_the_time(world: World) -> None:
    world.jobs.soon(world.job)
    await world.begin(-1)
    assert world.done == ["job"]


async def test_a_beat_that_is_asked_for_ends_it_once(world: World) -> None:
    beat = world.begin()
    await asyncio.sleep(0)
    world.jobs.beat()
    await beat
    second = world.begin()
    done, _ = await asyncio.wait({second}, timeout=0.01)
    assert not done, "the next one comes at its time"
    second.cancel()


async def test_it_rests_unless_something_is_asked(world: World) -> None:
    found = []

    async def job(redis: Redis) -> None:
        found.append(world.jobs.rests)
        world.jobs.beat()

    assert not world.jobs.rests
    beat = world.begin()
    await asyncio.sleep(0)
    assert world.jobs.rests
    world.jobs.soon(job)
    await beat
    assert found == [False]
    assert not world.jobs.rests


async def test_a_job_is_done_at_once_and_once(world: World) -> None:
    beat = world.begin()
    await asyncio.sleep(0)
    world.jobs.soon(world.job)
    await world.has_job.wait()
    world.jobs.soon(world.job)
    world.jobs.beat()
    await beat
    assert world.done == ["job", "job"], "before the beat"
    world.jobs.beat()
    await world.begin()
    assert world.done == ["job", "job"]


async def test_a_look_comes_behind_the_reply_and_the_caller_waits_for_it(world: World) -> None:
    beat, reply = world.begin(), asyncio.Event()
    waiting = asyncio.create_task(world.jobs.verify(_until(reply)))
    await asyncio.sleep(0)
    world.jobs.soon(world.job)
    await world.has_job.wait()
    assert world.scripts.unanswered == 1
    reply.set()
    await waiting
    assert world.done == ["job", "look", "look"], "and nobody has asked for more"
    assert world.scripts.unanswered == 0
    beat.cancel()


async def test_one_look_serves_all_that_wait(world: World) -> None:
    waiting = [asyncio.create_task(world.jobs.verify(_at_once())) for _ in range(3)]
    beat = world.begin()
    await asyncio.gather(*waiting)
    assert world.done == ["look", "look"]
    beat.cancel()


async def test_the_link_looks_also_if_the_client_has_left(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its request is on its way, and its reply is never known."""
    monkeypatch.setattr(module, "UNANSWERED_S", 0.0)
    beat, looked = world.begin(), asyncio.Event()

    async def look(redis: Redis) -> bool:
        assert world.scripts.unanswered == 0
        looked.set()
        return False

    world.jobs.look = look
    waiting = asyncio.create_task(world.jobs.verify(_until(asyncio.Event())))
    await asyncio.sleep(0)
    assert world.scripts.unanswered == 1
    waiting.cancel()
    await looked.wait()
    beat.cancel()


async def test_a_refused_change_ends_the_belief_in_others(distrusting: World) -> None:
    distrusting.flushes()
    await distrusting.verify()
    assert not distrusting.unconfirmed.believed
    distrusting.flushes()
    assert distrusting.scripts.loaded


async def test_nothing_is_judged_while_another_change_is_on_its_way(distrusting: World) -> None:
    """It may be the one that was believed."""
    reply = asyncio.Event()
    distrusting.flushes()
    other = asyncio.create_task(distrusting.jobs.verify(_until(reply)))
    await asyncio.sleep(0)
    await distrusting.verify()
    assert distrusting.unconfirmed.believed
    reply.set()
    await other
    assert not distrusting.unconfirmed.believed


async def test_changes_are_believed_again_after_a_while(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_DISTRUST_S", 0.0)
    beat = world.begin()
    for _ in range(2):
        world.flushes()
        await world.verify()
        assert not world.unconfirmed.believed
        await asyncio.sleep(0)  # timers of this moment have their turn
        await asyncio.sleep(0.001)
        assert world.unconfirmed.believed
    beat.cancel()


async def test_a_change_that_is_found_restores_trust_at_once(distrusting: World) -> None:
    distrusting.flushes()
    await distrusting.verify()
    assert not distrusting.unconfirmed.believed
    await distrusting.verify(False, True)
    assert distrusting.unconfirmed.believed
    distrusting.unconfirmed.believed = False  # nobody is about to restore it
    await distrusting.verify(True)
    assert not distrusting.unconfirmed.believed


async def test_a_waiting_caller_goes_on_even_if_the_look_fails(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_PATIENCE_S", LONG_S * 60)

    async def fail(redis: Redis) -> bool:
        raise OSError("lost")

    world.jobs.look = fail
    waiting = asyncio.create_task(world.verify())
    with pytest.raises(OSError, match="lost"):
        await world.jobs.until_beat(LONG_S, NOBODY)
    await waiting


async def test_nobody_waits_for_a_look_longer_than_a_second(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_PATIENCE_S", 0.01)
    await world.verify()
    assert world.done == []


async def _until(reply: asyncio.Event) -> None:
    await reply.wait()
