"""A Cluster of Valkey 9 that has several databases: clients of a proxy have database 0 alone.

A SELECT at one master would leave the other connections of the client in another database.
"""

from __future__ import annotations

import pytest

from tests.cluster.databases import ANSWERS
from tests.support.raw_client import Connection, command

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
