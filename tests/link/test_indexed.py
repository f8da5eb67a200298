"""A question of many sessions: whether keys have an index, so that they may be managed."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from typing import Any

import pytest
from redis.asyncio import Redis
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import RedisError
from redis.exceptions import TimeoutError as RedisTimeoutError

from tests.link.conftest import FAR_MS, S, manage
from tests.link.running import Running, running
from tests.support.containers import AnyServer
from tests.support.redis_client import Client
from ttlproxy.link.connecting import pipeline as module
from ttlproxy.link.connecting.pipeline import Words, run
from ttlproxy.link.life import heartbeat

NONE = (0, b"none")


async def test_a_key_has_an_index_if_it_has_one_in_any_of_the_databases(
    server: AnyServer, direct: Client
) -> None:
    manage(direct, "s", m=FAR_MS)
    with closing(Client(server.port, 3)) as other:
        manage(other, "t", m=FAR_MS)
    async with running(Running(server.url)) as link:
        places = [S, (3, b"s"), NONE, (0, b"t"), (3, b"t"), (3, b"none")]
        found = {b"s": True, b"t": True, b"none": False}
        assert await link.link.holds.indexed(places) == found
        assert await link.link.holds.indexed(places[::-1]) == found
        assert await link.link.holds.indexed([(3, b"s"), (0, b"t")]) == {b"s": False, b"t": False}


async def test_it_is_asked_before_the_next_heartbeat(
    server: AnyServer, direct: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(heartbeat, "EVERY_S", 1e6)
    manage(direct, "s", m=FAR_MS)
    async with running(Running(server.url)) as link:
        await link.beats()
        answers = link.link.heartbeat.answers
        assert await link.link.holds.indexed([S, NONE]) == {b"s": True, b"none": False}
        assert link.link.heartbeat.answers == answers


async def test_a_key_of_which_redis_does_not_tell_it_may_have_one(
    server: AnyServer, direct: Client
) -> None:
    direct.ask("ACL", "SETUSER", "narrow", "on", "nopass", "~*", "&*", "+@all", "-exists")
    async with running(Running(f"redis://narrow:x@127.0.0.1:{server.port}")) as link:
        assert await link.link.holds.indexed([S, (3, b"t")]) == {b"s": True, b"t": True}
    direct.ask("ACL", "DELUSER", "narrow")


@pytest.mark.parametrize("loss", [RedisConnectionError, RedisTimeoutError])
async def test_it_is_asked_again_if_the_connection_or_the_link_is_lost(
    server: AnyServer, direct: Client, monkeypatch: pytest.MonkeyPatch, loss: type[RedisError]
) -> None:
    manage(direct, "s", m=FAR_MS)
    losses = [loss()]

    async def lose(redis: Redis, requests: Sequence[tuple[int, Words]]) -> list[Any]:
        if losses:
            raise losses.pop()
        return await run(redis, requests)

    monkeypatch.setattr(module, "run", lose)
    async with running(Running(server.url)) as link:
        assert await link.link.holds.indexed([S]) == {b"s": True}
