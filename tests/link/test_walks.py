"""One of several proxies walks over the data for all."""

from __future__ import annotations

from contextlib import closing

import pytest
from redis.asyncio import Redis

from tests.link.conftest import KEYS, Become, paused
from tests.support.containers import AnyServer
from tests.support.redis_client import Client
from tests.support.server_queries import calls
from ttlproxy.link import Context
from ttlproxy.link.reaper import walks as module
from ttlproxy.link.reaper.walks import Walks

# Names are hexadecimal.
SMALLER, LARGER = b"-", b"x"


@pytest.fixture
def walks(context: Context) -> Walks:
    context.fleet.attached = 2
    return Walks(context)


@pytest.fixture
def at_once(context: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    """There are others, and nobody waits until they are silent."""
    context.fleet.attached = 2
    monkeypatch.setattr(module, "_AT_FIRST", (0.0, 0.0))


async def test_a_lone_proxy_walks_and_writes_nothing(
    walks: Walks, context: Context, redis: Redis, server: AnyServer
) -> None:
    context.fleet.is_alone = True
    before = calls(server.port, "set")
    assert await walks.mine(redis)
    assert walks.is_on
    assert calls(server.port, "set") == before


async def test_of_several_one_begins_if_it_hears_of_no_other(walks: Walks, redis: Redis) -> None:
    assert not await walks.mine(redis)
    walks._begins_s = 0.0
    assert await walks.mine(redis)


@pytest.mark.usefixtures("at_once")
async def test_the_proxy_that_walks_announces_it_once_in_a_while(
    context: Context, redis: Redis, server: AnyServer, direct: Client
) -> None:
    walks = Walks(context)
    with closing(Client(server.port, protocol=3)) as other:
        prefix = KEYS.announcement_prefix
        other.ask("CLIENT", "TRACKING", "ON", "BCAST", "PREFIX", prefix)
        before = calls(server.port, "set")
        for _ in range(3):
            assert await walks.mine(redis)
        assert calls(server.port, "set") == before + 1
    assert direct.ask("KEYS", prefix + b"*") == []


@pytest.mark.usefixtures("at_once")
async def test_of_two_the_one_with_the_smaller_name_goes_on(context: Context, redis: Redis) -> None:
    walks = Walks(context)
    assert await walks.mine(redis)
    walks.heard(walks._name)
    walks.heard(LARGER)
    assert await walks.mine(redis)
    walks.heard(SMALLER)
    assert not await walks.mine(redis)
    assert not walks.is_on


@pytest.mark.usefixtures("at_once")
async def test_a_proxy_that_hears_of_one_with_a_larger_name_says_at_once_that_it_walks(
    context: Context, redis: Redis, server: AnyServer
) -> None:
    walks = Walks(context)
    await walks.mine(redis)
    before = calls(server.port, "set")
    walks.heard(LARGER)
    await walks.mine(redis)
    assert calls(server.port, "set") == before + 1


@pytest.mark.usefixtures("at_once")
async def test_nothing_is_written_in_a_pause(
    context: Context, redis: Redis, server: AnyServer
) -> None:
    before = calls(server.port, "set")
    context.is_paused = paused
    assert not await Walks(context).mine(redis)
    assert calls(server.port, "set") == before


@pytest.mark.usefixtures("at_once")
async def test_a_proxy_that_may_not_announce_its_walk_does_a_part(
    context: Context, redis: Redis, become: Become, monkeypatch: pytest.MonkeyPatch
) -> None:
    await become("-set")
    context.fleet.attached = 10
    for chance, walks in ((0.05, True), (0.5, False)):
        monkeypatch.setattr(module, "random", lambda chance=chance: chance)
        assert await Walks(context).mine(redis) is walks


@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize("chance", [0.05, 0.5])
async def test_a_proxy_that_may_not_announce_its_walk_tries_no_more_often(
    context: Context,
    redis: Redis,
    server: AnyServer,
    become: Become,
    monkeypatch: pytest.MonkeyPatch,
    chance: float,
) -> None:
    await become("-set")
    context.fleet.attached = 10
    monkeypatch.setattr(module, "random", lambda: chance)
    walks, before = Walks(context), calls(server.port, "del")
    assert {await walks.mine(redis) for _ in range(3)} == {chance == 0.05}
    assert calls(server.port, "del") == before + 1


def test_the_announcement_names_who_walks() -> None:
    assert KEYS.walking(KEYS.walks(b"a1")) == b"a1"
    assert KEYS.walking(KEYS.hello) is None
    assert KEYS.announced(KEYS.walks(b"a1")) is None
