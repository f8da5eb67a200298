"""Schedules: what the registry learns from them, and what becomes of those that are lost."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import closing

import pytest
from redis.asyncio import Redis
from redis.exceptions import ResponseError

from tests.link.conftest import (
    FAR_MS,
    KEYS,
    Become,
    S,
    manage,
    paused,
    set_rule,
)
from tests.support.containers import AnyServer
from tests.support.redis_client import Client
from tests.support.server_queries import calls
from ttlproxy.core.counters import Counters
from ttlproxy.core.registry import DbKey, Registry
from ttlproxy.errors import UpstreamError
from ttlproxy.link import Context
from ttlproxy.link.reaper.schedules import Schedules
from ttlproxy.link.reaper.walks import Orphans
from ttlproxy.link.shared.schedule_queries import Overdue, ScheduleQueries

MANY = 2500
MOST_MS = 1_000_000
# Before and after it.
SOON_MS, LATE_MS = MOST_MS - 1, MOST_MS


@pytest.fixture
def registry(context: Context) -> Registry:
    """It is being read until MOST_MS."""
    registry = context.registry
    registry.begin_reading(MOST_MS)
    return registry


@pytest.fixture
def schedules(context: Context) -> Schedules:
    return Schedules(context)


@pytest.fixture
def trusting(context: Context, schedules: Schedules) -> Schedules:
    context.rights.trusts_schedules = True
    return schedules


def _manage_many(direct: Client, at_ms: int = FAR_MS) -> set[bytes]:
    """Many keys; returns their names."""
    requests = []
    for number in range(MANY):
        key = f"k{number}"
        requests += [("SADD", key, "m"), ("ZADD", KEYS.index(key.encode()), at_ms, "m")]
        requests += [("ZADD", KEYS.schedule, at_ms, key)]
    direct.ask_many(requests)
    return {b"k%d" % number for number in range(MANY)}


async def test_all_pages_of_a_schedule_are_loaded_and_what_needs_attention_soon_is_kept(
    trusting: Schedules, redis: Redis, registry: Registry, direct: Client
) -> None:
    names = _manage_many(direct, SOON_MS)
    for key in ("late:1", "k:2"):
        manage(direct, key, m=LATE_MS)
    assert await trusting.load(redis, 0, is_known=False)
    assert registry.bounds(0) == dict.fromkeys(names, SOON_MS)
    assert all(map(registry.families.covers, [*names, b"late:1", b"k:2"]))
    assert not registry.families.covers(b"other")


@pytest.mark.parametrize("is_known", [False, True])
async def test_families_are_found_by_all_indexes_if_schedules_are_not_trusted(
    schedules: Schedules,
    redis: Redis,
    registry: Registry,
    direct: Client,
    context: Context,
    is_known: bool,
) -> None:
    """Unless these are known."""
    names = _manage_many(direct, SOON_MS)
    direct.ask("DEL", KEYS.schedule)
    set_rule(direct, context.script_calls.signer, "k*", "RPUSH - 0", "late")
    direct.ask("DEL", KEYS.rules)
    assert not await schedules.load(redis, 0, is_known=is_known)
    await context.actions.read(redis, 0)
    covers = registry.families.covers
    assert [covers(name) for name in names] == [not is_known] * MANY
    assert registry.bounds(0) == {}, "any may be due already"
    assert context.actions.has_action(b"k0") == (not is_known), "a rule that the list lacks"


async def test_another_type_in_the_place_of_a_schedule_makes_way(
    trusting: Schedules, redis: Redis, registry: Registry, direct: Client
) -> None:
    names = _manage_many(direct, SOON_MS)
    direct.ask("SET", KEYS.schedule, "junk")
    assert await trusting.load(redis, 0, is_known=False)
    assert registry.bounds(0) == dict.fromkeys(names, SOON_MS)
    assert direct.ask("ZCARD", KEYS.schedule) == MANY


async def test_a_schedule_that_redis_refuses_is_told(
    trusting: Schedules, redis: Redis, become: Become
) -> None:
    await become("-zscan")
    with pytest.raises(ResponseError):
        await trusting.load(redis, 0, is_known=False)


async def test_a_refusal_in_a_rebuild_is_noted_and_the_key_tried_again(
    schedules: Schedules, redis: Redis, direct: Client, become: Become, counters: Counters
) -> None:
    manage(direct, "s", m=FAR_MS)
    direct.ask("SET", KEYS.schedule, "junk")
    await become("-scan")
    await schedules.try_to_rebuild(redis, 0)
    assert counters.refusals == 1
    direct.ask("SET", KEYS.schedule, "junk")
    await become("+scan resetkeys ~nothing ~__ttl:*")
    await schedules.try_to_rebuild(redis, 0)
    assert counters.refusals == 2
    await become("+@all ~*")
    direct.ask("SET", KEYS.schedule, "junk")
    await schedules.try_to_rebuild(redis, 0)
    assert direct.ask("ZRANGE", KEYS.schedule, 0, -1) == [b"s"]
    assert counters.refusals == 2
    await schedules.try_to_rebuild(redis, 0)
    assert direct.ask("ZRANGE", KEYS.schedule, 0, -1) == [b"s"]


async def test_due_keys_are_read_in_all_databases_the_earliest_first(
    schedules: Schedules, redis: Redis, direct: Client, server: AnyServer, counters: Counters
) -> None:
    for key, at in (("b", 20), ("a", 10), ("c", 30), ("now", 50)):
        direct.ask("ZADD", KEYS.schedule, at, key)
    with closing(Client(server.port, 3)) as other:
        other.ask("ZADD", KEYS.schedule, 5, "x")
    assert await schedules.due(redis, [0, 3], 50, 2) == ([(0, b"a"), (0, b"b"), (3, b"x")], {})
    found, refused = await schedules.due(redis, [0], 50)
    assert found == [(0, b"a"), (0, b"b"), (0, b"c")]
    direct.ask("SET", KEYS.schedule, "junk")
    found, refused = await schedules.due(redis, [0, 3], 50)
    assert found == [(3, b"x")]
    assert set(refused) == {0}
    assert counters.refusals == 1


# --- what is due among some places

NOW_MS = 1_000_000


async def test_of_some_places_those_are_told_where_something_is_due(
    trusting: Schedules, redis: Redis, direct: Client, server: AnyServer
) -> None:
    manage(direct, "due", m=NOW_MS - 1, n=FAR_MS)
    manage(direct, "now", m=NOW_MS)
    manage(direct, "later", m=FAR_MS)
    direct.ask("SADD", "plain", "m")
    direct.ask("ZADD", KEYS.schedule, NOW_MS - 1, "gone", "-inf", "odd")
    with closing(Client(server.port, 3)) as other:
        manage(other, "plain", m=1)
        manage(other, "due", m=FAR_MS)
    keys = (b"due", b"now", b"later", b"plain", b"gone", b"odd", b"none")
    places = [(db, key) for db in (0, 3) for key in keys]
    due = {(0, b"due"), (0, b"gone"), (0, b"odd"), (3, b"plain")}
    assert await trusting.due_among(redis, places, NOW_MS) == due
    assert await trusting.due_among(redis, [], NOW_MS) == set()


async def test_among_very_many_places_those_that_are_due_are_found(
    trusting: Schedules, redis: Redis, direct: Client
) -> None:
    names = _manage_many(direct)
    direct.ask("ZADD", KEYS.schedule, 1, "k0", 2, "k1234", 3, "k2499")
    found = await trusting.due_among(redis, {(0, name) for name in names}, NOW_MS)
    assert found == {(0, b"k0"), (0, b"k1234"), (0, b"k2499")}


async def test_a_key_with_an_index_that_the_schedule_lacks_is_due(
    trusting: Schedules, redis: Redis, direct: Client
) -> None:
    manage(direct, "s", m=FAR_MS)
    manage(direct, "t", m=FAR_MS)
    direct.ask("ZREM", KEYS.schedule, "s")
    assert await trusting.due_among(redis, [(0, b"s"), (0, b"t"), (0, b"u")], NOW_MS) == {(0, b"s")}


async def test_each_managed_key_is_due_if_something_else_is_in_the_place_of_a_schedule(
    trusting: Schedules, redis: Redis, direct: Client, server: AnyServer
) -> None:
    manage(direct, "s", m=FAR_MS)
    direct.ask("SET", KEYS.schedule, "junk")
    with closing(Client(server.port, 3)) as other:
        manage(other, "s", m=FAR_MS)
    places = [(0, b"s"), (0, b"plain"), (3, b"s")]
    assert await trusting.due_among(redis, places, NOW_MS) == {(0, b"s")}


async def test_nothing_is_due_in_a_database_that_redis_lacks(
    trusting: Schedules, redis: Redis, direct: Client
) -> None:
    """A client may have asked for it. The others are told as ever."""
    manage(direct, "s", m=1)
    places = [(0, b"s"), (99, b"t"), (2**31, b"t")]
    assert await trusting.due_among(redis, places, NOW_MS) == {(0, b"s")}


@pytest.mark.parametrize(
    ("rules", "due"),
    [("-zscore", {b"s"}), ("-zscore -exists", {b"s", b"t"}), ("-exists", {b"s", b"t"})],
)
async def test_a_key_that_redis_refuses_to_tell_of_may_be_due(
    trusting: Schedules, redis: Redis, direct: Client, become: Become, rules: str, due: set[bytes]
) -> None:
    manage(direct, "s", m=FAR_MS)
    direct.ask("SADD", "t", "m")
    await become(rules)
    found = await trusting.due_among(redis, [(0, b"s"), (0, b"t")], NOW_MS)
    assert found == {(0, key) for key in due}


async def test_each_key_with_an_index_is_due_if_schedules_are_not_trusted(
    schedules: Schedules, redis: Redis, direct: Client, context: Context, server: AnyServer
) -> None:
    """Whatever the schedule says. Also where Redis does not tell."""
    context.rights.trusts_schedules = False
    manage(direct, "s", m=FAR_MS)
    direct.ask("SADD", "plain", "m")
    direct.ask("ZADD", KEYS.schedule, 1, "plain")
    with closing(Client(server.port, 3)) as other:
        manage(other, "plain", m=FAR_MS)
    places = {(0, b"s"), (0, b"plain"), (3, b"s"), (3, b"plain")}
    assert await schedules.due_among(redis, places, NOW_MS) == {(0, b"s"), (3, b"plain")}
    assert await schedules.due_among(redis, set(), NOW_MS) == set()


async def test_there_keys_of_which_redis_does_not_tell_may_be_due(
    schedules: Schedules, redis: Redis, become: Become
) -> None:
    await become("-exists")
    places = {S, (3, b"s"), (99, b"s")}
    assert await schedules.due_among(redis, places, NOW_MS) == {S, (3, b"s"), (99, b"s")}


# --- what is overdue


async def test_overdue_keys_are_counted_in_all_databases(
    redis: Redis, direct: Client, server: AnyServer
) -> None:
    overdue = Overdue()
    assert (overdue.keys, overdue.oldest_s(1000)) == (0, 0)
    direct.ask("ZADD", KEYS.schedule, 4000, "a", 7000, "b", 9000, "later")
    with closing(Client(server.port, 3)) as other:
        other.ask("ZADD", KEYS.schedule, 5000, "x")
        overdue.update(await ScheduleQueries(KEYS).late(redis, [0, 3, 7], 9000))
        assert (overdue.keys, overdue.broken) == (3, [])
        assert overdue.oldest_s(9000) == 5
        assert overdue.oldest_s(3000) == 0
        direct.ask("SET", KEYS.schedule, "junk")
        overdue.update(await ScheduleQueries(KEYS).late(redis, [0, 3], 9000))
    assert (overdue.keys, overdue.broken, overdue.oldest_s(9000)) == (1, [0], 4)
    overdue.update(await ScheduleQueries(KEYS).late(redis, [], 9000))
    assert (overdue.keys, overdue.broken, overdue.oldest_s(9000)) == (0, [], 0)


async def test_a_schedule_that_may_not_be_read_is_not_broken(redis: Redis, become: Become) -> None:
    overdue = Overdue()
    await become("-zrangebyscore")
    overdue.update(await ScheduleQueries(KEYS).late(redis, [0], 9000))
    assert (overdue.keys, overdue.broken) == (0, [])


# --- what no schedule has


async def _search(orphans: Orphans, redis: Redis, databases: list[int], looks: int) -> None:
    for _ in range(looks):
        await orphans.search(redis, databases)


@pytest.mark.parametrize(("attached", "searches"), [(1, 13), (2, 4), (100, 2)])
async def test_of_more_proxies_the_one_that_searches_rests_longer(
    context: Context,
    redis: Redis,
    registry: Registry,
    server: AnyServer,
    attached: int,
    searches: int,
) -> None:
    """A small keyspace is searched at one look."""
    context.fleet.is_alone, context.fleet.attached = attached == 1, attached
    before = calls(server.port, "scan")
    await _search(Orphans(context), redis, [0], 121)
    assert calls(server.port, "scan") - before == searches


async def test_keys_that_no_schedule_has_are_found_a_page_at_a_time(
    context: Context, redis: Redis, direct: Client, server: AnyServer
) -> None:
    context.rights.trusts_schedules = True
    names = _manage_many(direct)
    direct.ask("DEL", KEYS.schedule)
    with closing(Client(server.port, 3)) as other:
        manage(other, "s", m=FAR_MS)
        other.ask("DEL", KEYS.schedule)
        orphans = Orphans(context)
        await orphans.search(redis, [0, 3])
        assert direct.ask("ZCARD", KEYS.schedule) + other.ask("ZCARD", KEYS.schedule) < MANY
        await _search(orphans, redis, [0, 3], 40)
        assert set(direct.ask("ZRANGE", KEYS.schedule, 0, -1)) == names
        assert other.ask("ZRANGE", KEYS.schedule, 0, -1) == [b"s"]


async def test_all_proxies_know_the_family_of_a_key_before_it_is_added(
    context: Context, redis: Redis, direct: Client
) -> None:
    manage(direct, "s", m=FAR_MS)
    direct.ask("DEL", KEYS.schedule)
    lost, known = True, list[DbKey]()

    async def be_sure(places: Iterable[DbKey]) -> None:
        known.extend(places)
        assert not direct.ask("EXISTS", KEYS.schedule)
        if lost:
            raise UpstreamError("lost")

    context.be_sure = be_sure
    await Orphans(context).search(redis, [0])
    assert not direct.ask("EXISTS", KEYS.schedule)
    lost = False
    await Orphans(context).search(redis, [0])
    assert direct.ask("ZRANGE", KEYS.schedule, 0, -1) == [b"s"]
    assert known == [(0, b"s")] * 2


async def test_a_proxy_that_hangs_does_not_hold_up_the_heartbeat(
    context: Context, redis: Redis, direct: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ttlproxy.link.reaper.walks._SURE_S", 0.01)
    manage(direct, "s", m=FAR_MS)
    direct.ask("DEL", KEYS.schedule)

    async def never(places: Iterable[DbKey]) -> None:
        await asyncio.Event().wait()

    context.be_sure = never
    await Orphans(context).search(redis, [0])
    assert not direct.ask("EXISTS", KEYS.schedule)


async def test_a_small_keyspace_is_not_searched_at_each_heartbeat(
    context: Context, redis: Redis, direct: Client
) -> None:
    context.rights.trusts_schedules = True
    orphans = Orphans(context)
    manage(direct, "s", m=FAR_MS)
    looks = []
    for _ in range(3):
        direct.ask("DEL", KEYS.schedule)
        count = 0
        while not direct.ask("EXISTS", KEYS.schedule):
            await orphans.search(redis, [0])
            count += 1
        looks.append(count)
    assert looks == [1, 10, 10]


async def test_a_search_without_databases_finds_nothing(context: Context, redis: Redis) -> None:
    orphans = Orphans(context)
    await _search(orphans, redis, [], 2)


@pytest.mark.parametrize("trusts", [True, False])
async def test_a_key_that_its_schedule_has_too_late_is_corrected_where_that_is_not_trusted(
    context: Context, redis: Redis, direct: Client, trusts: bool
) -> None:
    context.rights.trusts_schedules = trusts
    manage(direct, "s", m=1000)
    direct.ask("ZADD", KEYS.schedule, FAR_MS, "s")
    await Orphans(context).search(redis, [0])
    assert direct.ask("ZSCORE", KEYS.schedule, "s") == b"%d" % (FAR_MS if trusts else 1000)


async def test_names_that_are_no_indexes_are_noted_for_dbsize(
    context: Context, redis: Redis, direct: Client
) -> None:
    later, kept = KEYS.deferred(b"q"), KEYS.kept(b"s")
    direct.ask("HSET", later, "id", "x")
    direct.ask("RPUSH", kept, "x")
    direct.ask("SET", KEYS.lease, "x")
    direct.ask("SET", KEYS.announcement_prefix + b"x", "")
    direct.ask("SADD", KEYS.others, "__ttl:gone")
    manage(direct, "s", m=FAR_MS)
    orphans = Orphans(context)
    await orphans.search(redis, [0])
    assert set(direct.ask("SMEMBERS", KEYS.others)) >= {later, kept}
    assert b"__ttl:gone" not in direct.ask("SMEMBERS", KEYS.others)
    assert not set(direct.ask("SMEMBERS", KEYS.others)) & {
        KEYS.lease,
        KEYS.announcement_prefix + b"x",
        KEYS.index(b"s"),
    }


async def test_the_search_forgets_counts_of_more_than_a_month_ago(
    context: Context, redis: Redis, direct: Client
) -> None:
    counts = KEYS.counts(b"s")
    young = direct.now_ms() // 1000 * 2**20 + 1
    direct.ask("ZADD", counts, 1, "old", young, "young")
    await Orphans(context).search(redis, [0])
    assert direct.ask("ZRANGE", counts, 0, -1) == [b"young"]


async def test_junk_in_the_place_of_the_others_stops_no_search(
    context: Context, redis: Redis, direct: Client, counters: Counters
) -> None:
    direct.ask("SET", KEYS.others, "junk")
    manage(direct, "s", m=FAR_MS)
    direct.ask("DEL", KEYS.schedule)
    await Orphans(context).search(redis, [0])
    assert direct.ask("ZCARD", KEYS.schedule) == 1


async def test_a_key_that_cannot_be_added_to_its_schedule_is_told_of(
    context: Context, redis: Redis, direct: Client, become: Become, counters: Counters
) -> None:
    manage(direct, "s", m=FAR_MS)
    direct.ask("DEL", KEYS.schedule)
    await become("resetkeys ~__ttl:*")
    await Orphans(context).search(redis, [0])
    assert counters.refusals == 1


async def test_one_missing_right_ends_the_search(
    context: Context, redis: Redis, direct: Client, become: Become, counters: Counters
) -> None:
    orphans = Orphans(context)
    await become("-scan")
    await _search(orphans, redis, [0], 3)
    assert counters.refusals == 1
    await become("+scan")
    manage(direct, "s", m=FAR_MS)
    direct.ask("DEL", KEYS.schedule)
    await _search(orphans, redis, [0], 20)
    assert direct.ask("ZCARD", KEYS.schedule) == 0


async def test_while_writes_are_paused_nothing_is_corrected(
    context: Context, redis: Redis, direct: Client
) -> None:
    manage(direct, "s", m=FAR_MS)
    direct.ask("DEL", KEYS.schedule)
    direct.ask("SADD", KEYS.others, "__ttl:gone")
    context.is_paused = paused
    orphans = Orphans(context)
    await orphans.search(redis, [0])
    assert direct.ask("EXISTS", KEYS.schedule) == 0
    assert direct.ask("SMEMBERS", KEYS.others) == [b"__ttl:gone"]
