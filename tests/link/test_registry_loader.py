"""When the registry is read anew, and from what."""

from __future__ import annotations

import logging
import re
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import closing

import pytest
from redis.asyncio import Redis
from redis.exceptions import NoPermissionError

from tests.link.conftest import FAR_MS, KEYS, Become, S, manage, set_rule
from tests.support.containers import AnyServer
from tests.support.redis_client import Client
from tests.support.server_queries import calls
from ttlproxy.addresses import Upstream
from ttlproxy.config import Settings
from ttlproxy.core.counters import Counters
from ttlproxy.core.registry import UNKNOWN, Registry
from ttlproxy.link import Context, Link, SlotSchedules
from ttlproxy.link.connecting.pipeline import run
from ttlproxy.link.connecting.pushes import Pushes
from ttlproxy.link.connecting.serving import Serving
from ttlproxy.link.knowledge import registry_loader as module
from ttlproxy.link.knowledge.announcements import Announcements
from ttlproxy.link.knowledge.glance import Glance
from ttlproxy.link.knowledge.registry_loader import RegistryLoader
from ttlproxy.link.reaping.schedules import Schedules
from ttlproxy.link.server.acl import Acl
from ttlproxy.net import progress
from ttlproxy.scripts.unconfirmed import Swap

WALKS = "scan"


class Arrivals(Pushes):
    """A push connection over which comes what the test says, when it is looked at."""

    def __init__(self) -> None:
        nothing: Callable[..., None] = lambda *_: None  # noqa: E731
        push = nothing, nothing, nothing, nothing, nothing
        super().__init__(KEYS, *push, nothing, nothing, nothing, nothing, nothing)
        self.looks = 0
        self.arrive: Callable[[], None] = lambda: None

    def receive(self) -> None:
        self.looks += 1
        self.arrive()


class World:
    """The loader of a link that does not run, with a push connection."""

    def __init__(self, url: str, settings: Settings, context: Context, counters: Counters) -> None:
        link = Link(settings, Upstream.parse(url), counters, context)
        self.serving: Serving = link.serving
        self.announcements: Announcements = link.announcements
        acl = Acl(context.rights, context.suit_scripts_to_users)
        self.loader = RegistryLoader(
            context, self.serving, self.announcements, acl, Schedules(context), lambda: url
        )
        self.arrivals = Arrivals()
        self.announcements.connection = self.arrivals
        self.announcements.receive = lambda: self.arrivals.receive()  # type: ignore[method-assign]
        self.registry: Registry = context.registry
        self.context = context

    async def is_read(self, redis: Redis) -> bool:
        """Looks as a heartbeat does; whether it reads the registry."""
        looks = self.arrivals.looks
        glance = Glance(self.context, True)
        glance.learn(await run(redis, glance.requests()))
        await self.loader.look(redis, glance)
        await self.loader.load_if_needed(redis)
        return self.arrivals.looks > looks

    async def are_read(self, redis: Redis, times: int) -> list[bool]:
        return [await self.is_read(redis) for _ in range(times)]


@pytest.fixture
async def world(
    server: AnyServer, settings: Settings, context: Context, counters: Counters
) -> World:
    return World(server.url, settings, context, counters)


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> int:
    """So many keys are many."""
    monkeypatch.setattr(module, "_MANY", 3)
    return 3


async def test_it_is_read_once_from_all_databases(
    world: World, redis: Redis, direct: Client, server: AnyServer, context: Context
) -> None:
    manage(direct, "s", m=FAR_MS)
    with closing(Client(server.port, 3)) as other:
        manage(other, "t", m=FAR_MS)
        assert not world.loader.is_whole
        assert await world.is_read(redis)
        assert world.loader.is_whole
        assert set(world.registry.listed(0, 9)) == {S, (3, b"t")}
        assert abs(context.clock.now_ms() - direct.now_ms()) < 60_000, "its clock is known"
        assert not await world.is_read(redis)
        manage(other, "not announced", m=FAR_MS)
        assert not await world.is_read(redis)


async def test_it_is_told_how_much_is_read(
    world: World,
    redis: Redis,
    direct: Client,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(progress, "_NOTED_S", 0.0)
    caplog.set_level(logging.INFO)
    many = 3000
    entries = [word for number in range(many) for word in (FAR_MS, f"k{number}")]
    direct.ask("ZADD", KEYS.schedule, *entries)
    assert await world.is_read(redis)
    how_far = re.compile(rf"Redis at redis://[^ ]+: reading managed keys, (\d+) of {many}")
    read = [int(found[1]) for line in caplog.messages if (found := how_far.fullmatch(line))]
    assert len(read) > 2
    assert read == sorted(read)
    assert read[-1] == many


async def test_it_is_read_anew_when_something_may_have_been_missed(
    world: World, redis: Redis, direct: Client, context: Context
) -> None:
    await world.is_read(redis)
    manage(direct, "s", m=FAR_MS)
    assert not await world.is_read(redis)
    world.loader.want()
    assert world.loader.is_whole, "what is known counts meanwhile"
    assert await world.is_read(redis)
    assert world.registry.listed(0, 9) == [S]
    world.announcements.swaps += 1
    assert await world.is_read(redis)
    world.announcements.flushes += 1
    assert await world.is_read(redis)
    context.script_calls.unconfirmed.note(Swap(0, 1), context.registry)
    assert [await world.is_read(redis) for _ in range(3)] == [True, True, False]
    world.announcements.connection = None
    assert not world.loader.is_whole
    world.announcements.connection = world.arrivals = Arrivals()
    assert not world.loader.is_whole, "it is another connection"
    assert await world.is_read(redis)
    assert world.loader.is_whole


async def test_a_swap_and_a_flush_at_once_are_two_reasons(world: World, redis: Redis) -> None:
    await world.is_read(redis)
    world.announcements.swaps += 1
    world.announcements.flushes += 1
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


async def test_what_is_gone_from_the_schedule_is_forgotten(
    world: World, redis: Redis, direct: Client
) -> None:
    manage(direct, "s", m=FAR_MS)
    await world.is_read(redis)
    direct.ask("DEL", "s", KEYS.index(b"s"), KEYS.schedule)
    world.loader.want()
    await world.is_read(redis)
    assert len(world.registry) == 0


async def test_databases_that_are_swapped_meanwhile_are_read_again(
    world: World, redis: Redis, direct: Client
) -> None:
    swaps = 2

    def swap() -> None:
        if world.arrivals.looks <= swaps:
            world.announcements.swaps += 1

    world.arrivals.arrive = swap
    await world.is_read(redis)
    assert world.arrivals.looks == swaps + 1
    assert world.loader.is_whole
    assert not await world.is_read(redis)


async def test_endless_swaps_are_looked_at_again_a_heartbeat_later(
    world: World, redis: Redis, direct: Client
) -> None:
    manage(direct, "s", m=FAR_MS)

    def swap() -> None:
        world.announcements.swaps += 1

    world.arrivals.arrive = swap
    await world.is_read(redis)
    assert world.arrivals.looks == 5
    assert world.registry.listed(0, 9) == [S]
    world.arrivals.arrive = lambda: None
    assert await world.is_read(redis)
    assert not await world.is_read(redis)


async def test_a_server_that_hides_its_time_is_read_all_the_same(
    world: World, redis: Redis, direct: Client, become: Become
) -> None:
    manage(direct, "s", m=FAR_MS)
    await become("-time")
    assert await world.is_read(redis)
    assert world.registry.listed(0, 9) == [S]
    assert world.registry.due(b"s", FAR_MS - 1) == []


@pytest.fixture
def writer(direct: Client) -> Iterator[None]:
    """A client's user who may write to the schedule and has not all keys."""
    direct.ask("ACL", "SETUSER", "client", "on", "nopass", "~app:*", "~__ttl:*", "+@all")
    yield
    direct.ask("ACL", "DELUSER", "client")


@pytest.mark.usefixtures("writer")
async def test_a_schedule_that_others_may_write_is_no_list_of_keys(
    world: World, server: AnyServer, redis: Redis, direct: Client
) -> None:
    """At first indexes are searched for; later what is known stays."""
    manage(direct, "s", m=FAR_MS)
    manage(direct, "hidden", m=FAR_MS)
    direct.ask("ZREM", KEYS.schedule, "hidden")
    assert await world.is_read(redis)
    assert set(world.registry.listed(0, 9)) == {S, (0, b"hidden")}
    assert world.registry.places(b"hidden") == world.registry.due(b"hidden", UNKNOWN + 1)
    manage(direct, "later", m=FAR_MS)
    direct.ask("ZREM", KEYS.schedule, "later", "s")
    walks = calls(server.port, WALKS)
    world.loader.want()
    assert await world.is_read(redis)
    assert calls(server.port, WALKS) == walks, "a walk over all keys is for what was missed"
    assert set(world.registry.listed(0, 9)) == {S, (0, b"hidden")}


async def test_most_keys_gone_is_a_reason_to_read_anew(
    world: World, redis: Redis, direct: Client, few: int, context: Context
) -> None:
    await world.is_read(redis)
    assert context.rights.trusts_schedules
    for number in range(few - 1):
        world.registry.announced(0, b"gone%d" % number, FAR_MS)
    assert not await world.is_read(redis), "these few cost little"
    world.registry.announced(0, b"gone", FAR_MS)
    assert await world.are_read(redis, 2) == [False, True], "it may be younger than their number"
    assert len(world.registry) == 0
    for number in range(2 * few):
        world.registry.announced(0, b"k%d" % number, FAR_MS)
        if number % 2:
            manage(direct, f"k{number}", m=FAR_MS)
    assert await world.are_read(redis, 2) == [False] * 2, "half of them are managed"
    direct.ask("ZREM", KEYS.schedule, "k1")
    assert await world.is_read(redis)
    assert len(world.registry) == few - 1
    assert not await world.is_read(redis)


@pytest.mark.usefixtures("writer")
async def test_a_walk_over_all_keys_for_that_is_made_once_in_a_while(
    world: World,
    server: AnyServer,
    redis: Redis,
    direct: Client,
    few: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:

    def announce() -> None:
        for number in range(few):
            world.registry.announced(0, b"gone%d" % number, FAR_MS)

    await world.is_read(redis)
    announce()
    walks = calls(server.port, WALKS)
    manage(direct, "s", m=FAR_MS)
    assert await world.are_read(redis, 2) == [False, True]
    assert calls(server.port, WALKS) == walks + 1
    assert world.registry.listed(0, 9) == [S]
    announce()
    assert not await world.is_read(redis)
    monkeypatch.setattr(module, "_SEARCH_MS", 0)
    world.loader._next_search_ms = 0.0
    assert await world.are_read(redis, 2) == [False, True]
    announce()
    assert await world.are_read(redis, 2) == [False, True]


async def test_a_server_that_hides_the_sizes_is_not_read_for_them(
    world: World, redis: Redis, few: int, become: Become
) -> None:
    await become("-zcard")
    await world.is_read(redis)
    for number in range(few):
        world.registry.announced(0, b"gone%d" % number, FAR_MS)
    assert await world.are_read(redis, 2) == [False] * 2


async def test_keys_that_come_while_the_number_of_many_slots_is_asked_are_not_gone(
    world: World, redis: Redis, few: int, context: Context
) -> None:
    """The number is that of the slots that had keys when the first of them was asked."""

    numbers = deque([None, 1, None, 10 * few])

    class Slots(SlotSchedules):
        async def size(self, redis: Redis, databases: object) -> int | None:
            return numbers.popleft()

    await world.is_read(redis)
    context.schedule_queries = Slots(KEYS)
    for number in range(10 * few):
        world.registry.announced(0, b"k%d" % number, FAR_MS)
        if number in (few, 5 * few):
            assert not await world.is_read(redis)
    assert await world.are_read(redis, 2) == [False] * 2


async def test_a_schedule_that_is_refused_serves_nobody_at_first(
    world: World, redis: Redis, direct: Client, become: Become, counters: Counters
) -> None:
    manage(direct, "s", m=FAR_MS)
    await become("-zscan")
    with pytest.raises(NoPermissionError):
        await world.is_read(redis)
    assert not world.loader.is_whole
    assert counters.refusals == 1


async def test_a_schedule_that_is_refused_later_leaves_what_is_known(
    world: World, redis: Redis, direct: Client, become: Become, counters: Counters
) -> None:
    manage(direct, "s", m=FAR_MS)
    await world.is_read(redis)
    world.serving.start()
    await become("-zscan")
    manage(direct, "later", m=FAR_MS)
    world.loader.want()
    assert await world.is_read(redis)
    assert world.registry.listed(0, 9) == [S]
    assert counters.refusals == 1


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
