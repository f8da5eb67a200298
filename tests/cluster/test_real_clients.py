"""Real clients in front of three masters, those that know Clusters and those that do not.

Each reads and writes keys of all masters, with a pipeline, a transaction, a subscription, a
blocking pop and a command of ttlproxy, where it has these. Then it counts `{moves}n` up until
`{moves}stop` is there, while the slot of these keys moves there and back: each INCR must be done
once.
"""

from __future__ import annotations

import asyncio
import subprocess
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

import pytest
import redis
import redis.asyncio
from celery import Celery
from celery.contrib.testing.worker import start_worker
from redis.cluster import RedisCluster

from tests.docs.programs import SLOW, build_go, java, javac, run, tool
from tests.support.made_once import made_once
from tests.support.masters import Masters
from tests.support.npm import CLIENTS
from tests.support.processes import wait_until
from tests.support.redis_client import Client
from tests.support.servers import Proxy
from ttlproxy.core.keys import SLOTS, slot

KEYS: Final = [f"k:{number}" for number in range(30)]
MOVED: Final = slot(b"{moves}n")
_COMPILED: Final = (pytest.mark.any_server, pytest.mark.slow, pytest.mark.timeout(SLOW))


def _while_slots_move(masters: Masters, use: Callable[[], object]) -> None:
    """Runs a client's program, which counts up; fails as it does."""
    home = MOVED * 3 // SLOTS
    source, target = masters.nodes[home], masters.nodes[(home + 1) % 3]
    with Client(masters.proxy.port) as asking, ThreadPoolExecutor() as pool:
        using = pool.submit(use)
        for begin, end in ((source, target), (target, source)):
            _until_more(using, asking)
            masters.move(MOVED, begin, end)
        _until_more(using, asking)
        asking.ask("SET", "{moves}stop", 1)
        using.result()


def _until_more(using: Future[object], asking: Client) -> None:
    """Returns when the program has counted up by five more, or has ended."""

    def count() -> int:
        return int(asking.ask("GET", "{moves}n") or 0)

    before = count()
    wait_until(lambda: using.done() or count() >= before + 5, "it counts", SLOW)


def _count(client: Any) -> None:
    own = 0
    while not client.exists("{moves}stop"):
        client.incr("{moves}n")
        own += 1
        client.execute_command("HSETEX", "{moves}h", "EX", 100, "FIELDS", 1, "f", own)
    assert int(client.get("{moves}n")) == own


def _use_redis_py(client: Any) -> None:
    for key in KEYS:
        assert client.set(key, key)
    assert [client.get(key) for key in KEYS] == KEYS
    assert client.execute_command("HSETEX", "h", "EX", 100, "FIELDS", 1, "f", "v") == 1
    assert client.execute_command("HTTLFIELD", "h", "f") == 100
    with client.pipeline(transaction=False) as pipeline:
        for key in KEYS:
            pipeline.get(key)
        assert pipeline.execute() == KEYS
    with client.pipeline(transaction=True) as pipeline:
        pipeline.watch("{t}n")
        pipeline.multi()
        pipeline.incr("{t}n")
        assert pipeline.execute() == [1]
        pipeline.watch("{t}n")
        client.set("{t}n", 7)
        pipeline.multi()
        pipeline.incr("{t}n")
        with pytest.raises(redis.WatchError):
            pipeline.execute()
    with client.pubsub() as subscription:
        subscription.subscribe("c")
        assert subscription.get_message(timeout=30)
        client.publish("c", "hello")
        assert subscription.get_message(timeout=30)["data"] == "hello"
    pushing = threading.Timer(0, client.rpush, ("l", "x"))
    pushing.start()
    assert tuple(client.blpop("l", 30)) == ("l", "x")
    pushing.join()
    _count(client)
    client.close()


@pytest.mark.any_server
@pytest.mark.parametrize(("kind", "protocol"), [(redis.Redis, 2), (RedisCluster, 3)])
def test_redis_py(masters: Masters, kind: Callable[..., Any], protocol: int) -> None:
    port = masters.proxy.port
    client = kind(host="127.0.0.1", port=port, protocol=protocol, decode_responses=True)
    _while_slots_move(masters, lambda: _use_redis_py(client))


async def _use_redis_py_with_asyncio(client: Any) -> None:
    for key in KEYS:
        assert await client.set(key, key)
    assert await asyncio.gather(*(client.get(key) for key in KEYS)) == KEYS
    assert await client.execute_command("HSETEX", "h", "EX", 100, "FIELDS", 1, "f", "v") == 1
    pipeline = client.pipeline(transaction=False)
    for key in KEYS:
        pipeline.get(key)
    assert await pipeline.execute() == KEYS
    transaction = client.pipeline(transaction=True)
    transaction.incr("{t}n")
    transaction.execute_command("HTTLFIELD", "{t}none", "f")
    assert await transaction.execute() == [1, -2]
    popping = asyncio.create_task(client.blpop(["l"], 30))
    await client.rpush("l", "x")
    assert list(await popping) == ["l", "x"]
    own = 0
    while not await client.exists("{moves}stop"):
        await client.incr("{moves}n")
        own += 1
        await client.execute_command("HSETEX", "{moves}h", "EX", 100, "FIELDS", 1, "f", own)
    assert int(await client.get("{moves}n")) == own
    await client.aclose()


@pytest.mark.any_server
@pytest.mark.parametrize("kind", [redis.asyncio.Redis, redis.asyncio.RedisCluster])
def test_redis_py_with_asyncio(masters: Masters, kind: Callable[..., Any]) -> None:
    async def use() -> None:
        client = kind(host="127.0.0.1", port=masters.proxy.port, decode_responses=True)
        await _use_redis_py_with_asyncio(client)

    _while_slots_move(masters, lambda: asyncio.run(use()))


@pytest.mark.any_server
@pytest.mark.parametrize("flags", [(), ("-c",)], ids=["plain", "cluster"])
def test_redis_cli(masters: Masters, flags: Sequence[str], tmp_path: Path) -> None:
    typed = "".join(
        f"{line}\n"
        for line in (
            *(f"SET {key} 1" for key in KEYS),
            "HSETEX h EX 100 FIELDS 1 f v",
            "HTTLFIELD h f",
            "MULTI",
            "INCR {t}n",
            "EXEC",
            "DBSIZE",
        )
    )
    printed = run([tool("redis-cli"), *flags, "-p", str(masters.proxy.port)], tmp_path, typed)
    assert printed.split("\n") == [*["OK"] * 30, "1", "100", "OK", "QUEUED", "1", "32", ""]


def _benchmark(port: int, *flags: str) -> list[str]:
    load = ["-q", "-n", "1000", "-c", "10", "-P", "4", "-r", "1000", "-t", "set,get,hset,spop"]
    return [tool("redis-benchmark"), "-p", str(port), *flags, *load]


@pytest.mark.any_server
def test_redis_benchmark(masters: Masters, view: Proxy, tmp_path: Path) -> None:
    for port in (masters.proxy.port, view.port + 1):
        assert run(_benchmark(port), tmp_path).count("requests per second") == 4
    for port in (view.port, view.port + 1):
        printed = run(_benchmark(port, "--cluster"), tmp_path)
        assert "Cluster has 3 master nodes" in printed
        assert printed.count("requests per second") == 4


@pytest.mark.any_server
def test_redis_benchmark_refuses_a_cluster_of_one_node(masters: Masters) -> None:
    words = _benchmark(masters.proxy.port, "--cluster")
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr.strip()) == (1, "Invalid cluster: 1 node(s).")


@pytest.mark.any_server
def test_the_check_of_redis_cli_finds_nothing_wrong(view: Proxy, tmp_path: Path) -> None:
    address = f"127.0.0.1:{view.port + 1}"
    printed = run([tool("redis-cli"), "--cluster", "check", address], tmp_path)
    assert "All nodes agree about slots configuration" in printed
    assert "All 16384 slots covered" in printed


@pytest.mark.parametrize(
    "client",
    ["ioredis Cluster", "ioredis", "node-redis Cluster", "node-redis", "BullMQ Cluster", "BullMQ"],
)
@pytest.mark.any_server
@pytest.mark.slow
def test_in_node(masters: Masters, ioredis: Path, client: str) -> None:
    words = ["node", "masters.mjs", client, str(masters.proxy.port)]
    _while_slots_move(masters, lambda: run(words, ioredis))


@pytest.fixture(scope="module")
def go(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The compiled program, for all workers."""

    return made_once(
        tmp_path_factory, "go-masters", lambda folder: build_go(folder, CLIENTS / "masters.go")
    )


@pytest.mark.parametrize(
    "client", [pytest.param(name, marks=_COMPILED) for name in ("Client", "ClusterClient")]
)
def test_go_redis(masters: Masters, go: Path, client: str) -> None:
    words = [str(go / "masters"), client, str(masters.proxy.port)]
    _while_slots_move(masters, lambda: run(words, go))


@pytest.fixture(scope="module")
def compiled(java_clients: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The compiled program, for all workers."""

    def make(folder: Path) -> None:
        source = CLIENTS / "Masters.java"
        run([*javac(), "-cp", f"{java_clients}/lib/*", "-d", ".", str(source)], folder)

    return made_once(tmp_path_factory, "java-masters", make)


@pytest.mark.parametrize(
    "client",
    [
        pytest.param(name, marks=_COMPILED)
        for name in ("Jedis", "Jedis Cluster", "Lettuce", "Lettuce Cluster")
    ],
)
def test_in_java(masters: Masters, compiled: Path, java_clients: Path, client: str) -> None:
    words = [*java(), "-cp", f"{java_clients}/lib/*:.", "Masters", client, str(masters.proxy.port)]
    _while_slots_move(masters, lambda: run(words, compiled))


@pytest.fixture
def celery(masters: Masters) -> Iterator[Celery]:
    url = f"redis://127.0.0.1:{masters.proxy.port}/0"
    app = Celery("tasks", broker=url, backend=url, set_as_current=False)
    tagged = {"global_keyprefix": "{celery}"}
    app.conf.update(broker_transport_options=tagged, result_backend_transport_options=tagged)
    yield app
    app.close()


@pytest.mark.any_server
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # Celery uses what redis-py calls deprecated
@pytest.mark.usefixtures("own_log")  # Celery sets up the log
def test_celery(celery: Celery) -> None:
    def sum_of(one: int, other: int) -> int:
        return one + other

    add = celery.task(sum_of, name="add")
    with start_worker(celery, pool="solo", perform_ping_check=False, shutdown_timeout=30):
        results = [add.delay(number, 1) for number in range(10)]
        results.append(add.apply_async((10, 1), countdown=0.1))
        assert [result.get(timeout=60) for result in results] == list(range(1, 12))
