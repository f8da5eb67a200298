"""CLUSTERSCAN of Valkey 9.1 through the proxy: all keys of a Cluster, but for the proxy's own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from tests.conftest import StartProxy
from tests.support.cluster import Cluster
from tests.support.masters import Masters
from tests.support.processes import free_range, wait_until
from tests.support.redis_client import Client
from tests.support.servers import Binary

KEYS = {b"k:%d" % number for number in range(50)}


@pytest.fixture(params=["one master", "several masters", "port of a node"])
def app(
    request: pytest.FixtureRequest,
    valkey_binary: Binary,
    valkey_masters: Masters,
    start_proxy: StartProxy,
) -> Iterator[Client]:
    """In front of empty servers."""
    if "unknown command" in str(valkey_masters.nodes[0].ask("CLUSTERSCAN", "{tag}")):
        pytest.skip("the server has no CLUSTERSCAN")
    valkey_masters.flush()
    if request.param == "one master":
        with Cluster(valkey_binary, nodes=1) as cluster:
            proxy = start_proxy(cluster.nodes[0].url)
            with closing(Client(proxy.port)) as client:
                yield client
        return
    port = valkey_masters.proxy.port
    if request.param == "port of a node":
        words = ("--listen", f"127.0.0.1:{free_range(4)}", "--cluster-view", "nodes")
        port = start_proxy(valkey_masters.nodes[0].url, *words).port + 1
    with closing(Client(port)) as client:
        yield client


def _scanned(app: Client, *options: str | int) -> list[bytes]:
    cursor, names = app.ask("CLUSTERSCAN", "0", *options)
    while cursor != b"0":
        cursor, page = app.ask("CLUSTERSCAN", cursor, *options)
        names += page
    return list(names)


def test_all_keys_are_found_and_none_of_the_proxys(app: Client) -> None:
    app.ask_many([("HSETEX", key, "EX", 1000, "FIELDS", 1, "f", "v") for key in KEYS])
    app.ask("DEFER", "EX", 1000, "RPUSH", "q", "x")
    assert sorted(_scanned(app, "COUNT", 1000)) == sorted(KEYS)
    assert sorted(_scanned(app, "MATCH", "k:1*")) == sorted(
        key for key in KEYS if key.startswith(b"k:1")
    )
    assert "syntax error" in str(app.ask("CLUSTERSCAN", "0", "x"))


def test_a_key_whose_elements_have_expired_is_not_found(app: Client) -> None:
    app.ask_many([("SADD", key, "a") for key in KEYS])
    assert app.ask_many([("SPEXPIREMEMBER", key, "a", 1) for key in KEYS]) == [1] * 50
    app.ask("SADD", "other", "a")
    begun_ms = app.now_ms()
    wait_until(lambda: app.now_ms() > begun_ms + 1, "it is due")
    assert _scanned(app) == [b"other"]
