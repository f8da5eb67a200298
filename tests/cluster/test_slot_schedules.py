"""The schedules of a Cluster's slots, as the link asks them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from redis.asyncio import Redis
from redis.exceptions import ResponseError

from tests.conftest import StartProxy
from tests.support.cluster import Cluster, Node
from tests.support.deadlines import BOUNDED
from tests.support.masters import Masters
from tests.support.redis_client import Client
from tests.support.server_queries import calls
from tests.support.servers import Binary, Proxy
from ttlproxy.addresses import Upstream
from ttlproxy.cli.main import load
from ttlproxy.core.counters import Counters
from ttlproxy.core.keys import SLOTS, Keys, slot
from ttlproxy.link import Context, SlotSchedules, client
from ttlproxy.link.knowledge.sample import Sample
from ttlproxy.link.reaper.removal import ReapScript
from ttlproxy.link.reaper.schedules import Schedules
from ttlproxy.link.reaper.walks import Orphans
from ttlproxy.link.shared import schedule_queries, slot_schedules
from ttlproxy.link.shared.schedule_queries import UnreadError
from ttlproxy.link.shared.slot_schedules import SlotSurvey
from ttlproxy.scripts import Traits

KEYS = Keys(clustered=True)
FAR_MS = 4_000_000_000_000
MANY = [b"h:%d" % number for number in range(3000)]


@pytest.fixture
async def redis(node: Node) -> AsyncIterator[Redis]:
    connected = client(Upstream.parse(node.url), "test", 30.0)
    yield connected
    await connected.aclose()


def _surveyed(node: Node) -> SlotSchedules:
    """The schedules of a node, with scripts that suit it."""
    context = Context(load(["--upstream", node.url]), Counters())
    context.set_clustered(clustered=True)
    has_flags = node.ask("COMMAND", "INFO", "EVAL_RO") != [None]
    context.scripts.suit(Traits(clustered=True, flags=has_flags))
    return context.slot_schedules


@pytest.fixture
def schedules(node: Node) -> SlotSchedules:
    """Knows nothing yet; the first key of MANY is due at 1 ms, the second at 2, and so on."""
    assert node.ask("FLUSHALL") == b"OK"
    node.client.ask_many(
        [("ZADD", KEYS.shared_by(key, KEYS.schedule), at, key) for at, key in enumerate(MANY, 1)]
    )
    return _surveyed(node)


async def test_all_that_is_due_is_found_once_the_slots_are_known(
    schedules: SlotSchedules, redis: Redis
) -> None:
    assert await schedules.due(redis, [0], FAR_MS) == ([], {})
    await schedules.find(redis)
    due, refused = await schedules.due(redis, [0], 101)
    assert ({key for _, key in due}, refused) == ({*MANY[:100]}, {})
    late = await schedules.late(redis, [0], 101)
    assert (late.keys, late.first_ms) == (100, 1)


async def test_of_many_keys_that_are_due_the_earliest_are_read_first(
    schedules: SlotSchedules, redis: Redis, node: Node
) -> None:
    await schedules.find(redis)
    due, _ = await schedules.due(redis, [0], 3001, most=100)
    assert len(due) < 1000
    assert {*MANY[:60]} < {key for _, key in due}


async def test_a_slot_with_nothing_due_is_not_asked_again_for_the_same_time(
    schedules: SlotSchedules, redis: Redis, node: Node
) -> None:
    await schedules.find(redis)
    assert node.ask("FLUSHALL") == b"OK"
    assert await schedules.due(redis, [0], 3001) == ([], {})
    before = calls(node.port, "zrangebyscore")
    assert await schedules.due(redis, [0], 3001) == ([], {})
    assert calls(node.port, "zrangebyscore") == before
    assert node.ask("ZADD", KEYS.shared_by(MANY[0], KEYS.schedule), 1, MANY[0]) == 1
    assert await schedules.due(redis, [0], 3002) == ([(0, MANY[0])], {})
    assert await schedules.next_ms(redis, [0], 3002) is None


async def test_how_many_keys_are_late_is_estimated_where_many_slots_are(
    schedules: SlotSchedules, redis: Redis, node: Node
) -> None:
    await schedules.find(redis)
    before = calls(node.port, "zrangebyscore")
    late = await schedules.late(redis, [0], 3001)
    assert 2400 < late.keys < 3600
    assert calls(node.port, "zrangebyscore") - before <= 256


async def test_what_another_proxy_has_reaped_is_not_late_and_not_asked_for_again(
    schedules: SlotSchedules, redis: Redis, node: Node
) -> None:
    for key in MANY[:20]:
        schedules.noted(key, 1)
        name = KEYS.shared_by(key, KEYS.schedule)
        node.client.ask_many([("DEL", name), ("ZADD", name, FAR_MS, key)])
    late = await schedules.late(redis, [0], 5000)
    assert (late.keys, late.first_ms) == (0, None)
    before = calls(node.port, "zrangebyscore")
    await schedules.late(redis, [0], 5000)
    assert calls(node.port, "zrangebyscore") == before


async def test_what_needs_attention_soon_is_found_in_slots_that_nobody_has_told_of(
    schedules: SlotSchedules, redis: Redis, node: Node
) -> None:
    """And from then on these slots are known."""
    assert not schedules.slots()
    soon = await schedules.soon(redis, 0, 100, 200)
    assert sorted(soon.entries, key=lambda each: each[1]) == [
        (key, at) for at, key in enumerate(MANY, 1) if 100 <= at < 200
    ]
    assert soon.until_ms == 200
    assert len({slot(key) for key, _ in soon.entries}) > 64, "they are asked a part at a time"
    assert {*schedules.slots()} == {slot(key) for key in MANY}
    assert await schedules.due(redis, [0], 2) == ([(0, MANY[0])], {})


async def test_slots_in_which_nothing_is_due_soon_are_only_asked_for_their_first_key(
    schedules: SlotSchedules, redis: Redis, node: Node
) -> None:
    await schedules.soon(redis, 0, 1, 2)
    before = calls(node.port, "zrangebyscore")
    assert (await schedules.soon(redis, 0, 1, 11)).entries
    occupied, near = ({slot(key) for key in keys} for keys in (MANY, MANY[:10]))
    assert calls(node.port, "zrangebyscore") - before == len(occupied) + len(near)


async def test_of_a_slot_with_many_keys_it_is_known_what_comes_before(
    schedules: SlotSchedules, redis: Redis, node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schedule_queries, "PAGE", 3)
    monkeypatch.setattr(slot_schedules, "PAGE", 3)
    for tag, since_ms in ((b"{b}", 5000), (b"{a}", 5001), (b"{c}", 5003)):
        name = KEYS.shared_by(tag, KEYS.schedule)
        for number in range(2 if tag == b"{c}" else 5):
            node.ask("ZADD", name, since_ms + number, b"%b%d" % (tag, number))
    soon = await schedules.soon(redis, 0, 5000, 6000)
    assert soon.until_ms == 5002, "the first page of one slot ends there, of another later"
    known = dict(soon.entries)
    assert {key for key, at in known.items() if at < 5002} == {b"{b}0", b"{b}1", b"{a}0"}
    assert {b"{c}0", b"{c}1"} < known.keys()
    further = await schedules.soon(redis, 0, 5002, 6000)
    assert {b"{b}2", b"{a}1"} < dict(further.entries).keys()
    assert further.until_ms > 5002


async def test_what_redis_refuses_of_one_slot_is_raised_and_a_slot_elsewhere_is_left_out(
    binary: Binary,
) -> None:
    with Cluster(binary) as cluster:
        owner, other = cluster.nodes
        assert owner.ask("ZADD", KEYS.shared_by(MANY[0], KEYS.schedule), 5, MANY[0]) == 1
        for node, found in ((owner, [(MANY[0], 5)]), (other, [])):
            schedules, redis = _surveyed(node), client(Upstream.parse(node.url), "test", 30.0)
            assert await schedules.soon(redis, 0, 1, 9) == (found, 9)
            scores = await schedules.scores(redis, 0, [MANY[1], MANY[0]])
            assert scores == [None, 5 if found else None]
            pages = [page async for page in schedules.scan(redis, 0)]
            assert [key for page in pages for key in page] == [key for key, _ in found]
            await redis.aclose()
        assert owner.ask("SET", KEYS.shared_by(MANY[1], KEYS.schedule), "junk") == b"OK"
        schedules, redis = _surveyed(owner), client(Upstream.parse(owner.url), "test", 30.0)
        with pytest.raises(ResponseError):
            await schedules.soon(redis, 0, 1, 9)
        await redis.aclose()


async def test_all_keys_of_all_slots_are_walked_over(
    schedules: SlotSchedules, redis: Redis, node: Node
) -> None:
    """What is read of slots, for sessions, is not changed by it."""
    pages = [page async for page in schedules.scan(redis, 0)]
    assert sorted(key for page in pages for key in page) == sorted(MANY)
    assert schedules.read == set()
    assert not schedules.slots()


async def test_where_schedules_are_not_trusted_the_reaper_knows_the_slots_all_the_same(
    context: Context, redis: Redis, node: Node
) -> None:
    context.registry.populate([0])
    assert node.ask("ZADD", KEYS.shared_by(b"k", KEYS.schedule), 1, b"k") == 1
    assert not context.rights.trusts_schedules
    assert not await Schedules(context).load(redis, 0, is_known=True)
    assert await context.slot_schedules.due(redis, [0], 2) == ([(0, b"k")], {})


async def test_what_is_being_read_when_a_slot_is_lost_does_not_count(
    schedules: SlotSchedules, redis: Redis
) -> None:
    """It may have been read before the slot was another node's, and be back."""
    lost, kept = slot(MANY[0]), slot(MANY[1])
    pages = schedules.pages_of(redis, [kept, lost])
    await anext(pages)
    schedules.forget([lost])
    _ = [page async for page in pages]
    assert schedules.read == {kept}
    _ = [page async for page in schedules.pages_of(redis, [lost])]
    assert schedules.read == {lost, kept}


async def test_only_slots_that_have_a_schedule_are_read(
    schedules: SlotSchedules, redis: Redis, node: Node
) -> None:
    before = calls(node.port, "zscan")
    found = [key async for page in schedules.pages(redis, 0) for key, _ in page]
    assert sorted(found) == sorted(MANY)
    assert schedules.read == {*range(SLOTS)}
    assert calls(node.port, "zscan") - before == len({slot(key) for key in MANY})


async def test_a_pause_does_not_delay_the_reading_of_schedules(
    schedules: SlotSchedules, redis: Redis, node: Node
) -> None:
    """On Redis 6.2 it would hold back the survey, which is a script."""
    context = Context(load([]), Counters())

    async def is_paused() -> bool:
        return True

    context.pauses_script, context.is_paused = True, is_paused
    schedules.survey = SlotSurvey(context)
    before = calls(node.port, "zscan")
    found = [key async for page in schedules.pages(redis, 0) for key, _ in page]
    assert (len(found), calls(node.port, "zscan") - before) == (len(MANY), SLOTS)


async def test_an_empty_slot_counts_as_read_only_if_its_keys_are_all_here(binary: Binary) -> None:
    """The schedule of a slot that is on its way may be at the other node already."""
    with Cluster(binary) as cluster:
        owner, other = cluster.nodes
        leaving, full = slot(MANY[0]), slot(MANY[1])
        assert owner.ask("CLUSTER", "SETSLOT", leaving, "MIGRATING", other.id) == b"OK"
        assert owner.ask("ZADD", KEYS.shared_in(full, KEYS.schedule), FAR_MS, MANY[1]) == 1
        for node, read in ((owner, {*range(SLOTS)} - {leaving}), (other, set())):
            schedules, redis = _surveyed(node), client(Upstream.parse(node.url), "test", 30.0)
            _ = [page async for page in schedules.pages(redis, 0)]
            assert schedules.read == read
            await redis.aclose()


async def test_a_key_that_is_noted_is_due_at_once_and_forgotten_where_nothing_is(
    schedules: SlotSchedules, redis: Redis
) -> None:
    schedules.noted(MANY[7], 0)
    assert await schedules.due(redis, [0], 9) == ([(0, MANY[7])], {})
    schedules.noted(b"nothing is here", 5)
    number = slot(b"nothing is here")
    assert number in schedules.slots()
    await schedules.next_ms(redis, [0], 9)
    assert number not in schedules.slots()


async def test_a_key_that_is_noted_while_its_slot_is_asked_is_not_forgotten(
    schedules: SlotSchedules, redis: Redis
) -> None:
    """The answer, that the slot is empty, may be older than the key."""
    key = b"nothing is here"
    schedules.noted(key, 5)
    asking = asyncio.create_task(schedules.next_ms(redis, [0], 9))
    await asyncio.sleep(0)
    schedules.noted(key, 5000)
    await asking
    assert slot(key) in schedules.slots()


def test_an_answer_that_is_older_than_what_was_noted_raises_no_deadline() -> None:
    """However many others have been asked for meanwhile."""
    schedules, number, asked = SlotSchedules(KEYS), slot(b"k"), 0
    schedules.noted(b"k", 50)
    for attention, found in ((b"70", 50), (b"", 50), (b"30", 30)):
        schedules.set_first(number, attention, asked)
        assert schedules.late_slots(found + 1) == [number]
        assert schedules.late_slots(found) == []
    schedules.set_first(number, b"70", schedules.now_noted)
    assert schedules.late_slots(70) == []
    schedules.set_first(number, b"", schedules.now_noted)
    assert not schedules.slots()


@pytest.fixture
def context(node: Node) -> Context:
    """Of a node without keys."""
    assert node.ask("FLUSHALL") == b"OK"
    made = Context(load(["--upstream", node.url]), Counters())
    made.set_clustered(clustered=True)
    made.scripts.suit(Traits(clustered=True))
    return made


def _reaps(context: Context) -> ReapScript:
    return ReapScript(context)


async def test_a_reap_tells_when_its_slot_needs_attention_again(
    context: Context, redis: Redis, node: Node
) -> None:
    """So slots are asked what is due, and then no more."""
    schedules = context.slot_schedules
    due, later = [b"{k}1", b"{k}2", b"other"], b"{k}3"
    for key, at in [*((key, 1) for key in due), (later, FAR_MS)]:
        name = KEYS.shared_by(key, KEYS.schedule)
        node.client.ask_many([("ZADD", KEYS.index(key), at, "a"), ("ZADD", name, at, key)])
        assert node.ask("SADD", key, "a") == 1
        context.announced(0, key, at)
    found, _ = await schedules.due(redis, [0], 2)
    assert {key for _, key in found} == {*due}
    before = calls(node.port, "zrangebyscore")
    await _reaps(context)(redis, dict.fromkeys(found, 100))
    assert await schedules.due(redis, [0], 2) == ([], {})
    assert await schedules.next_ms(redis, [0], 2) == FAR_MS
    assert calls(node.port, "zrangebyscore") == before
    assert schedules.slots() == {slot(later): FAR_MS}


async def test_a_reap_that_waits_while_rules_go_does_not_bring_them_back(
    context: Context, redis: Redis, node: Node
) -> None:
    """A slot without a version takes that of the call."""
    assert node.ask("HSET", KEYS.home(KEYS.rules), "version", 5) == 1
    await context.learn_rules(redis, 0)
    turn = asyncio.Lock()
    async with turn:
        reaping = asyncio.create_task(_reaps(context)(redis, {(0, b"k"): 9}, turn))
        await asyncio.sleep(0)
        behind = asyncio.create_task(turn.acquire())
        await asyncio.sleep(0)
    await behind  # the call is prepared, and waits
    assert node.ask("FLUSHALL") == b"OK"
    context.actions.forget_all()
    turn.release()
    assert (await reaping).more == {(0, b"k")}
    assert node.ask("HGET", KEYS.shared_by(b"k", KEYS.rules), "version") is None


async def test_the_next_key_is_the_earliest_of_all_slots(
    schedules: SlotSchedules, redis: Redis
) -> None:
    await schedules.find(redis)
    for now_ms in (0, 1, 500, 2999):
        assert await schedules.next_ms(redis, [0], now_ms) == max(now_ms, 1)
    assert await schedules.next_ms(redis, [0], 3001) is None


async def test_the_size_is_told_when_all_slots_were_asked(
    schedules: SlotSchedules, redis: Redis
) -> None:
    await schedules.find(redis)
    for _ in range(2):
        sizes = [await schedules.size(redis, [0]) for _ in range(-(-len(schedules.slots()) // 64))]
        assert sizes == [None] * (len(sizes) - 1) + [3000]


async def test_a_heartbeat_asks_slots_for_their_size_once_for_all_who_want_it(
    schedules: SlotSchedules, redis: Redis, node: Node
) -> None:
    """Else each of two would hear the sum only at every other time, or never."""
    await schedules.find(redis)
    context = Context(load(["--upstream", node.url]), Counters())
    context.schedule_queries = schedules
    sizes = []
    for _ in range(-(-len(schedules.slots()) // 64)):
        sample = Sample(context, with_sizes=True)
        sizes.append((await sample.sizes(redis), await sample.sizes(redis)))
    assert sizes == [(None, None)] * (len(sizes) - 1) + [({0: 3000}, {0: 3000})]


@pytest.mark.slow
async def test_keys_are_picked_from_many_slots(schedules: SlotSchedules, redis: Redis) -> None:
    assert await schedules.sample(redis, 0, 100) == []
    await schedules.find(redis)
    picked = await schedules.sample(redis, 0, 100)
    assert len({slot(key) for key in picked}) == 100
    assert {*await schedules.sample(redis, 0, 100_000)} == {*MANY}


async def test_what_one_slot_lacks_hides_no_other(
    schedules: SlotSchedules, redis: Redis, node: Node
) -> None:
    broken = KEYS.shared_by(MANY[0], KEYS.schedule)
    assert node.ask("SET", broken, "junk") == b"OK"
    read = set[bytes]()

    async def read_all() -> None:
        async for page in schedules.pages(redis, 0):
            read.update(key for key, _ in page)

    with pytest.raises(UnreadError) as unread:
        await read_all()
    assert [*unread.value.refused] == [slot(MANY[0])]
    assert read == {key for key in MANY if slot(key) != slot(MANY[0])}


@pytest.mark.slow
def test_the_schedule_of_a_slot_is_created_again(
    node: Node, shared: Proxy, start_proxy: StartProxy
) -> None:
    app = Client(shared.port)
    assert app.ask("FLUSHALL") == b"OK"
    words = (*BOUNDED, "EX", 1000, "FIELDS", 1, "f", "v")
    app.ask_many([("HSETEX", key, *words) for key in MANY[:300]])
    broken = KEYS.shared_by(MANY[0], KEYS.schedule)
    for _ in range(2):
        assert node.ask("SET", broken, "junk") == b"OK"
        proxy = start_proxy(node.url)  # reads all schedules
        assert node.ask("ZSCORE", broken, MANY[0]) is not None
        with_it = Client(proxy.port)
        left = with_it.ask_many([("HTTLFIELD", key, "f") for key in MANY[:300]])
        assert min(left) > 900
        assert with_it.ask("HSET", MANY[0], "f", "w") == 0
        assert with_it.ask("HTTLFIELD", MANY[0], "f") == -1
        assert with_it.ask("HEXPIREFIELD", MANY[0], 1000, "FIELDS", 1, "f") in (1, [1])
        with_it.close()
    app.close()


def test_each_slot_has_a_word_of_its_own() -> None:
    assert {slot(b"{%b}" % KEYS.word(number)) for number in range(SLOTS)} == {*range(SLOTS)}


async def test_what_dbsize_leaves_out_is_corrected_at_each_master(masters: Masters) -> None:
    """Also at those that do not have the slot of the proxies' state."""
    for number, node in enumerate(masters.nodes):
        key = next(key for key in MANY if slot(key) * 3 // SLOTS == number)
        kept, others = KEYS.kept(key), KEYS.shared_by(key, KEYS.others)
        assert node.ask("RPUSH", kept, "element", "value", FAR_MS) == 3
        context = Context(load(["--upstream", node.url]), Counters())
        context.set_clustered(clustered=True)
        connected = client(Upstream.parse(node.url), "test", 30.0)
        search = Orphans(context)
        while not node.ask("SISMEMBER", others, kept):
            await search.search(connected, [0])
        await connected.aclose()
        assert context.counters.refusals == 0
