"""What Redis's ACL says: it is asked until it has refused once in a life of the link."""

from __future__ import annotations

from redis.asyncio import Redis

from tests.conftest import StartServer
from tests.link.conftest import Become
from tests.support.redis_client import Client
from ttlproxy.addresses import Upstream
from ttlproxy.core.permissions import Rights
from ttlproxy.link import client
from ttlproxy.link.connecting.pipeline import run
from ttlproxy.link.server.acl import Acl

NAMES = [b"read", b"write"]


async def learn_all(acl: Acl, redis: Redis, names: list[bytes]) -> None:
    """As a thorough heartbeat does."""
    replies = await run(redis, [(0, words) for words in acl.questions()])
    await acl.update(redis, replies, names)


async def test_users_are_read_and_changes_told(redis: Redis, direct: Client) -> None:
    rights = Rights()
    acl = Acl(rights)
    assert await acl.learn_users(redis)
    assert rights.knows(b"default")
    assert not rights.knows(b"ann")
    assert not await acl.learn_users(redis)
    direct.ask("ACL", "SETUSER", "ann")
    try:
        assert await acl.learn_users(redis)
        assert rights.knows(b"ann")
    finally:
        direct.ask("ACL", "DELUSER", "ann")


async def test_a_server_that_refuses_once_is_asked_again_in_the_next_life(
    redis: Redis, direct: Client, become: Become
) -> None:
    rights = Rights()
    acl = Acl(rights)
    await acl.learn_users(redis)
    await learn_all(acl, redis, NAMES)
    assert acl.categories
    rights.trusts_schedules = True
    await become("-acl")
    assert not await acl.learn_users(redis)
    assert not rights.trusts_schedules
    await become("+acl")
    assert not await acl.learn_users(redis), "each refusal would be logged by Redis"
    await learn_all(acl, redis, NAMES)
    assert acl.categories == {}, "whoever may not see rights is told nothing"
    acl.begin_life()
    assert await acl.learn_users(redis)


async def test_only_who_may_not_see_the_users_has_scripts_check_rights(
    redis: Redis, become: Become
) -> None:
    """A server that is busy is asked again; one without ACL has no users to speak of."""
    rights = Rights()
    acl = Acl(rights)
    await acl.learn_users(redis)
    rights.learn_refused(hidden=False)
    assert rights.have_all([b"default"])
    assert not rights.trusts_schedules
    await become("-acl")
    await acl.learn_users(redis)
    assert not rights.have_all([b"default"])


async def test_a_server_without_acl_costs_scripts_no_more(start_server: StartServer) -> None:
    server = start_server("--rename-command", "ACL", "")
    redis = client(Upstream.parse(server.url), "test", 30.0)
    rights = Rights()
    try:
        assert not await Acl(rights).learn_users(redis)
    finally:
        await redis.aclose()
    assert rights.have_all([b"default"])
    assert rights.all_have_all


async def test_categories_are_read_again_for_another_server_only(redis: Redis) -> None:
    """Or when the number of its commands changes."""
    acl = Acl(Rights())
    await learn_all(acl, redis, NAMES)
    assert b"get" in acl.categories[b"read"]
    assert b"set" in acl.categories[b"write"]
    assert b"set" not in acl.categories[b"read"]
    acl.categories.clear()
    await learn_all(acl, redis, NAMES)
    assert acl.categories == {}, "they are known"
    acl.start_anew(True)
    await learn_all(acl, redis, NAMES)
    assert b"get" in acl.categories[b"read"]


async def test_a_server_that_shows_no_commands_is_not_asked_for_categories(redis: Redis) -> None:
    acl = Acl(Rights())
    acl.start_anew(False)
    acl.categories[b"read"] = [b"get"]
    await learn_all(acl, redis, NAMES)
    assert acl.categories == {}


async def test_categories_that_redis_refuses_are_not_asked_for_again(
    redis: Redis, become: Become
) -> None:
    acl = Acl(Rights())
    await become("-command")
    await learn_all(acl, redis, NAMES)
    assert acl.categories == {}
    await become("+command")
    await learn_all(acl, redis, NAMES)
    assert acl.categories == {}
    acl.start_anew(True)
    await learn_all(acl, redis, NAMES)
    assert acl.categories


async def test_a_category_that_redis_does_not_have_brings_none(redis: Redis) -> None:
    """It is no missing right, so they are asked for again."""
    acl = Acl(Rights())
    await learn_all(acl, redis, [b"read", b"nonsense"])
    assert acl.categories == {}
    await learn_all(acl, redis, NAMES)
    assert acl.categories
