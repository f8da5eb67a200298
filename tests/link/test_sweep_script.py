"""Sweeps: entries without an element go, and the registry learns what is left."""

from __future__ import annotations

import asyncio
from contextlib import closing

import pytest
from redis.asyncio import Redis
from redis.exceptions import ResponseError

from tests.link.conftest import FAR_MS, KEYS, Become, S, manage
from tests.support.containers import AnyServer
from tests.support.redis_client import Client
from ttlproxy.core.counters import Counters
from ttlproxy.core.keys import KEY_EXPIRY, Keys
from ttlproxy.core.registry import Registry
from ttlproxy.link import Context
from ttlproxy.link.reaper.removal import SweepScript

UNTIL_MS = FAR_MS + 10_000
# For each type: a command that adds elements, its words, and what removes `a`.
ADDED_AND_REMOVED = {
    "hash": ("HSET", ("a", 1, "b", 2), ("HDEL", "hash", "a")),
    "set": ("SADD", ("a", "b"), ("SREM", "set", "a")),
    "zset": ("ZADD", (1, "a", 2, "b"), ("ZREM", "zset", "a")),
    "list": ("RPUSH", ("a", "b"), ("LREM", "list", 0, "a")),
}


@pytest.fixture
def registry(context: Context) -> Registry:
    """All is known that needs attention before UNTIL_MS."""
    registry = context.registry
    registry.end_reading(registry.begin_reading(UNTIL_MS), UNTIL_MS)
    return registry


@pytest.fixture
def sweep(context: Context, counters: Counters) -> SweepScript:
    return SweepScript(context)


async def test_every_page_of_an_index_is_swept(
    sweep: SweepScript, redis: Redis, registry: Registry, direct: Client, counters: Counters
) -> None:
    members = {f"m{number}": FAR_MS + number for number in range(2000)}
    manage(direct, "s", **members)
    registry.announced(0, b"s", 1)
    direct.ask("SREM", "s", *(name for name in members if name != "m1999"))
    assert await sweep(redis, S) is None
    assert direct.ask("ZRANGE", KEYS.index(b"s"), 0, -1) == [b"m1999"]
    assert counters.swept_entries == 1999
    assert registry.bounds(0) == {b"s": FAR_MS + 1999}


async def test_nothing_is_due_in_a_key_without_an_index(
    sweep: SweepScript, redis: Redis, registry: Registry, direct: Client
) -> None:
    manage(direct, "s", m=FAR_MS)
    registry.announced(0, b"s", FAR_MS)
    direct.ask("DEL", "s")
    assert await sweep(redis, S) is None
    assert direct.ask("EXISTS", KEYS.index(b"s")) == 0
    assert registry.bounds(0) == {}


async def test_a_value_that_is_no_index_goes_and_nothing_is_due_in_its_key(
    sweep: SweepScript, redis: Redis, registry: Registry, direct: Client
) -> None:
    manage(direct, "s", m=FAR_MS)
    registry.announced(0, b"s", FAR_MS)
    direct.ask("SET", KEYS.index(b"s"), "junk")
    assert await sweep(redis, S) is None
    assert direct.ask("EXISTS", KEYS.index(b"s"), KEYS.schedule) == 0
    assert registry.bounds(0) == {}
    assert direct.ask("SMEMBERS", "s") == [b"m"]


async def test_a_refusal_by_redis_is_told_and_noted(
    sweep: SweepScript, redis: Redis, counters: Counters, direct: Client, become: Become
) -> None:
    manage(direct, "s", m=FAR_MS)
    await become("-zscan")
    assert isinstance(await sweep(redis, S), ResponseError)
    assert counters.refusals == 1


async def test_a_deadline_that_is_announced_meanwhile_counts_more_than_the_answer(
    sweep: SweepScript, redis: Redis, registry: Registry, direct: Client
) -> None:
    registry.announced(0, b"s", FAR_MS)
    await redis.execute_command("PING")  # it is connected
    sweeping = asyncio.create_task(sweep(redis, S))
    await asyncio.sleep(0)  # it is asked for
    registry.announced(0, b"s", FAR_MS)
    assert await sweeping is None
    assert registry.bounds(0) == {b"s": FAR_MS}
    assert await sweep(redis, S) is None
    assert registry.bounds(0) == {}, "an announcement counts for what was under way then"


async def test_keys_that_have_an_index_are_found_in_all_databases(
    sweep: SweepScript, redis: Redis, registry: Registry, server: AnyServer, direct: Client
) -> None:
    places = [(0, b"k%d" % number) for number in range(300)] + [(3, b"s"), (3, b"none")]
    for number in (0, 130, 299):
        manage(direct, f"k{number}", m=FAR_MS)
    for _, key in places[:300]:
        registry.announced(0, key, FAR_MS)
    with closing(Client(server.port, 3)) as other:
        manage(other, "s", m=FAR_MS)
    found = await sweep.with_index(redis, places)
    assert found == [(0, b"k0"), (0, b"k130"), (0, b"k299"), (3, b"s")]
    assert registry.bounds(0).keys() == {b"k0", b"k130", b"k299"}, "the others are forgotten"
    assert await sweep.with_index(redis, []) == []


async def test_a_key_that_may_have_an_index_is_swept(
    sweep: SweepScript, redis: Redis, become: Become
) -> None:
    await become("-eval -evalsha")
    assert await sweep.with_index(redis, [S, (0, b"none")]) == [S, (0, b"none")]


async def test_a_key_that_is_gone_must_be_swept_and_others_are_learnt(
    sweep: SweepScript, redis: Redis, registry: Registry, direct: Client
) -> None:
    for key in ("s", "gone", "emptied"):
        manage(direct, key, m=FAR_MS)
        registry.announced(0, key.encode(), 1)
    direct.ask("DEL", "gone", KEYS.index(b"emptied"))
    found = await sweep.must_be_swept(redis, 0, [b"s", b"gone", b"emptied"], 0)
    assert found == [(0, b"gone")]
    assert registry.bounds(0) == {b"s": FAR_MS, b"gone": 1}


async def test_a_key_lacks_an_element_that_has_a_deadline(
    sweep: SweepScript, redis: Redis, direct: Client
) -> None:
    """If HINCRBY created it again, it would get that deadline."""
    for kind, (add, words, remove) in ADDED_AND_REMOVED.items():
        direct.ask(add, kind, *words)
        direct.ask("ZADD", KEYS.index(kind.encode()), FAR_MS, "a", FAR_MS, "b")
        assert await sweep.must_be_swept(redis, 0, [kind.encode()], 0) == []
        direct.ask(*remove)
        place = (0, kind.encode())
        assert await sweep.must_be_swept(redis, 0, [kind.encode()], 0) == [place]
        assert await sweep(redis, place) is None
        assert direct.ask("ZRANGE", KEYS.index(kind.encode()), 0, -1) == [b"b"]


async def test_of_many_deadlines_others_are_looked_at_in_each_turn(
    sweep: SweepScript, redis: Redis, direct: Client
) -> None:
    manage(direct, "s", **{f"m{number:02}": FAR_MS for number in range(20)})
    direct.ask("SREM", "s", "m19")
    found = [await sweep.must_be_swept(redis, 0, [b"s"], turn) for turn in range(5)]
    assert found == [[], [], [S], [], []]


@pytest.mark.parametrize("changed", ["PEXPIREAT s 4000000000000", "PERSIST s"])
async def test_a_key_expires_at_another_time_than_its_index_says(
    sweep: SweepScript, redis: Redis, direct: Client, changed: str
) -> None:
    manage(direct, "s", m=FAR_MS)
    if changed == "PERSIST s":
        direct.ask("PEXPIREAT", "s", FAR_MS)
        direct.ask("ZADD", KEYS.index(b"s"), -FAR_MS, KEY_EXPIRY)
    assert await sweep.must_be_swept(redis, 0, [b"s"], 0) == []
    direct.ask(*changed.split())
    assert await sweep.must_be_swept(redis, 0, [b"s"], 0) == [S]
    assert await sweep(redis, S) is None
    assert await sweep.must_be_swept(redis, 0, [b"s"], 0) == []


async def test_an_entry_that_waits_in_an_outbox_has_no_element_to_be_looked_for(
    sweep: SweepScript, redis: Redis, direct: Client
) -> None:
    box = Keys(clustered=True).outbox_to(b"k", 1)
    direct.ask("RPUSH", box, "entry")
    direct.ask("ZADD", KEYS.index(box), FAR_MS, "")
    assert await sweep.must_be_swept(redis, 0, [box], 0) == []
