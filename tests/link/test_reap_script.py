"""Calls of the reap script: what they leave, and what becomes of what Redis refuses."""

from __future__ import annotations

import asyncio
from contextlib import closing

import pytest
from redis.asyncio import Redis

from tests.link.conftest import FAR_MS, KEYS, Become, S, manage, set_rule
from tests.support.containers import AnyServer
from tests.support.redis_client import Client
from tests.support.redis_content import noted_ms
from ttlproxy.cli.main import load
from ttlproxy.config import Settings
from ttlproxy.core.counters import Counters
from ttlproxy.core.registry import ANNOUNCED_MS, Registry
from ttlproxy.link import KEYS_PER_CALL, Context
from ttlproxy.link.reaper.removal import ReapScript, Undelivered


@pytest.fixture
def reap(settings: Settings, context: Context, counters: Counters) -> ReapScript:
    return ReapScript(context)


async def test_due_elements_go_and_the_rest_is_known(
    reap: ReapScript,
    redis: Redis,
    context: Context,
    registry: Registry,
    direct: Client,
    counters: Counters,
) -> None:
    now_ms = direct.now_ms()
    until_ms = now_ms + ANNOUNCED_MS
    context.clock.adjust(now_ms, context.clock.reading())
    registry.end_reading(registry.begin_reading(until_ms), until_ms)
    manage(direct, "s", a=now_ms - 5000, b=now_ms - 4000, c=now_ms + 30_000)
    manage(direct, "whole", a=now_ms - 90)
    for key in (b"s", b"whole"):
        registry.announced(0, key, 1)
    outcome = await reap(redis, {S: 100, (0, b"whole"): 100})
    assert direct.ask("SMEMBERS", "s") == [b"c"]
    assert direct.ask("EXISTS", "whole") == 0
    assert (outcome.more, outcome.stale_entries, outcome.refused) == (set(), set(), {})
    assert outcome.unreached == []
    assert len(outcome.calls_ms) == 1
    assert 0 < outcome.calls_ms[0] < 1000
    assert registry.bounds(0) == {b"s": now_ms + 30_000}
    assert counters.reaped_elements == {"set": 3}
    assert counters.lag_ms.most >= 5000
    assert counters.reap_call_ms.most == outcome.calls_ms[0]


async def test_more_than_the_limit_is_left_for_the_next_call(
    reap: ReapScript, redis: Redis, direct: Client
) -> None:
    manage(direct, "s", a=1, b=1, c=1)
    outcome = await reap(redis, {S: 2})
    assert outcome.more == {S}
    assert direct.ask("SCARD", "s") == 1
    assert (await reap(redis, {S: 2})).more == set()


async def test_a_key_whose_deadlines_were_evicted_is_counted(
    reap: ReapScript, redis: Redis, direct: Client, counters: Counters
) -> None:
    manage(direct, "s", a=FAR_MS)
    direct.ask("DEL", KEYS.index(b"s"))  # as an eviction does
    await reap(redis, {S: 100})
    await reap(redis, {S: 100})
    assert counters.lost_indexes == 1
    manage(direct, "s", a=FAR_MS)
    await reap(redis, {S: 100})
    direct.ask("DEL", "s", KEYS.index(b"s"))
    await reap(redis, {S: 100})
    assert counters.lost_indexes == 1


async def test_a_key_is_looked_at_a_little_before_it_expires(
    reap: ReapScript, redis: Redis, direct: Client
) -> None:
    """Somebody without a proxy may have renewed it."""
    manage(direct, "s", a=FAR_MS)
    ends_ms = direct.now_ms() + 50_000
    direct.ask("PEXPIREAT", "s", ends_ms)
    await reap(redis, {S: 100})
    assert noted_ms(direct, b"s") == pytest.approx(ends_ms, abs=2)
    assert int(direct.ask("ZSCORE", KEYS.schedule, "s")) == pytest.approx(ends_ms - 1000, abs=2)
    direct.ask("PEXPIREAT", "s", ends_ms + 50_000)
    await reap(redis, {S: 100})
    assert noted_ms(direct, b"s") == pytest.approx(ends_ms + 50_000, abs=2)
    direct.ask("PERSIST", "s")
    await reap(redis, {S: 100})
    assert noted_ms(direct, b"s") is None
    assert int(direct.ask("ZSCORE", KEYS.schedule, "s")) == FAR_MS


async def test_entries_without_an_element_are_told(
    reap: ReapScript, redis: Redis, direct: Client
) -> None:
    manage(direct, "s", a=1, gone=FAR_MS, c=FAR_MS)
    direct.ask("SREM", "s", "gone")
    assert (await reap(redis, {S: 100})).stale_entries == {S}


async def test_a_key_that_redis_refuses_holds_up_no_other(
    reap: ReapScript, redis: Redis, direct: Client, counters: Counters, become: Become
) -> None:
    for key in ("one", "bad"):
        manage(direct, key, a=1)
    await become("resetkeys ~one ~__ttl:*")
    outcome = await reap(redis, {(0, key): 9 for key in (b"one", b"bad")})
    assert set(outcome.refused) == {(0, b"bad")}
    assert "permission" in str(outcome.refused[0, b"bad"])
    assert direct.ask("EXISTS", "one", "bad") == 1
    assert counters.refusals == 1


async def test_many_keys_of_several_databases_take_several_calls(
    reap: ReapScript, redis: Redis, server: AnyServer, direct: Client
) -> None:
    count = KEYS_PER_CALL + 1
    for number in range(count):
        manage(direct, f"k{number}", a=1)
    with closing(Client(server.port, 3)) as other:
        manage(other, "s", a=1)
        limits = {(0, b"k%d" % number): 9 for number in range(count)} | {(3, b"s"): 9}
        outcome = await reap(redis, limits)
        left = set(outcome.unreached)
        while left:  # the budget may be over before the last key
            left = set((await reap(redis, dict.fromkeys(left, 9))).unreached)
        assert len(outcome.calls_ms) == 3
        assert other.ask("EXISTS", "s") == 0
    assert direct.ask("EXISTS", *(f"k{number}" for number in range(count))) == 0


async def test_keys_for_which_a_call_has_no_time_are_left_in_their_order(
    counters: Counters, redis: Redis, server: AnyServer, direct: Client
) -> None:
    context = Context(load(["--upstream", server.url, "--reap-budget-ms", "1"]), counters)
    for key in "abcde":
        manage(direct, key, **{f"m{number}": 1 for number in range(20_000)})
    places = [(0, key.encode()) for key in "abcde"]
    outcome = await ReapScript(context)(redis, dict.fromkeys(places, 20_000))
    assert outcome.unreached
    assert outcome.unreached == places[len(places) - len(outcome.unreached) :]
    assert direct.ask("EXISTS", *"abcde") == len(outcome.unreached)


async def test_scripts_that_were_flushed_are_called_again(
    reap: ReapScript, redis: Redis, context: Context, direct: Client
) -> None:
    manage(direct, "s", a=1)
    await reap(redis, {(0, b"none"): 1})  # its rules are known now
    direct.ask("SCRIPT", "FLUSH")
    context.scripts.loaded = True
    outcome = await reap(redis, {S: 9})
    assert (outcome.more, outcome.refused) == ({S}, {})
    assert not context.scripts.loaded
    assert (await reap(redis, {S: 9})).more == set()
    assert direct.ask("EXISTS", "s") == 0


async def test_rules_that_have_changed_are_read_before_anything_goes(
    reap: ReapScript, redis: Redis, context: Context, direct: Client
) -> None:
    manage(direct, "s", a=1)
    await reap(redis, {(0, b"none"): 1})
    direct.ask("HSET", KEYS.rules, "version", 1)
    assert (await reap(redis, {S: 9})).more == {S}
    assert direct.ask("EXISTS", "s") == 1
    assert (await reap(redis, {S: 9})).more == set()
    assert direct.ask("EXISTS", "s") == 0


async def test_nothing_goes_if_rules_cannot_be_read(
    reap: ReapScript,
    redis: Redis,
    server: AnyServer,
    direct: Client,
    counters: Counters,
    become: Become,
) -> None:
    manage(direct, "s", a=1)
    with closing(Client(server.port, 3)) as other:
        manage(other, "s", a=1)
        await reap(redis, {(3, b"none"): 1})  # the rules of database 3 are known
        await become("-hgetall")
        outcome = await reap(redis, {S: 9, (3, b"s"): 9})
        assert set(outcome.refused) == {S}
        assert counters.refusals == 1
        assert direct.ask("EXISTS", "s") == 1
        assert other.ask("EXISTS", "s") == 0


async def test_an_announcement_during_a_reap_counts_more_than_its_answer(
    reap: ReapScript, redis: Redis, context: Context, registry: Registry, direct: Client
) -> None:
    context.clock.adjust(direct.now_ms(), context.clock.reading())
    registry.end_reading(registry.begin_reading(FAR_MS), FAR_MS)
    registry.announced(0, b"s", 1)
    await reap(redis, {(0, b"none"): 1})
    reaping = asyncio.create_task(reap(redis, {S: 9}))
    await asyncio.sleep(0)
    registry.announced(0, b"s", 1)
    await reaping
    assert registry.bounds(0) == {b"s": 1}
    await reap(redis, {S: 9})
    assert registry.bounds(0) == {}


async def test_tasks_that_share_a_connection_take_turns(
    reap: ReapScript, redis: Redis, direct: Client
) -> None:
    turn = asyncio.Lock()
    for number in range(20):
        manage(direct, f"k{number}", a=1)
    places = [(0, b"k%d" % number) for number in range(20)]
    halves = (dict.fromkeys(places[:10], 9), dict.fromkeys(places[10:], 9))
    outcomes = await asyncio.gather(*(reap(redis, each, turn) for each in halves))
    assert all(not outcome.more and not outcome.refused for outcome in outcomes)
    left = [place for outcome in outcomes for place in outcome.unreached]
    assert direct.ask("EXISTS", *(key for _, key in places)) == len(left)


async def test_elements_that_a_rule_hands_on_are_counted_and_a_key_without_one_goes_with_it(
    reap: ReapScript, redis: Redis, context: Context, direct: Client, counters: Counters
) -> None:
    set_rule(direct, context.script_calls.signer, "s", "RPUSH - 0", "late")
    manage(direct, "other", a=1)
    manage(direct, "s", a=1, b=2)
    outcome = await reap(redis, {(0, b"other"): 9, S: 9})
    assert (outcome.refused, outcome.more) == ({}, set())
    assert direct.ask("LRANGE", "late", 0, -1) == [b"a", b"b"]
    assert direct.ask("EXISTS", "s", "other") == 0
    assert counters.fired_elements == {"rpush": 2}
    assert counters.unsigned == {}


async def test_an_element_that_cannot_be_handed_on_stays_and_is_told(
    reap: ReapScript, redis: Redis, context: Context, direct: Client, counters: Counters
) -> None:
    set_rule(direct, context.script_calls.signer, "s", "RPUSH - 0", "late")
    direct.ask("SET", "late", "no list")
    manage(direct, "other", a=1)
    manage(direct, "s", a=1)
    outcome = await reap(redis, {S: 9, (0, b"other"): 9})
    assert isinstance(outcome.refused.pop(S), Undelivered)
    assert outcome.refused == {}
    assert direct.ask("EXISTS", "s", "other") == 1
    assert counters.fired_elements == {}


async def test_a_deferred_command_that_nobody_signed_is_counted_and_not_carried_out(
    reap: ReapScript, redis: Redis, direct: Client, counters: Counters
) -> None:
    later = KEYS.deferred(b"q")
    direct.ask("HSET", later, "id", "unsigned")
    direct.ask("ZADD", KEYS.index(later), 1, "id")
    direct.ask("ZADD", KEYS.schedule, 1, later)
    outcome = await reap(redis, {(0, later): 9})
    assert outcome.refused == {}
    assert counters.unsigned == {"deferred": 1}
    manage(direct, "s", a=1)
    await reap(redis, {S: 9})
    assert counters.unsigned == {"deferred": 1}


async def test_constant_changes_of_rules_do_not_keep_others_from_reaping(
    reap: ReapScript, redis: Redis, context: Context, direct: Client
) -> None:
    """After three refusals in a row any version does, until a script accepts the right one."""
    await reap(redis, {(0, b"none"): 1})
    for number in range(3):
        manage(direct, "s", a=1)
        direct.ask("HSET", KEYS.rules, "version", number + 1)
        assert (await reap(redis, {S: 9})).more == {S}
        await context.actions.read(redis, 0)
    direct.ask("HSET", KEYS.rules, "version", 9)
    assert (await reap(redis, {S: 9})).more == set()
    manage(direct, "s", a=1)
    assert (await reap(redis, {S: 9})).more == {S}, "only one call was let through"


async def test_a_reap_tells_the_servers_clock(
    reap: ReapScript, redis: Redis, context: Context, direct: Client
) -> None:
    before_ms = direct.now_ms()
    await reap(redis, {S: 9})
    assert before_ms <= context.clock.now_ms() <= direct.now_ms() + 30_000


async def test_the_first_ms_of_all_times_is_a_deadline_too(
    reap: ReapScript, redis: Redis, context: Context, registry: Registry, direct: Client
) -> None:
    context.clock.adjust(direct.now_ms(), context.clock.reading())
    registry.end_reading(registry.begin_reading(FAR_MS), FAR_MS)
    manage(direct, "s", a=0, b=0)
    registry.announced(0, b"s", 1)
    assert (await reap(redis, {S: 1})).more == {S}
    assert registry.bounds(0) == {b"s": 0}
