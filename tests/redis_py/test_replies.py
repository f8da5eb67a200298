"""ttlproxy.redis in front of real servers: replies, pipelines and asyncio, in RESP2 and RESP3."""

from __future__ import annotations

import pytest

import ttlproxy.redis
import ttlproxy.redis.asyncio
from tests.support.deadlines import has_ttl
from tests.support.servers import Proxy
from ttlproxy.redis import Deadline, Row, Throttled


@pytest.fixture(params=[2, 3], ids=["RESP2", "RESP3"])
def r(request: pytest.FixtureRequest, proxy: Proxy) -> ttlproxy.redis.Redis:
    return ttlproxy.redis.Redis(port=proxy.port, protocol=request.param, decode_responses=True)


def test_deadlines_of_elements(r: ttlproxy.redis.Redis) -> None:
    assert r.saddex("s", ["a", "b"], ex=60) == 2
    assert has_ttl(r.sttlmember("s", "a"), 60)
    assert r.sexpiremember("s", ["a", "none"], ttl=100, condition="GT") == [1, -2]
    assert r.spersistmember("s", "b") == 1
    assert r.spexpireatmember("s", "b", at=4102444800000) == 1
    assert r.ttlproxy_key("s", 1) == [Deadline("b", 4102444800000)]
    assert [left.element for left in r.due("s")] == ["a", "b"]
    assert r.hsetex_maxlen("h", {"f": 1}, 1, ex=60) == 1
    assert r.hsetex_maxlen("h", {"g": 1}, 1, ex=60) == -1
    assert r.hsetex_maxlen("h", {"f": 1}, 1, condition="FNX", ex=60) == 0
    assert r.zaddex("z", {"a": 1.5}, px=60000, ch=True) == 1
    assert r.rpushex("l", ["x"], keepttl=True) == 1
    r.close()


def test_queues_and_rules(r: ttlproxy.redis.Redis) -> None:
    assert r.onexpire("kept:*", "KEEP") is True
    assert r.onexpire_rule("kept:*") == ["kept:*", "KEEP"]
    assert r.onexpire_rule("none") is None
    assert r.onwrite("k", ex=5) is True
    assert r.onwrite_rule("k") == ["k", "EX", "5"]
    assert r.onwrite_rules() == [["k", "EX", "5"]]
    assert r.onwrite_drop("k") is True
    assert r.onexpire_rules() == [["kept:*", "KEEP"]]
    r.hset("kept:h", "f", "v")
    assert r.hpexpireatfield("kept:h", "f", at=1) in (1, 2)
    (taken,) = r.take("kept:h")
    assert (taken.element, taken.value) == ("f", "v")
    r.rpush("l", "x", "y", "z")
    assert r.lease("l", "busy", ex=30) == "z"
    assert r.lease("l", "busy", ex=30, count=9) == ["y", "x"]
    assert r.lease("l", "busy", ex=30) is None
    assert r.lease_with_token("l", "busy", ex=30) is None
    r.rpush("l", "w")
    leased = r.lease_with_token("l", "busy", ex=30)
    assert leased is not None
    assert leased.item == "w"
    token = r.renew("busy", leased.token, "w", ex=300)
    assert token is not None
    assert r.renew("busy", leased.token, "w", ex=300) is None
    assert [r.unlease("busy", each, "w") for each in (leased.token, token)] == [0, 1]
    assert r.defer("LPUSH", "l", "x", ex=60, id="i") == "i"
    (deferred,) = r.deferred("l")
    assert (deferred.id, deferred.words) == ("i", ["LPUSH", "l", "x"])
    assert r.undefer("l", "i", "j") == 1
    r.close()


def test_leaderboards_and_the_limiter(r: ttlproxy.redis.Redis) -> None:
    assert r.lbadd("b", 7, "m") == 1
    assert r.lbincrby("b", 2**53, "m") == 2**53 + 7
    assert r.lbtop("b", 0, -1) == r.lbaround("b", "m", 1) == [Row(0, "m", 2**53 + 7)]
    assert r.lbrank("b", "m") == 0
    assert r.lbrank("b", "none") is None
    assert r.lbrem("b", "m") == 1
    throttled = r.cl_throttle("t", 15, 30, 60)
    assert (throttled.limited, throttled.limit, throttled.remaining) == (False, 16, 15)
    r.close()


@pytest.mark.parametrize("transaction", [False, True])
def test_a_pipeline_has_the_same_methods(r: ttlproxy.redis.Redis, transaction: bool) -> None:
    with r.pipeline(transaction=transaction) as pipeline:
        pipeline.saddex("s", ["a"], ex=60).sexpiremember("s", ["a"], ttl=70).lbadd("b", 7, "m")
        pipeline.lbtop("b", 0, -1).smembers("s")
        assert pipeline.execute() == [1, [1], 1, [Row(0, "m", 7)], {"a"}]
    r.close()


@pytest.mark.parametrize("protocol", [2, 3])
async def test_asyncio(proxy: Proxy, protocol: int) -> None:
    url = f"redis://127.0.0.1:{proxy.port}"
    client = ttlproxy.redis.asyncio.Redis.from_url(url, protocol=protocol, decode_responses=True)
    async with client as r:
        assert await r.saddex("s", ["a"], ex=60) == 1
        assert await r.lbadd("b", 7, "m") == 1
        assert await r.lbtop("b", 0, -1) == [Row(0, "m", 7)]
        assert isinstance(await r.cl_throttle("t", 15, 30, 60), Throttled)
        async with r.pipeline() as pipeline:
            pipeline.sexpiremember("s", "a", ttl=70).lbincrby("b", 1, "m")
            assert await pipeline.execute() == [1, 8]
