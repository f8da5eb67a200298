"""Which hashes are looked at for deadlines of the server's own. Servers without such deadlines run
the same script, which finds none; how often it looks into a hash is counted."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing

import pytest
from redis.asyncio import Redis

from tests.link.conftest import Become, set_rule
from tests.support.containers import AnyServer
from tests.support.redis_client import Client
from tests.support.server_queries import calls
from ttlproxy.core.counters import Counters
from ttlproxy.link import Context
from ttlproxy.link.reaper import ruled_deadlines as module
from ttlproxy.link.reaper.ruled_deadlines import NativeDeadlines

Looked = Callable[[], int]


@pytest.fixture
def native(context: Context) -> NativeDeadlines:
    return NativeDeadlines(context)


@pytest.fixture
def looked(server: AnyServer) -> Looked:
    """`looked()`: how many pages of hashes have been read since the last call."""
    before = [calls(server.port, "hscan")]

    def count() -> int:
        before.append(calls(server.port, "hscan"))
        return before[-1] - before[-2]

    return count


async def _rule(context: Context, redis: Redis, client: Client, db: int, pattern: str) -> None:
    """Another client sets a rule, and all proxies are told."""
    set_rule(client, context.script_calls.signer, pattern, "RPUSH - 0", "late")
    context.actions.changed(db, False, pattern.encode())
    await context.actions.read(redis, db)


async def test_each_hash_that_a_new_rule_is_for_is_looked_at_once(
    native: NativeDeadlines,
    context: Context,
    redis: Redis,
    server: AnyServer,
    direct: Client,
    looked: Looked,
) -> None:
    with closing(Client(server.port, 3)) as other:
        for number in range(40):
            other.ask("HSET", f"h:{number}", "f", "v")
        other.ask("HSET", "not", "f", "v")
        other.ask("SADD", "h:set", "m")
        direct.ask("HSET", "h:0", "f", "v")
        await native(redis)
        assert looked() == 0
        await _rule(context, redis, other, 3, "h:*")
        await native(redis)
        assert looked() == 40
        await native(redis)
        assert looked() == 0


async def test_a_large_hash_is_read_to_its_end(
    native: NativeDeadlines, context: Context, redis: Redis, direct: Client, looked: Looked
) -> None:
    direct.ask("HSET", "h", *(word for field in range(1200) for word in (field, "v")))
    await _rule(context, redis, direct, 0, "h")
    await native(redis)
    assert looked() > 1


async def test_a_large_database_is_read_in_parts(
    native: NativeDeadlines,
    context: Context,
    redis: Redis,
    direct: Client,
    looked: Looked,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "_PAGE", b"10")
    monkeypatch.setattr(module, "_PAGES", 2)
    for number in range(200):
        direct.ask("HSET", f"h{number}", "f", "v")
    await _rule(context, redis, direct, 0, "h*")
    found = list[int]()
    while sum(found) < 200:
        await native(redis)
        found.append(looked())
    assert len(found) > 5
    assert min(found) > 0
    await native(redis)
    assert looked() == 0, "a hash may be found twice in one walk, and then no more"


async def test_a_refusal_in_one_database_stops_no_other_and_is_tried_again(
    native: NativeDeadlines,
    context: Context,
    counters: Counters,
    redis: Redis,
    server: AnyServer,
    direct: Client,
    become: Become,
    looked: Looked,
) -> None:
    with closing(Client(server.port, 3)) as other:
        direct.ask("HSET", "bad", "f", "v")
        other.ask("HSET", "good", "f", "v")
        await _rule(context, redis, direct, 0, "bad")
        await _rule(context, redis, other, 3, "good")
    await become("resetkeys ~good ~__ttl:*")
    await native(redis)
    assert counters.refusals == 1
    assert looked() == 1
    direct.ask("ACL", "SETUSER", "narrow", "~*")
    await native(redis)
    assert looked() == 1
    await native(redis)
    assert looked() == 0


async def test_while_writes_are_paused_no_hash_is_looked_at(
    context: Context, redis: Redis, direct: Client, looked: Looked
) -> None:
    """The script would keep the heartbeat waiting. They are looked at once the pause is over."""
    answers = [True, True, False]

    async def is_paused() -> bool:
        return answers.pop(0)

    context.is_paused = is_paused
    native = NativeDeadlines(context)
    direct.ask("HSET", "h", "f", "v")
    await native(redis)
    assert len(answers) == 3, "without a new rule nobody asks: that may be a request of its own"
    await _rule(context, redis, direct, 0, "h")
    for pages in (0, 0, 1):
        await native(redis)
        assert looked() == pages
