"""When the registry is read anew or further ahead, and from what."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from typing import cast

import pytest
from redis.asyncio import Redis
from redis.exceptions import NoPermissionError

from tests.link.conftest import FAR_MS, KEYS, Become, manage, set_rule, until
from tests.link.running import Running, running
from tests.support.containers import AnyServer
from tests.support.redis_client import Client
from tests.support.server_queries import calls
from ttlproxy.addresses import Upstream
from ttlproxy.config import Settings
from ttlproxy.core.counters import Counters
from ttlproxy.core.families import ALL
from ttlproxy.core.registry import ANNOUNCED_MS, UNKNOWN, Registry
from ttlproxy.link import Context, Link
from ttlproxy.link.knowledge.announcements import Announcements, Pushes
from ttlproxy.link.life import heartbeat
from ttlproxy.scripts.unconfirmed import Swap

WALKS = "scan"
# How far ahead the registry is known after it was read, at least.
HALF_MS = ANNOUNCED_MS // 2


class Arrivals(Pushes):
    """A push connection over which comes what the test says, when it is looked at."""

    def __init__(self) -> None:
        super().__init__(KEYS, cast(Announcements, None), lambda: None)
        self.looks = 0
        self.arrive: Callable[[], None] = lambda: None

    def receive(self) -> None:
        self.looks += 1
        self.arrive()


class World:
    """The loader of a link that does not run, with a push connection."""

    def __init__(self, url: str, settings: Settings, context: Context, counters: Counters) -> None:
        link = Link(Upstream.parse(url), context)
        self.announcements: Announcements = link.announcements
        self.state, self.loader = link.shared_state, link.loader
        self.arrivals = Arrivals()
        self.announcements.connection = self.arrivals
        self.announcements.receive = lambda: self.arrivals.receive()  # type: ignore[method-assign]
        self.registry: Registry = context.registry
        self.context = context

    async def is_read(self, redis: Redis) -> bool:
        """Looks as a heartbeat does; whether it reads all schedules."""
        looks = self.arrivals.looks
        await self.loader.check(redis)
        await self.loader.load_if_needed(redis)
        return self.arrivals.looks > looks

    def swap(self) -> None:
        """Two databases have just changed places."""
        self.registry.forget_all()
        self.announcements.swaps += 1

    def flush(self) -> None:
        """All keys may just have gone."""
        self.registry.forget_all()
        self.announcements.flushes += 1

    @property
    def families(self) -> set[bytes]:
        return self.registry.families.all


@pytest.fixture
async def world(
    server: AnyServer, settings: Settings, context: Context, counters: Counters
) -> World:
    return World(server.url, settings, context, counters)


async def test_it_is_read_once_from_all_databases(
    world: World, redis: Redis, direct: Client, server: AnyServer, context: Context
) -> None:
    soon_ms = direct.now_ms() + HALF_MS
    manage(direct, "s:1", m=soon_ms)
    manage(direct, "far:1", m=FAR_MS)
    with closing(Client(server.port, 3)) as other:
        manage(other, "t:1", m=soon_ms)
        assert not world.loader.is_whole
        assert await world.is_read(redis)
        assert world.loader.is_whole
        assert world.registry.bounds(0) == {b"s:1": soon_ms}
        assert world.registry.bounds(3) == {b"t:1": soon_ms}
        assert world.families == {b"s:", b"far:", b"t:"}
        assert soon_ms < world.registry.until_ms <= direct.now_ms() + ANNOUNCED_MS
        assert abs(context.clock.now_ms() - direct.now_ms()) < 60_000, "its clock is known"
        assert not await world.is_read(redis)
        manage(other, "announced", m=soon_ms)
        assert not await world.is_read(redis)
        assert b"announced" not in world.registry.bounds(3), "the announcement tells"


async def test_it_is_read_anew_when_something_may_have_been_missed(
    world: World, redis: Redis, direct: Client, context: Context
) -> None:
    await world.is_read(redis)
    soon_ms = direct.now_ms() + 1000
    manage(direct, "s", m=soon_ms)
    assert not await world.is_read(redis)
    world.loader.want()
    assert world.loader.is_whole, "what is known counts meanwhile"
    assert await world.is_read(redis)
    assert world.registry.bounds(0) == {b"s": soon_ms}
    world.swap()
    assert await world.is_read(redis)
    world.flush()
    assert await world.is_read(redis)
    assert world.registry.bounds(0) == {b"s": soon_ms}
    context.script_calls.unconfirmed.note(Swap(0, 1), context.registry)
    assert [await world.is_read(redis) for _ in range(2)] == [True, False]
    world.announcements.connection = None
    assert not world.loader.is_whole
    world.announcements.connection = world.arrivals = Arrivals()
    assert not world.loader.is_whole, "it is another connection"
    direct.ask("DEL", "s", KEYS.index(b"s"), KEYS.schedule)
    assert await world.is_read(redis)
    assert world.loader.is_whole
    assert world.registry.bounds(0) == {}, "what is gone is forgotten"


async def test_a_swap_and_a_flush_at_once_are_two_reasons(world: World, redis: Redis) -> None:
    await world.is_read(redis)
    world.swap()
    world.flush()
    assert await world.is_read(redis)
    assert not await world.is_read(redis)


async def test_without_announcements_it_is_never_whole(
    server: AnyServer, settings: Settings, context: Context, counters: Counters
) -> None:
    world = World(server.url, settings, context, counters)
    world.announcements.connection = None
    assert not world.loader.is_whole


async def test_the_rules_of_a_database_are_read_too(
    world: World, redis: Redis, direct: Client, context: Context
) -> None:
    manage(direct, "s", m=FAR_MS)
    set_rule(direct, context.script_calls.signer, "s", "RPUSH", "list")
    await world.is_read(redis)
    assert context.actions.has_action(b"s")


async def test_databases_that_are_swapped_meanwhile_are_read_again(
    world: World, redis: Redis, direct: Client
) -> None:
    swaps = 2

    def swap() -> None:
        if world.arrivals.looks <= swaps:
            world.swap()

    world.arrivals.arrive = swap
    await world.is_read(redis)
    assert world.arrivals.looks == swaps + 1
    assert world.loader.is_whole
    assert world.registry.until_ms != UNKNOWN
    assert not await world.is_read(redis)


async def test_endless_swaps_are_looked_at_again_a_heartbeat_later(
    world: World, redis: Redis, direct: Client
) -> None:
    soon_ms = direct.now_ms() + 1000
    manage(direct, "s", m=soon_ms)
    world.arrivals.arrive = world.swap
    await world.is_read(redis)
    assert world.arrivals.looks == 5
    assert world.registry.until_ms == UNKNOWN
    world.arrivals.arrive = lambda: None
    assert await world.is_read(redis)
    assert world.registry.bounds(0) == {b"s": soon_ms}
    assert not await world.is_read(redis)


async def test_a_server_that_hides_its_time_is_read_all_the_same(
    world: World, redis: Redis, direct: Client, become: Become, context: Context
) -> None:
    context.clock.adjust(direct.now_ms(), context.clock.reading())
    soon_ms = direct.now_ms() + 1000
    manage(direct, "s", m=soon_ms)
    await become("-time")
    assert await world.is_read(redis)
    assert world.registry.bounds(0) == {b"s": soon_ms}
    assert world.registry.until_ms > soon_ms


# --- flushes and swaps


async def test_after_a_flush_or_a_swap_it_is_read_at_once(
    world: World, redis: Redis, direct: Client, context: Context
) -> None:
    await world.is_read(redis)
    set_rule(direct, context.script_calls.signer, "s", "RPUSH", "list")
    for change in (world.flush, world.swap):
        soon_ms = direct.now_ms() + 1000
        manage(direct, "s", m=soon_ms)
        await world.loader.load_changed(redis)
        assert world.registry.bounds(0) == {}, "there was none"
        change()
        context.actions.forget_all()
        await world.loader.load_changed(redis)
        assert world.registry.bounds(0) == {b"s": soon_ms}
        assert world.registry.until_ms > soon_ms
        assert context.actions.of(0).of(b"s")
        assert not await world.is_read(redis), "there is nothing left to read"
        world.registry.forget_all()


async def test_before_it_was_read_for_the_first_time_a_flush_is_no_reason(
    world: World, redis: Redis
) -> None:
    world.flush()
    await world.loader.load_changed(redis)
    assert not world.loader.is_whole


@pytest.mark.parametrize("by_heartbeat", [False, True])
async def test_rules_are_read_soon_after_a_flush(
    world: World, redis: Redis, context: Context, by_heartbeat: bool
) -> None:
    """Also where a heartbeat comes first."""
    await world.is_read(redis)
    world.flush()
    context.actions.changed(3, False, b"s")
    if by_heartbeat:
        assert await world.is_read(redis)
    await world.loader.load_changed(redis)
    assert context.actions.unread == []


@pytest.mark.parametrize("name", [b"", KEYS.prefix + b"!swap:0:3"])
async def test_a_push_of_a_flush_or_a_swap_is_enough(
    server: AnyServer, direct: Client, monkeypatch: pytest.MonkeyPatch, name: bytes
) -> None:
    monkeypatch.setattr(heartbeat, "EVERY_S", 1e6)
    async with running(Running(server.url)) as link:
        await link.beats()
        answers = link.link.heartbeat.answers
        soon_ms = direct.now_ms() + HALF_MS
        direct.ask("MULTI")
        if name:
            direct.ask("SET", name, "")
            direct.ask("DEL", name)
        else:
            direct.ask("FLUSHALL")
        manage(direct, "s", m=soon_ms)
        direct.ask("EXEC")
        registry = link.context.registry
        await until(lambda: b"s" in registry.bounds(0) and registry.until_ms > soon_ms)
        assert link.link.heartbeat.answers == answers


# --- ahead


async def _ahead(world: World, redis: Redis, direct: Client, left_ms: int) -> tuple[int, bool]:
    """What is read when the registry is known `left_ms` ahead: until when it is known then, in ms
    from now, and whether a key is known that needs attention between these instants."""
    await world.is_read(redis)
    world.registry.until_ms = direct.now_ms() + left_ms
    at_ms = direct.now_ms() + max(left_ms, 0) + 5000
    manage(direct, "next", m=at_ms)
    assert not await world.is_read(redis)
    is_known = world.registry.bounds(0).get(b"next") == at_ms
    return world.registry.until_ms - direct.now_ms(), is_known


@pytest.mark.parametrize("left_ms", [HALF_MS - 5000, 0, -ANNOUNCED_MS])
async def test_it_is_read_ahead_once_less_than_half_a_minute_is_known(
    world: World, redis: Redis, direct: Client, left_ms: int
) -> None:
    ahead_ms, is_known = await _ahead(world, redis, direct, left_ms)
    assert is_known
    assert ANNOUNCED_MS - 10_000 < ahead_ms <= ANNOUNCED_MS


async def test_it_is_not_read_ahead_before(world: World, redis: Redis, direct: Client) -> None:
    ahead_ms, is_known = await _ahead(world, redis, direct, HALF_MS + 10_000)
    assert not is_known
    assert ahead_ms <= HALF_MS + 10_000


async def test_who_does_not_hear_of_deadlines_reads_nothing_ahead(
    world: World, redis: Redis, direct: Client
) -> None:
    world.registry.hears = False
    await world.is_read(redis)
    assert world.registry.until_ms == UNKNOWN
    ahead_ms, is_known = await _ahead(world, redis, direct, 0)
    assert not is_known
    assert ahead_ms <= 0


async def test_a_schedule_that_others_may_write_is_not_read_ahead(
    world: World, redis: Redis, direct: Client, context: Context
) -> None:
    await world.is_read(redis)
    context.rights.trusts_schedules = False
    ahead_ms, is_known = await _ahead(world, redis, direct, 0)
    assert not is_known
    assert ahead_ms <= 0


async def test_a_new_database_is_read_ahead_too(
    world: World, redis: Redis, direct: Client, server: AnyServer
) -> None:
    await world.is_read(redis)
    world.registry.until_ms = direct.now_ms()
    at_ms = direct.now_ms() + 5000
    with closing(Client(server.port, 3)) as other:
        manage(other, "s", m=at_ms)
        assert not await world.is_read(redis)
    assert world.registry.bounds(3) == {b"s": at_ms}


async def test_what_redis_refuses_is_read_ahead_later(
    world: World, redis: Redis, direct: Client, become: Become, counters: Counters
) -> None:
    await world.is_read(redis)
    await become("-zrangebyscore")
    ahead_ms, is_known = await _ahead(world, redis, direct, 0)
    assert not is_known
    assert ahead_ms <= 0
    assert counters.refusals == 1
    await become("+zrangebyscore")
    await world.is_read(redis)
    assert b"next" in world.registry.bounds(0)
    assert world.registry.until_ms > direct.now_ms() + HALF_MS
    assert counters.refusals == 1


# --- what cannot be read, or not be trusted


@pytest.fixture
def writer(direct: Client) -> Iterator[None]:
    """A client's user who may write to the schedule and has not all keys."""
    direct.ask("ACL", "SETUSER", "client", "on", "nopass", "~app:*", "~__ttl:*", "+@all")
    yield
    direct.ask("ACL", "DELUSER", "client")


@pytest.mark.usefixtures("writer")
async def test_a_schedule_that_others_may_write_tells_of_no_family(
    world: World, server: AnyServer, redis: Redis, direct: Client, context: Context
) -> None:
    """Names of indexes do. All keys are searched for them if something may have been missed."""
    manage(direct, "s:1", m=FAR_MS)
    manage(direct, "hidden:1", m=direct.now_ms())
    direct.ask("ZREM", KEYS.schedule, "hidden:1")
    direct.ask("ZADD", KEYS.schedule, FAR_MS, "forged:1")
    set_rule(direct, context.script_calls.signer, "k*", "RPUSH - 0", "late")
    direct.ask("DEL", KEYS.rules)
    assert await world.is_read(redis)
    assert world.families == {b"s:", b"hidden:"}
    assert world.registry.until_ms == UNKNOWN, "any of their keys may be due"
    await context.actions.read(redis, 0)
    assert context.actions.has_action(b"k0"), "a rule that the list lacks"
    manage(direct, "later:1", m=FAR_MS)
    walks = calls(server.port, WALKS)
    world.loader.want()
    assert await world.is_read(redis)
    world.swap()
    assert await world.is_read(redis)
    assert calls(server.port, WALKS) == walks, "a walk over all keys is for what was missed"
    assert world.families == {b"s:", b"hidden:"}
    world.flush()
    assert await world.is_read(redis)
    assert world.families == {b"s:", b"hidden:", b"later:"}, "a replica may have other data now"
    assert world.registry.until_ms == UNKNOWN


async def test_a_schedule_that_is_refused_before_anybody_is_served_is_told(
    world: World, redis: Redis, direct: Client, become: Become, counters: Counters
) -> None:
    """Families of its keys may be missing."""
    manage(direct, "s", m=direct.now_ms() + 1000)
    await become("-zscan")
    with pytest.raises(NoPermissionError):
        await world.is_read(redis)
    assert not world.loader.is_whole
    assert world.registry.until_ms == UNKNOWN
    assert counters.refusals == 1


@pytest.mark.parametrize("why", [World.flush, World.swap, lambda world: world.loader.want()])
async def test_a_schedule_that_is_refused_later_leaves_what_is_known(
    world: World,
    redis: Redis,
    direct: Client,
    become: Become,
    counters: Counters,
    why: Callable[[World], None],
) -> None:
    """After a flush or a swap that is nothing, until it can be read ahead."""
    soon_ms = direct.now_ms() + 1000
    manage(direct, "s", m=soon_ms)
    await world.is_read(redis)
    world.context.serving.start()
    await become("-zscan")
    why(world)
    bounds, until_ms = dict(world.registry.bounds(0)), world.registry.until_ms
    assert await world.is_read(redis)
    assert world.registry.bounds(0) == bounds
    assert world.registry.until_ms == until_ms
    assert ALL in world.families, "there may be others now"
    assert counters.refusals == 1
    assert not await world.is_read(redis)
    assert world.registry.bounds(0) == {b"s": soon_ms}
    assert world.registry.until_ms > soon_ms


@pytest.mark.parametrize("serves", [False, True])
async def test_rules_that_are_refused_stop_nobody_who_is_served(
    world: World,
    redis: Redis,
    direct: Client,
    context: Context,
    become: Become,
    counters: Counters,
    serves: bool,
) -> None:
    manage(direct, "s", m=FAR_MS)
    await world.is_read(redis)
    if serves:
        world.context.serving.start()
    await become("-hgetall")
    world.flush()
    context.actions.forget_all()
    if not serves:
        with pytest.raises(NoPermissionError):
            await world.is_read(redis)
        return
    assert await world.is_read(redis)
    assert counters.refusals == 1
    assert context.actions.unread == [0]
    assert world.registry.until_ms == UNKNOWN
    assert not await world.is_read(redis)
    assert world.registry.until_ms != UNKNOWN


@pytest.mark.usefixtures("writer")
async def test_the_users_are_read_first_if_something_was_missed(
    world: World, redis: Redis, direct: Client, context: Context
) -> None:
    await world.is_read(redis)
    direct.ask("ACL", "DELUSER", "client")
    assert not context.rights.trusts_schedules
    world.loader.want()
    await world.is_read(redis)
    assert not context.rights.trusts_schedules, "the heartbeat looks at them"
