"""Ordinary use by redis-py, ioredis and redis-cli: they do not notice the proxy."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest
import redis
import redis.asyncio

from tests.support.containers import AnyServer
from tests.support.deadlines import has_ttl
from tests.support.processes import wait_until
from tests.support.redis_content import SHARED
from tests.support.requirements import absent
from tests.support.servers import Proxy


def test_redis_py_in_its_ordinary_use(redis_py: redis.Redis) -> None:
    assert redis_py.set("k", "v", ex=100) is True
    assert redis_py.get("k") == "v"
    redis_py.hset("h", mapping={"a": "1", "b": "2"})
    assert redis_py.execute_command("HEXPIREFIELD", "h", "a", 100) == 1
    assert has_ttl(redis_py.execute_command("HTTLFIELD", "h", "a"), 100)
    redis_py.sadd("s", "m")
    assert redis_py.execute_command("SEXPIREMEMBER", "s", "m", 100) == 1
    assert has_ttl(redis_py.execute_command("STTLMEMBER", "s", "m"), 100)
    assert redis_py.execute_command("SADDEX", "s", 10, "x", "y") == 2
    assert redis_py.execute_command("HSETEX", "h", "EX", 10, "FIELDS", 1, "f", "v") == 1
    assert redis_py.hgetall("h") == {"a": "1", "b": "2", "f": "v"}
    assert redis_py.smembers("s") == {"m", "x", "y"}
    with pytest.raises(redis.ResponseError, match="WRONGTYPE"):
        redis_py.execute_command("HEXPIREFIELD", "k", "a", 1)


def test_redis_py_pipelines_and_transactions(redis_py: redis.Redis) -> None:
    for transaction in (False, True):
        redis_py.delete("h")
        with redis_py.pipeline(transaction=transaction) as pipeline:
            pipeline.hset("h", "a", "1")
            pipeline.execute_command("HEXPIREFIELD", "h", "a", 100)
            pipeline.execute_command("HTTLFIELD", "h", "FIELDS", 2, "a", "b")
            pipeline.hgetall("h")
            assert pipeline.execute() == [1, 1, [100, -2], {"a": "1"}]


def test_redis_py_optimistic_locking_notices_a_change(redis_py: redis.Redis) -> None:
    redis_py.set("k", "1")
    with redis_py.pipeline() as pipeline:
        pipeline.watch("k")
        redis_py.set("k", "2")
        pipeline.multi()
        pipeline.incr("k")
        with pytest.raises(redis.WatchError):
            pipeline.execute()


def test_redis_py_locks_scripts_and_subscriptions(redis_py: redis.Redis) -> None:
    with redis_py.lock("lock", timeout=10) as lock:
        assert lock.owned()
    script = redis_py.register_script("return redis.call('INCRBY', KEYS[1], ARGV[1])")
    assert script(keys=["n"], args=[7]) == 7
    with redis_py.pubsub() as subscription:
        subscription.subscribe("c")
        assert subscription.get_message(timeout=5)
        redis_py.publish("c", "hello")
        message = subscription.get_message(timeout=5)
        assert message
        assert message["data"] == "hello"


async def test_redis_py_with_asyncio(proxy: Proxy) -> None:
    async with redis.asyncio.Redis(port=proxy.port, decode_responses=True) as client:
        await client.hset("h", mapping={"a": "1"})
        assert await client.execute_command("HEXPIREFIELD", "h", "a", 100) == 1
        async with client.pipeline() as pipeline:
            pipeline.execute_command("HTTLFIELD", "h", "a")
            pipeline.hget("h", "a")
            assert await pipeline.execute() == [100, "1"]


def _cli(proxy: Proxy, *lines: str) -> list[str]:
    """What redis-cli prints for lines that are typed on a terminal."""
    binary = shutil.which("redis-cli")
    if binary is None:
        absent("redis-cli", "no redis-cli here")
    done = subprocess.run(
        [binary, "--no-raw", "-p", str(proxy.port)],
        input="\n".join(lines) + "\n",
        capture_output=True,
        text=True,
        check=True,
        timeout=30,
    )
    return done.stdout.splitlines()


def test_redis_cli_sees_fields_and_members_go_on_time(proxy: Proxy, server: AnyServer) -> None:
    assert _cli(
        proxy,
        "HSET h a 1 b 2",
        "HEXPIREFIELD h a 1",
        "HTTLFIELD h a",
        "SADDEX s 1 x",
        "SADD s y",
        "STTLMEMBER s x",
    ) == ["(integer) 2", *["(integer) 1"] * 5]
    direct = redis.Redis(port=server.port)
    wait_until(lambda: set(direct.keys()) <= _AFTERWARDS, "the indexes gone, though nobody read")
    direct.close()
    assert _cli(proxy, "HGETALL h", "HLEN h", "SMEMBERS s", "SCARD s") == [
        '1) "b"',
        '2) "2"',
        "(integer) 1",
        '1) "y"',
        "(integer) 1",
    ]


_AFTERWARDS = {b"h", b"s", *SHARED}


def test_redis_cli_shows_redis_own_errors_and_goes_on(proxy: Proxy) -> None:
    assert _cli(
        proxy,
        "SET k v",
        "HEXPIREFIELD k f 1",
        "HEXPIREFIELD h f -1",
        "HEXPIREFIELD h f soon",
        "HEXPIREFIELD h f",
        "PING",
    ) == [
        "OK",
        "(error) WRONGTYPE Operation against a key holding the wrong kind of value",
        "(error) ERR invalid expire time, must be >= 0",
        "(error) ERR value is not an integer or out of range",
        "(error) ERR wrong number of arguments for 'hexpirefield' command",
        "PONG",
    ]


def _node(ioredis: Path, *words: object) -> str:
    """What a script of tests/support/clients prints."""
    done = subprocess.run(
        ["node", *map(str, words)],
        cwd=ioredis,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_ioredis_in_its_ordinary_use(ioredis: Path, proxy: Proxy) -> None:
    _node(ioredis, "ordinary.mjs", proxy.port)


def test_bullmq_delivers_delayed_jobs(ioredis: Path, proxy: Proxy) -> None:
    assert len(json.loads(_node(ioredis, "delayed.mjs", "bullmq", proxy.port, 20, 100))) == 20
