"""What the link asks about keys whose slot is on its way: some have gone to its new master."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from types import SimpleNamespace
from typing import cast

import pytest
from redis.asyncio import Redis
from redis.exceptions import AskError

from tests.support.cluster import Cluster
from tests.support.processes import free_port
from tests.support.servers import Binary
from ttlproxy.addresses import Upstream
from ttlproxy.cli.main import load
from ttlproxy.core.counters import Counters
from ttlproxy.core.keys import Keys, slot
from ttlproxy.link import Context, client
from ttlproxy.link.connecting.pipeline import MovingSlots, run
from ttlproxy.link.reaper.removal import SweepScript
from ttlproxy.link.reaper.schedules import Schedules

KEYS = Keys(clustered=True)
NOW_MS = 1000
LATE, LATER, BARE = b"{way}late", b"{way}later", b"{way}bare"
SLOT = slot(LATE)
SCHEDULE = KEYS.shared_in(SLOT, KEYS.schedule)
INDEXES = [KEYS.index(LATE), KEYS.index(LATER)]
PLACES = [(0, LATE), (0, LATER), (0, BARE)]


@pytest.fixture(scope="module")
def cluster(binary: Binary) -> Iterator[Cluster]:
    with Cluster(binary) as cluster:
        yield cluster


@pytest.fixture
def on_its_way(cluster: Cluster) -> Iterator[Cluster]:
    cluster.flush()
    owner = cluster.nodes[0].client
    owner.ask_many([("ZADD", index, 1, "a") for index in INDEXES])
    owner.ask("ZADD", SCHEDULE, NOW_MS - 1, LATE, NOW_MS + 1, LATER)
    cluster.open_slot(SLOT)
    yield cluster
    cluster.take_back(SLOT)


@pytest.fixture
async def redis(cluster: Cluster) -> AsyncIterator[Redis]:
    connected = client(Upstream.parse(cluster.nodes[0].url), "test", 30.0)
    yield connected
    await connected.aclose()


@pytest.fixture
def slots(cluster: Cluster) -> MovingSlots:
    return MovingSlots(lambda: Upstream.parse(cluster.nodes[0].url), 30.0)


@pytest.fixture
def context(cluster: Cluster, slots: MovingSlots) -> Context:
    context = Context(load(["--upstream", cluster.nodes[0].url]), Counters())
    context.set_clustered(clustered=True)
    context.ask_for_keys = slots.ask
    return context


@pytest.mark.parametrize(
    "moved",
    [[], INDEXES, [SCHEDULE], [*INDEXES, SCHEDULE]],
    ids=["nothing", "indexes", "schedule", "all"],
)
async def test_what_is_due_and_what_has_an_index_is_known_wherever_that_is(
    on_its_way: Cluster, context: Context, redis: Redis, moved: list[bytes]
) -> None:
    context.rights.trusts_schedules = True
    on_its_way.carry_over(*moved) if moved else None
    assert await Schedules(context).due_among(redis, PLACES, NOW_MS) == {(0, LATE)}
    assert await SweepScript(context).with_index(redis, PLACES) == PLACES[:2]


async def test_where_the_new_master_cannot_be_asked_anything_may_be_due(
    on_its_way: Cluster, context: Context, redis: Redis
) -> None:
    nowhere = Upstream.parse(f"redis://127.0.0.1:{free_port()}")
    away = cast(Upstream, SimpleNamespace(at=lambda address: nowhere))
    context.ask_for_keys = MovingSlots(lambda: away, 1.0).ask
    on_its_way.carry_over(*INDEXES, SCHEDULE)
    assert await Schedules(context).due_among(redis, PLACES, NOW_MS) == {*PLACES}
    assert await SweepScript(context).with_index(redis, PLACES) == PLACES


async def test_other_replies_stay_as_they_are(
    on_its_way: Cluster, slots: MovingSlots, redis: Redis
) -> None:
    on_its_way.carry_over(INDEXES[0])
    requests = [
        (0, (b"TYPE", INDEXES[0])),
        (0, (b"TYPE", INDEXES[1])),
        (0, (b"GET", INDEXES[1])),
        (0, (b"GET", b"{of the other}k")),
    ]
    moved, here, refused, elsewhere = await slots.ask(redis, requests)
    assert (moved, here) == (b"zset", b"zset")
    assert "WRONGTYPE" in str(refused)
    assert elsewhere is None
    assert isinstance((await run(redis, requests))[0], AskError)
