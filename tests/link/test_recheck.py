"""The walk over the schedules that notices what others have deleted or replaced."""

from __future__ import annotations

from contextlib import closing

import pytest
from redis.asyncio import Redis

from tests.link.conftest import FAR_MS, KEYS, Become, S, manage
from tests.support.containers import AnyServer
from tests.support.redis_client import Client
from tests.support.server_queries import calls
from ttlproxy.core.counters import Counters
from ttlproxy.core.registry import DbKey
from ttlproxy.link import KEYS_PER_CALL, Context
from ttlproxy.link.life.upkeep import Recheck

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
    context.pauses_script, context.is_paused = True, pause
    return Recheck(context)


async def _look(recheck: Recheck, redis: Redis, times: int) -> None:
    for _ in range(times):
        await recheck.check_page(redis)


def _found(context: Context) -> set[DbKey]:
    """What is to be swept, since this was last asked."""
    return {*context.agenda.take_sweeps(1 << 61)}


def _manage_gone(direct: Client, count: int) -> None:
    """Makes indexes of keys that are not there."""
    requests = list[tuple[bytes | str | int, ...]]()
    for number in range(count):
        key = b"k%d" % number
        requests += [("ZADD", KEYS.index(key), FAR_MS, "m"), ("ZADD", KEYS.schedule, FAR_MS, key)]
    direct.ask_many(requests)


async def test_a_walk_begins_after_a_rest_and_goes_through_all_databases(
    recheck: Recheck,
    redis: Redis,
    context: Context,
    pause: Pause,
    direct: Client,
    server: AnyServer,
) -> None:
    context.registry.populate([0, 3])
    with closing(Client(server.port, 3)) as other:
        for client in (direct, other):
            for key in ("s", "gone"):
                manage(client, key, m=FAR_MS)
            client.ask("DEL", "gone")
        await _look(recheck, redis, REST - 1)
        assert _found(context) == set()
        assert pause.asked == 0
        await recheck.check_page(redis)
        assert _found(context) == {(0, b"gone"), (3, b"gone")}
        other.ask("DEL", "s")
        await _look(recheck, redis, REST - 1)
        assert _found(context) == set(), "the walk has just ended"
        await recheck.check_page(redis)
        assert _found(context) == {(0, b"gone"), (3, b"gone"), (3, b"s")}


async def test_keys_that_nobody_here_knows_to_be_due_are_checked(
    recheck: Recheck, redis: Redis, context: Context, direct: Client
) -> None:
    """Their bounds are learnt, as of those whose index another proxy has dropped."""
    registry = context.registry
    registry.populate([0])
    registry.end_reading(registry.begin_reading(1000), 1000)
    for key in ("s", "reaped"):
        manage(direct, key, m=FAR_MS)
        registry.announced(0, key.encode(), 1)
    direct.ask("DEL", "reaped", KEYS.index(b"reaped"))
    await _look(recheck, redis, REST)
    assert registry.bounds(0) == {}
    assert _found(context) == set()


async def test_one_look_checks_four_calls_of_many_keys(
    recheck: Recheck, redis: Redis, context: Context, server: AnyServer, direct: Client
) -> None:
    context.registry.populate([0])
    count = 9 * KEYS_PER_CALL
    _manage_gone(direct, count)
    await _look(recheck, redis, REST - 1)
    found = set[DbKey]()
    looks = 0
    while len(found) < count:
        before = calls(server.port, "eval")
        await recheck.check_page(redis)
        looks += 1
        assert calls(server.port, "eval") - before <= 4
        new = _found(context)
        assert new
        assert not new & found
        found |= new
    assert looks >= 3


async def test_a_walk_that_found_all_begins_again_after_a_rest(
    recheck: Recheck, redis: Redis, context: Context, direct: Client, pause: Pause
) -> None:
    context.registry.populate([0])
    manage(direct, "s", m=FAR_MS)
    await _look(recheck, redis, 3 * REST)
    assert pause.asked == 3


async def test_when_the_first_rule_comes_a_walk_begins_at_once(
    recheck: Recheck, redis: Redis, context: Context, direct: Client
) -> None:
    """Keys become kept."""
    context.registry.populate([0])
    manage(direct, "s", m=FAR_MS)
    direct.ask("DEL", "s")
    await recheck.check_page(redis)
    assert _found(context) == set()
    context.scripts.ruled(True, False)
    await recheck.check_page(redis)
    assert _found(context) == {S}


async def test_walks_that_find_nothing_for_several_proxies_become_rare(
    recheck: Recheck, redis: Redis, context: Context, pause: Pause, direct: Client
) -> None:
    context.fleet.is_alone = False
    context.registry.populate([0])
    manage(direct, "s", m=FAR_MS)
    await _look(recheck, redis, 1000)
    assert 14 <= pause.asked <= 20
    direct.ask("DEL", "s")
    while not _found(context):
        await recheck.check_page(redis)
    asked = pause.asked
    await _look(recheck, redis, REST)
    assert pause.asked > asked, "there may be more to find"


async def test_an_index_without_its_key_is_swept_later(
    recheck: Recheck, redis: Redis, context: Context, direct: Client
) -> None:
    context.registry.populate([0])
    manage(direct, "s", m=FAR_MS)
    direct.ask("DEL", "s")
    await _look(recheck, redis, REST)
    assert list(context.agenda.take_sweeps(1 << 61)) == [S]


async def test_nothing_is_checked_in_a_pause_of_writes(
    recheck: Recheck, redis: Redis, context: Context, pause: Pause, direct: Client
) -> None:
    context.registry.populate([0])
    _manage_gone(direct, 1)
    pause.is_on = True
    await _look(recheck, redis, 2 * REST)
    assert _found(context) == set()
    pause.is_on = False
    await recheck.check_page(redis)
    assert _found(context) == {(0, b"k0")}


@pytest.mark.parametrize("right", ["eval", "zscan"])
async def test_one_missing_right_ends_the_walk(
    recheck: Recheck,
    redis: Redis,
    context: Context,
    direct: Client,
    become: Become,
    counters: Counters,
    right: str,
) -> None:
    """Redis logs each refusal."""
    context.registry.populate([0])
    _manage_gone(direct, 1)
    await become(f"-{right} -evalsha")
    await _look(recheck, redis, REST)
    assert counters.refusals == 1
    await become(f"+{right} +evalsha")
    await _look(recheck, redis, 2 * REST)
    assert counters.refusals == 1
    assert _found(context) == set()
