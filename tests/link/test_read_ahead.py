"""What schedules are asked of keys that need attention soon, and what the registry learns of it."""

from __future__ import annotations

from contextlib import closing

import pytest
from redis.asyncio import Redis
from redis.exceptions import ResponseError

from tests.link.conftest import KEYS, Become
from tests.support.containers import AnyServer
from tests.support.redis_client import Client
from tests.support.server_queries import calls
from ttlproxy.core.registry import Registry
from ttlproxy.link import Context
from ttlproxy.link.reaper import schedules as reading
from ttlproxy.link.reaper.schedules import Schedules
from ttlproxy.link.shared import schedule_queries as module
from ttlproxy.link.shared.schedule_queries import ScheduleQueries

SINCE_MS = 1_000
MOST_MS = 61_000
PAGE = 3


@pytest.fixture
def queries() -> ScheduleQueries:
    return ScheduleQueries(KEYS)


@pytest.fixture
def small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PAGE", PAGE)
    monkeypatch.setattr(reading, "PAGE", PAGE)


def _schedule(direct: Client, **attention_ms: int) -> None:
    words = [word for key, at in attention_ms.items() for word in (at, key)]
    direct.ask("ZADD", KEYS.schedule, *words)


# --- what the schedule of a database says


async def test_what_needs_attention_between_two_instants_is_told(
    queries: ScheduleQueries, redis: Redis, direct: Client
) -> None:
    assert await queries.soon(redis, 0, SINCE_MS, MOST_MS) == ([], MOST_MS)
    _schedule(direct, past=SINCE_MS - 1, first=SINCE_MS, last=MOST_MS - 1, later=MOST_MS)
    soon = await queries.soon(redis, 0, SINCE_MS, MOST_MS)
    assert soon == ([(b"first", SINCE_MS), (b"last", MOST_MS - 1)], MOST_MS)
    assert (await queries.soon(redis, 3, SINCE_MS, MOST_MS)).entries == []


@pytest.mark.usefixtures("small_pages")
@pytest.mark.parametrize("count", [PAGE - 1, PAGE, PAGE + 1, 3 * PAGE + 1])
async def test_it_is_read_page_by_page(
    queries: ScheduleQueries, redis: Redis, direct: Client, count: int
) -> None:
    """Two keys share each instant."""
    keys = {f"k{number:02}": SINCE_MS + number // 2 for number in range(count)}
    _schedule(direct, **keys)
    soon = await queries.soon(redis, 0, SINCE_MS, MOST_MS)
    assert dict(soon.entries) == {key.encode(): at for key, at in keys.items()}
    assert soon.until_ms == MOST_MS


@pytest.mark.usefixtures("small_pages")
@pytest.mark.parametrize("before", [0, 1])
async def test_of_many_keys_of_one_instant_it_is_known_what_comes_before(
    queries: ScheduleQueries, redis: Redis, direct: Client, server: AnyServer, before: int
) -> None:
    """None can be read beyond a full page of it, however many there are."""
    at_ms = SINCE_MS + before
    _schedule(direct, **{f"k{number}": at_ms for number in range(2 * PAGE)}, after=at_ms + 1)
    if before:
        _schedule(direct, first=SINCE_MS)
    asked = calls(server.port, "zrangebyscore")
    soon = await queries.soon(redis, 0, SINCE_MS, MOST_MS)
    assert soon.until_ms == at_ms
    assert ((b"first", SINCE_MS) in soon.entries) == bool(before)
    assert b"after" not in dict(soon.entries)
    assert calls(server.port, "zrangebyscore") - asked == 1 + before


@pytest.mark.usefixtures("small_pages")
async def test_it_is_read_no_further_than_some_pages(
    queries: ScheduleQueries, redis: Redis, direct: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_MOST_PAGES", 2)
    keys = {f"k{number:02}": SINCE_MS + number for number in range(4 * PAGE)}
    _schedule(direct, **keys)
    soon = await queries.soon(redis, 0, SINCE_MS, MOST_MS)
    known = {key.decode() for key, at in soon.entries}
    assert {key for key, at in keys.items() if at < soon.until_ms} <= known
    assert SINCE_MS < soon.until_ms < SINCE_MS + 2 * PAGE
    further = await queries.soon(redis, 0, soon.until_ms, MOST_MS)
    assert further.until_ms > soon.until_ms


async def test_the_scores_of_keys_are_told(
    queries: ScheduleQueries, redis: Redis, direct: Client
) -> None:
    assert await queries.scores(redis, 0, [b"a"]) == [None]
    _schedule(direct, a=5, b=7)
    assert await queries.scores(redis, 0, [b"b", b"none", b"a"]) == [7, None, 5]


async def test_all_keys_of_a_schedule_are_found(
    queries: ScheduleQueries, redis: Redis, direct: Client
) -> None:
    names = {f"k{number}": number for number in range(3000)}
    _schedule(direct, **names)
    found = [key async for page in queries.scan(redis, 0) for key in page]
    assert {*found} == {key.encode() for key in names}


async def test_what_redis_refuses_is_raised(
    queries: ScheduleQueries, redis: Redis, become: Become, direct: Client
) -> None:
    _schedule(direct, a=SINCE_MS)
    await become("-zrangebyscore -zmscore -zscan")
    with pytest.raises(ResponseError):
        await queries.soon(redis, 0, SINCE_MS, MOST_MS)
    with pytest.raises(ResponseError):
        await queries.scores(redis, 0, [b"a"])
    with pytest.raises(ResponseError):
        await anext(queries.scan(redis, 0))


# --- what the registry learns


@pytest.fixture
def schedules(context: Context) -> Schedules:
    return Schedules(context)


@pytest.fixture
def registry(context: Context) -> Registry:
    """Of a server with keys in two databases, that was read until SINCE_MS."""
    registry = context.registry
    registry.populate([0, 3])
    registry.end_reading(registry.begin_reading(SINCE_MS), SINCE_MS)
    registry.begin_reading(MOST_MS)
    return registry


async def test_what_needs_attention_soon_is_known_in_all_databases(
    schedules: Schedules, redis: Redis, registry: Registry, direct: Client, server: AnyServer
) -> None:
    _schedule(direct, a=SINCE_MS, b=MOST_MS - 1, later=MOST_MS)
    with closing(Client(server.port, 3)) as other:
        _schedule(other, a=SINCE_MS + 5)
    assert await schedules.read_ahead(redis, SINCE_MS, MOST_MS, SINCE_MS) == MOST_MS
    assert registry.bounds(0) == {b"a": SINCE_MS, b"b": MOST_MS - 1}
    assert registry.bounds(3) == {b"a": SINCE_MS + 5}


@pytest.mark.usefixtures("small_pages")
@pytest.mark.parametrize("db", [0, 3])
async def test_it_is_known_until_the_first_instant_beyond_which_a_database_was_not_read(
    schedules: Schedules,
    redis: Redis,
    registry: Registry,
    server: AnyServer,
    direct: Client,
    db: int,
) -> None:
    _schedule(direct, a=SINCE_MS)
    with closing(Client(server.port, db)) as there:
        _schedule(there, **{f"k{number}": SINCE_MS + 7 for number in range(2 * PAGE)})
    assert await schedules.read_ahead(redis, SINCE_MS, MOST_MS, SINCE_MS) == SINCE_MS + 7


@pytest.mark.usefixtures("small_pages")
async def test_what_another_proxy_has_seen_to_is_known_to_be(
    schedules: Schedules, redis: Redis, registry: Registry, server: AnyServer, direct: Client
) -> None:
    """It announces neither that a key is gone nor a deadline that is far ahead."""
    many = [b"gone%d" % number for number in range(3 * PAGE)]
    for db in (0, 3):
        for key in (b"later", b"soon", *many):
            registry.announced(db, key, 900)
    registry.announced(0, b"not yet", 950)
    with closing(Client(server.port, 3)) as other:
        for client in (direct, other):
            _schedule(client, later=MOST_MS + 1, soon=SINCE_MS + 100)
        await schedules.read_ahead(redis, SINCE_MS, MOST_MS, 950)
    for db in (0, 3):
        assert registry.bounds(db).pop(b"soon") == SINCE_MS + 100
    assert registry.bounds(3) == {}
    assert registry.bounds(0) == {b"not yet": 950}
    await schedules.read_ahead(redis, MOST_MS, MOST_MS, 951)
    assert registry.bounds(0) == {}, "it is gone, too"


@pytest.mark.parametrize("score", [None, MOST_MS + 1, SINCE_MS + 100])
async def test_an_announcement_meanwhile_counts_more_than_what_is_read(
    schedules: Schedules,
    context: Context,
    redis: Redis,
    registry: Registry,
    direct: Client,
    score: int | None,
) -> None:
    """The key got another deadline after the schedule was read."""
    registry.end_reading(registry.begin_reading(MOST_MS), MOST_MS)
    registry.announced(0, b"s", 900)
    if score is not None:
        _schedule(direct, s=score)

    class Overtaken(ScheduleQueries):
        async def scores(self, redis: Redis, db: int, keys: object) -> list[int | None]:
            scores = await super().scores(redis, db, keys)  # type: ignore[arg-type]
            if db == 0:
                registry.announced(0, b"s", SINCE_MS + 10)
            return scores

    context.schedule_queries = Overtaken(KEYS)
    await schedules.read_ahead(redis, SINCE_MS, MOST_MS, SINCE_MS)
    assert registry.bounds(0)[b"s"] <= SINCE_MS + 10
    context.schedule_queries = ScheduleQueries(KEYS)
    await schedules.read_ahead(redis, SINCE_MS, MOST_MS, SINCE_MS + 20)
    known = {} if score is None or score > MOST_MS else {b"s": score}
    assert registry.bounds(0) == known, "what comes later does not count for the next reading"


async def test_what_is_refused_leaves_what_is_known(
    schedules: Schedules, redis: Redis, registry: Registry, become: Become, direct: Client
) -> None:
    registry.announced(0, b"s", 900)
    await become("-zmscore")
    with pytest.raises(ResponseError):
        await schedules.read_ahead(redis, SINCE_MS, MOST_MS, SINCE_MS)
    assert registry.bounds(0) == {b"s": 900}
    await become("+zmscore")
    await schedules.read_ahead(redis, SINCE_MS, MOST_MS, SINCE_MS)
    assert registry.bounds(0) == {}
