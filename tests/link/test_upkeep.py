"""What each regular heartbeat fixes: schedules, rules that have changed, orphans, old entries."""

from __future__ import annotations

import pytest
from redis.asyncio import Redis

from tests.link.conftest import (
    FAR_MS,
    KEYS,
    Become,
    S,
    all_know,
    manage,
    paused,
    set_rule,
    unpaused,
)
from tests.support.containers import AnyServer
from tests.support.redis_client import Client
from tests.support.redis_content import STATE
from ttlproxy.addresses import Upstream
from ttlproxy.core.counters import Counters
from ttlproxy.core.registry import Registry
from ttlproxy.link import Context, Link
from ttlproxy.link.connecting.known_server import Identity, KnownServer
from ttlproxy.link.connecting.pipeline import run
from ttlproxy.link.knowledge.sample import Sample
from ttlproxy.link.life.upkeep import Upkeep
from ttlproxy.link.server.command_table import FIELD
from ttlproxy.wire import NOTHING_DUE

# A walk over managed keys begins after so many heartbeats.
REST = 5


@pytest.fixture
async def link(server: AnyServer, context: Context) -> Link:
    """It does not run; writes are not paused, and all proxies know all families."""
    made = Link(Upstream.parse(server.url), context)
    context.is_paused, context.be_sure = unpaused, all_know
    return made


@pytest.fixture
def known(link: Link) -> KnownServer:
    return link.server


@pytest.fixture
def upkeep(context: Context, link: Link) -> Upkeep:
    context.fleet.is_alone = True
    return Upkeep(link)


async def _run(upkeep: Upkeep, context: Context, redis: Redis) -> None:
    """As a heartbeat does."""
    sample = Sample(context, True)
    sample.add_replies(await run(redis, sample.requests()))
    await upkeep.run(redis, sample, thorough=True)


async def test_overdue_keys_are_counted_and_a_broken_schedule_is_built_again(
    upkeep: Upkeep, context: Context, registry: Registry, redis: Redis, direct: Client
) -> None:
    context.clock.adjust(direct.now_ms(), context.clock.reading())
    for key, at in (("late", 1), ("s", FAR_MS)):
        manage(direct, key, m=at)
        registry.announced(0, key.encode(), at)
    await _run(upkeep, context, redis)
    assert context.overdue.keys == 1
    direct.ask("SET", KEYS.schedule, "junk")
    await _run(upkeep, context, redis)
    assert direct.ask("ZCARD", KEYS.schedule) == 2


async def test_the_table_of_commands_is_stored_but_not_in_a_pause(
    context: Context, link: Link, redis: Redis, direct: Client
) -> None:
    asked = [(0, words) for words in link.commands.questions()]
    await link.commands.learn(redis, b"run_id:1\r\n", await run(redis, asked))
    context.fleet.attached = 2
    for is_paused, is_stored in ((paused, 0), (unpaused, 1)):
        context.is_paused = is_paused
        await _run(Upkeep(link), context, redis)
        assert direct.ask("HEXISTS", STATE, FIELD) == is_stored


async def test_a_late_deadline_makes_another_proxy_take_over(
    upkeep: Upkeep, context: Context, registry: Registry, redis: Redis, direct: Client
) -> None:
    now_ms = direct.now_ms()
    context.clock.adjust(now_ms, context.clock.reading())
    context.agenda.begin(leads=False)
    manage(direct, "s", m=FAR_MS)
    registry.announced(*S, FAR_MS)
    await _run(upkeep, context, redis)
    assert context.agenda.take_over_ms == NOTHING_DUE
    direct.ask("ZADD", KEYS.schedule, now_ms - 10_000, "s")
    await _run(upkeep, context, redis)
    assert context.agenda.take_over_ms == 0


async def test_a_proxy_that_does_not_walk_looks_for_no_orphans_and_no_old_entries(
    upkeep: Upkeep, known: KnownServer, context: Context, redis: Redis, direct: Client
) -> None:
    manage(direct, "orphan", m=FAR_MS)
    direct.ask("DEL", KEYS.schedule)
    manage(direct, "s", m=FAR_MS)
    direct.ask("DEL", "s")
    known.met(Identity("x", True, 1, [0]))
    context.registry.populate([0])
    context.fleet.is_alone, context.fleet.attached = False, 2
    for _ in range(REST + 1):
        await _run(upkeep, context, redis)
    assert not upkeep.walks
    assert direct.ask("ZRANGE", KEYS.schedule, 0, -1) == [b"s"]
    assert not context.agenda.take_sweeps(1 << 61)


async def test_rules_that_have_changed_are_read_and_refusals_stop_nothing_else(
    upkeep: Upkeep,
    context: Context,
    registry: Registry,
    counters: Counters,
    redis: Redis,
    direct: Client,
    become: Become,
) -> None:
    set_rule(direct, context.script_calls.signer, "s", "RPUSH - 0", "late")
    context.actions.changed(0, False, b"s")
    manage(direct, "s", m=FAR_MS)
    registry.populate([0])
    direct.ask("DEL", "s")
    await become("-hgetall")
    for _ in range(REST + 1):
        await _run(upkeep, context, redis)
    assert context.actions.unread == [0]
    assert counters.refusals
    assert S in context.agenda.take_sweeps(1 << 61), "old entries are found all the same"
    direct.ask("ACL", "SETUSER", "narrow", "+hgetall")
    await _run(upkeep, context, redis)
    assert context.actions.unread == []
    assert context.actions.of(0).of(b"s")


@pytest.mark.parametrize("has_field_ttls", [True, False])
async def test_deadlines_of_the_server_s_own_are_looked_for_where_there_are_some(
    upkeep: Upkeep, context: Context, redis: Redis, direct: Client, has_field_ttls: bool
) -> None:
    context.scripts.suit(context.scripts.traits._replace(field_ttls=has_field_ttls))
    for _ in range(2):
        context.actions.changed(0, False, b"s")
        direct.ask("CONFIG", "RESETSTAT")
        await _run(upkeep, context, redis)
        assert (b"cmdstat_scan:" in direct.ask("INFO", "commandstats")) == has_field_ttls
    direct.ask("CONFIG", "RESETSTAT")
    await _run(upkeep, context, redis)
    assert b"cmdstat_scan:" not in direct.ask("INFO", "commandstats")


async def test_keys_that_the_schedule_lacks_are_found_where_the_server_holds_keys(
    upkeep: Upkeep, known: KnownServer, context: Context, redis: Redis, direct: Client
) -> None:
    manage(direct, "s", m=FAR_MS)
    direct.ask("DEL", KEYS.schedule)
    await _run(upkeep, context, redis)
    assert direct.ask("ZCARD", KEYS.schedule) == 0, "the server is not known yet"
    known.met(Identity("x", True, 1, [0]))
    await _run(upkeep, context, redis)
    assert direct.ask("ZCARD", KEYS.schedule) == 1
