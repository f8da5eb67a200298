"""What Valkey 9 alone has: CLUSTERSCAN, through the proxy all keys but the proxy's own; and several
databases of a Cluster, of which clients of a proxy have database 0 alone: a SELECT at one master
would leave the other connections of the client in another database."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.cluster.databases import ANSWERS
from tests.support.processes import wait_until
from tests.support.raw_client import Connection, command
from tests.support.redis_client import Client

KEYS = {b"k:%d" % number for number in range(50)}


@pytest.fixture
def app(valkey_port: int) -> Iterator[Client]:
    with Client(valkey_port) as client:
        if "unknown command" in str(client.ask("CLUSTERSCAN", "{tag}")):
            pytest.skip("the server has no CLUSTERSCAN")
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


DATABASES = ("--cluster-databases", "16")
MANAGED = ("HSETEX", "{a}h", "EX", 1000, "FIELDS", 1, "f", "v")


@pytest.mark.parametrize("has_deadlines", [False, True], ids=["plain", "managed"])
def test_another_database_is_refused_as_a_redis_cluster_refuses_it(
    valkey_port: int, has_deadlines: bool
) -> None:
    with Connection(valkey_port) as app:
        if has_deadlines:
            assert app.ask(*MANAGED) == b":1\r\n"
        for request, said in ANSWERS:
            assert app.ask(*request.split()) == said.encode() + b"\r\n", request


def test_a_pipeline_stays_in_database_0(valkey_port: int) -> None:
    requests = ["SELECT 1", "SET a one", "SELECT 0", "GET a", "SELECT 2", "RESET", "SELECT 3"]
    with Connection(valkey_port) as app:
        app.send(b"".join(command(*request.split()) for request in [*requests, "GET a"]))
        refused = b"-ERR SELECT is not allowed in cluster mode\r\n"
        said = [refused, b"+OK\r\n", b"+OK\r\n", b"$3\r\none\r\n", refused, b"+RESET\r\n"]
        assert app.read_many(8) == [*said, refused, b"$3\r\none\r\n"]


def test_a_transaction_stays_in_database_0(valkey_port: int) -> None:
    requests = [("SELECT", "1"), ("SET", "a", "one"), ("MOVE", "a", "1"), ("GET", "a")]
    with Connection(valkey_port) as app:
        assert app.ask("HELLO", "3").startswith(b"%")
        app.send(b"".join(command(*words) for words in [("MULTI",), *requests, ("EXEC",)]))
        assert app.read_many(6)[-1] == (
            b"*4\r\n-ERR SELECT is not allowed in cluster mode\r\n+OK\r\n"
            b"-ERR MOVE is not allowed in cluster mode\r\n$3\r\none\r\n"
        )
