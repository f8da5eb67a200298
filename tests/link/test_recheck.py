"""The walk over the registry that notices what others have deleted or replaced."""

from __future__ import annotations

from contextlib import closing

import pytest
from redis.asyncio import Redis

from tests.link.conftest import FAR_MS, KEYS, Become, manage
from tests.support.containers import AnyServer
from tests.support.redis_client import Client
from ttlproxy.core.counters import Counters
from ttlproxy.link import KEYS_PER_CALL, Context
from ttlproxy.link.life.recheck import Recheck
from ttlproxy.link.reaping.sweep_script import SweepScript

# Heartbeats before a walk begins.
REST = 5


class Pause:
    """Whether writes are paused; asked: how often somebody wanted to know."""

    is_on = False
    asked = 0

    async def __call__(self) -> bool:
        self.asked += 1
        return self.is_on


@pytest.fixture
def pause() -> Pause:
    return Pause()


@pytest.fixture
def recheck(context: Context, counters: Counters, pause: Pause) -> Recheck:
    context.fleet.is_alone = True
    return Recheck(context, SweepScript(context, counters), pause)


async def _look(recheck: Recheck, redis: Redis, times: int) -> None:
    for _ in range(times):
        await recheck.look(redis, True, None)


async def test_a_walk_begins_after_a_rest_and_goes_through_all_databases(
    recheck: Recheck,
    redis: Redis,
    context: Context,
    pause: Pause,
    direct: Client,
    server: AnyServer,
) -> None:
    registry = context.registry
    manage(direct, "s", m=FAR_MS)
    for db, key in ((0, b"s"), (0, b"gone"), (3, b"s"), (3, b"gone")):
        registry.announced(db, key, FAR_MS)
    with closing(Client(server.port, 3)) as other:
        manage(other, "s", m=FAR_MS)
        await _look(recheck, redis, REST - 1)
        assert len(registry) == 4
        assert pause.asked == 0
        await recheck.look(redis, True, None)
        assert set(registry.listed(0, 9)) == {(0, b"s"), (3, b"s")}
        other.ask("DEL", "s", KEYS.index(b"s"))
        await _look(recheck, redis, REST - 1)
        assert len(registry) == 2, "the walk has just ended"
        await recheck.look(redis, True, None)
        assert registry.listed(0, 9) == [(0, b"s")]


async def test_one_look_checks_four_calls_of_a_large_registry(
    recheck: Recheck, redis: Redis, context: Context
) -> None:
    count = 9 * KEYS_PER_CALL
    for number in range(count):
        context.registry.announced(0, b"k%d" % number, FAR_MS)
    await _look(recheck, redis, REST)
    assert len(context.registry) == count - 4 * KEYS_PER_CALL
    await recheck.look(redis, True, None)
    assert len(context.registry) == count - 8 * KEYS_PER_CALL
    await recheck.look(redis, True, None)
    assert len(context.registry) == 0


async def test_who_walks_for_nobody_looks_only_while_it_knows_more_than_the_schedule(
    recheck: Recheck, redis: Redis, context: Context, pause: Pause
) -> None:
    context.fleet.is_alone, context.fleet.attached = False, 12
    for key in (b"gone", b"too"):
        context.registry.announced(0, key, FAR_MS)
    for _ in range(3 * REST):
        await recheck.look(redis, False, 2)
    assert pause.asked == 0
    for _ in range(REST):
        await recheck.look(redis, False, 1)
    assert len(context.registry) == 0


async def test_walks_that_find_nothing_for_several_proxies_become_rare(
    recheck: Recheck, redis: Redis, context: Context, pause: Pause, direct: Client
) -> None:
    context.fleet.is_alone = False
    manage(direct, "s", m=FAR_MS)
    context.registry.announced(0, b"s", FAR_MS)
    for _ in range(1000):
        await recheck.look(redis, True, 1)
    assert 14 <= pause.asked <= 20
    context.registry.announced(0, b"gone", FAR_MS)
    asked = pause.asked
    for _ in range(REST):
        await recheck.look(redis, True, 1)
    assert pause.asked > asked, "there are more than the schedule has"
    assert len(context.registry) == 1


async def test_an_index_without_its_key_is_swept_later(
    recheck: Recheck, redis: Redis, context: Context, direct: Client
) -> None:
    manage(direct, "s", m=FAR_MS)
    direct.ask("DEL", "s")
    context.registry.announced(0, b"s", FAR_MS)
    await _look(recheck, redis, REST)
    assert list(context.agenda.take_sweeps(1 << 61)) == [(0, b"s")]


async def test_nothing_is_checked_in_a_pause_of_writes(
    recheck: Recheck, redis: Redis, context: Context, pause: Pause
) -> None:
    context.registry.announced(0, b"gone", FAR_MS)
    pause.is_on = True
    await _look(recheck, redis, 2 * REST)
    assert len(context.registry) == 1
    pause.is_on = False
    await recheck.look(redis, True, None)
    assert len(context.registry) == 0


async def test_an_empty_registry_asks_nothing(
    recheck: Recheck, redis: Redis, pause: Pause, context: Context
) -> None:
    await _look(recheck, redis, 3 * REST)
    assert pause.asked == 0
    context.registry.announced(0, b"gone", FAR_MS)
    await recheck.look(redis, True, None)
    assert len(context.registry) == 0


async def test_one_missing_right_ends_the_walk(
    recheck: Recheck, redis: Redis, context: Context, become: Become, counters: Counters
) -> None:
    """Redis logs each refusal."""
    context.registry.announced(0, b"gone", FAR_MS)
    await become("-eval -evalsha")
    await _look(recheck, redis, REST)
    assert counters.refusals == 1
    await become("+eval +evalsha")
    await _look(recheck, redis, 2 * REST)
    assert counters.refusals == 1
    assert len(context.registry) == 1
