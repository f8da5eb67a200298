"""What a client sets for its connection holds at each master, whenever it is connected to it. With
client-side caching changed deadlines are told by the names of keys."""

from __future__ import annotations

import pytest

from tests.support.cluster import Node
from tests.support.masters import KEYS, Masters
from tests.support.raw_client import Connection, command
from tests.support.servers import Proxy, unshared


@pytest.mark.parametrize("is_connected", [False, True])
def test_keys_of_all_masters_are_tracked_by_each_prefix(
    app: Connection, other: Connection, is_connected: bool
) -> None:
    app.ask("HELLO", 3)
    if is_connected:
        for key in KEYS:
            app.ask("GET", key)
    for prefix in ("key:", "other:"):
        assert app.ask("CLIENT", "TRACKING", "ON", "BCAST", "PREFIX", prefix) == b"+OK\r\n"
    for key in (*KEYS, *(b"other:{%b}" % key for key in KEYS)):
        assert other.ask("SET", key, 1) == b"+OK\r\n"
        assert app.read() == b">2\r\n$10\r\ninvalidate\r\n*1\r\n$%d\r\n%b\r\n" % (len(key), key)


def test_invalidations_cannot_be_sent_to_the_client_of_another_master(
    app: Connection, other: Connection
) -> None:
    client = other.ask("CLIENT", "ID")[1:-2]
    refusal = b"-ERR The client ID you want redirect to does not exist\r\n"
    assert app.ask("CLIENT", "TRACKING", "on", "bcast", "redirect", client) == refusal
    assert app.ask("CLIENT", "TRACKING", "ON", "BCAST", "PREFIX", "redirect") == b"+OK\r\n"
    for key in KEYS:
        assert app.ask("SET", key, 1) == b"+OK\r\n"


@unshared
def test_a_source_of_an_import_is_one_at_each_master(valkey_masters: Masters) -> None:
    """Valkey then lets it see what has expired."""
    for node in valkey_masters.nodes:
        node.ask("CONFIG", "SET", "import-mode", "yes")
    with Connection(valkey_masters.proxy.port) as app:
        assert app.ask("CLIENT", "SETNAME", "importer") == b"+OK\r\n"
        assert app.ask("CLIENT", "IMPORT-SOURCE", "ON") == b"+OK\r\n"
        for key in KEYS:
            app.ask("SET", key, 1)
        sources = [node.ask("CLIENT", "LIST", "FLAGS", "I") for node in valkey_masters.nodes]
        assert all(b" name=importer " in each for each in sources)
    for node in valkey_masters.nodes:
        node.ask("CONFIG", "SET", "import-mode", "no")


@unshared
@pytest.mark.parametrize("is_a_pipeline", [False, True])
def test_no_master_of_a_cluster_learns_that_a_client_can_be_redirected(
    valkey_masters: Masters, is_a_pipeline: bool
) -> None:
    capa = ("CLIENT", "CAPA", "redirect")
    with Connection(valkey_masters.proxy.port) as app:
        assert app.ask("CLIENT", "SETNAME", "capable") == b"+OK\r\n"
        if is_a_pipeline:
            app.send(command(*capa) + b"".join(command("SET", key, 1) for key in KEYS))
            assert app.read_many(4) == [b"+OK\r\n"] * 4
        else:
            assert [app.ask(*capa), *(app.ask("SET", key, 1) for key in KEYS)] == [b"+OK\r\n"] * 4
        for node in valkey_masters.nodes:
            rows = node.ask("CLIENT", "LIST", "NAME", "capable").splitlines()
            assert [b" capa= " in row for row in rows] == [True]


OK = b"+OK\r\n"
TRACKED = (b"key:1", b"{tag}:3", b"key:0")
SET = b"~1\r\n$1\r\ne\r\n"


def _pushed(key: bytes) -> bytes:
    return b">2\r\n$10\r\ninvalidate\r\n*1\r\n$%d\r\n%b\r\n" % (len(key), key)


def _track(cache: Connection, other: Connection) -> None:
    for key in TRACKED:
        assert other.ask("SADD", key, "e") == b":1\r\n"
    cache.ask("HELLO", 3)
    assert cache.ask("CLIENT", "TRACKING", "ON") == OK


def test_one_master_tells_of_deadlines_of_keys_that_were_read(node: Node, shared: Proxy) -> None:
    with Connection(shared.port) as cache, Connection(shared.port) as other:
        _track(cache, other)
        for key in TRACKED:
            assert cache.ask("SMEMBERS", key) == SET
            other.ask("SEXPIREMEMBER", key, "e", 90)
            assert cache.read() == _pushed(key)
        other.ask("FLUSHALL")


def test_several_masters_tell_of_deadlines_that_were_read(
    app: Connection, other: Connection
) -> None:
    _track(app, other)
    for key in TRACKED:
        assert app.ask("SMEMBERS", key) == SET
        assert app.ask("STTLMEMBER", key, "e") == b":-1\r\n"
        other.ask("SEXPIREMEMBER", key, "e", 90)
        assert app.read() == _pushed(key)
