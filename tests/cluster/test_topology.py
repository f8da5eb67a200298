"""Clients that know Clusters find one node with all slots, the proxy; and never the node behind."""

from __future__ import annotations

from typing import Any

import pytest
from redis import RedisCluster
from redis.exceptions import ResponseError

from tests.conftest import StartProxy
from tests.support.cluster import Cluster, Node
from tests.support.masters import view_of_nodes
from tests.support.processes import wait_until
from tests.support.raw_client import Connection
from tests.support.redis_client import Client
from tests.support.servers import Binary, Proxy
from ttlproxy.core.keys import slot


def _slots(port: int) -> list[object]:
    with Client(port) as app:
        found: list[object] = app.ask("CLUSTER", "SLOTS")
        return found


def test_the_proxy_is_the_only_node(node: Node, shared: Proxy) -> None:
    with Client(shared.port) as app:
        assert _slots(shared.port) == [[0, 16383, [b"127.0.0.1", shared.port, node.id]]]
        where = b"127.0.0.1:%d@%d" % (shared.port, shared.port + 10_000)
        line = b"%b %b myself,master - 0 0 1 connected 0-16383\n"
        assert app.ask("cluster", "nodes") == line % (node.id, where)


def test_shards_have_redis_own_fields(node: Node, shared: Proxy) -> None:
    theirs = node.ask("CLUSTER", "SHARDS")
    if isinstance(theirs, ResponseError):
        pytest.skip("there are no shards before 7.0")
    with Client(shared.port) as app:
        ours = app.ask("CLUSTER", "SHARDS")
    shard, native = _fields(ours[0]), _fields(theirs[0])
    native.pop(b"id", None)  # Valkey 9 gives the shard a name, too
    assert ([*shard], shard[b"slots"]) == ([*native], [0, 16383]), "in the same order"
    found, own = _fields(shard[b"nodes"][0]), _fields(native[b"nodes"][0])
    assert [*found] == [*own]
    assert (found[b"id"], found[b"port"]) == (node.id, shared.port)
    with Connection(shared.port) as raw:
        raw.ask("HELLO", "3")
        assert raw.ask("CLUSTER", "SHARDS").startswith(b"*1\r\n%2\r\n")


def _fields(flat: list[Any]) -> dict[bytes, Any]:
    return dict(zip(flat[::2], flat[1::2], strict=True))


@pytest.mark.any_server
def test_the_proxy_has_no_replicas(binary: Binary, start_proxy: StartProxy) -> None:
    with Cluster(binary, nodes=2) as cluster:
        cluster.replicate()
        master = cluster.nodes[0]
        wait_until(lambda: len(master.ask("CLUSTER", "REPLICAS", master.id)) == 1, "it is known")
        with Client(start_proxy(master.url).port) as app:
            for word in ("REPLICAS", "slaves"):
                assert app.ask("CLUSTER", word, master.id) == []
                assert str(app.ask("CLUSTER", word, "x")) == "Unknown node x"


def test_a_client_that_may_run_no_script_is_not_told_of_the_node_behind(
    node: Node, shared: Proxy
) -> None:
    node.ask("ACL", "SETUSER", "bob", "on", ">word", "~*", "&*", "+@all", "-evalsha", "-eval")
    with Client(shared.port) as app:
        assert app.ask("AUTH", "bob", "word") == b"OK"
        for word in ("SLOTS", "NODES", "MYID"):
            said = str(app.ask("CLUSTER", word))
            assert "'eval" in said  # or EVALSHA, once the scripts are loaded
            assert str(node.port) not in said
        assert app.ask("CLUSTER", "KEYSLOT", "a") == slot(b"a")
    node.ask("ACL", "DELUSER", "bob")


def test_an_announced_address_is_told_instead(node: Node, start_proxy: StartProxy) -> None:
    proxy = start_proxy(node.url, "--cluster-announce", "proxy.example:7000")
    assert _slots(proxy.port) == [[0, 16383, [b"proxy.example", 7000, node.id]]]


def test_each_port_takes_all_where_there_is_one_master(node: Node, start_proxy: StartProxy) -> None:
    announced = ("--cluster-announce", "proxy.example:7000")
    first = start_proxy(node.url, *view_of_nodes(), *announced).port
    for number in range(4):
        with Client(first + number) as app:
            [slots] = app.ask("CLUSTER", "SLOTS")
            assert (*slots[:2], *slots[2][:2]) == (0, 16383, b"proxy.example", 7001)
            assert app.ask("SET", "k", number) == b"OK"


def test_what_else_is_asked_of_the_cluster_goes_to_redis(node: Node, shared: Proxy) -> None:
    requests = [("CLUSTER", "KEYSLOT", "a"), ("CLUSTER", "MYID"), ("CLUSTER", "SLOTS", "x")]
    with Connection(shared.port) as app, Connection(node.port) as direct:
        for words in (*requests, ("CLUSTER",), ("CLUSTER", "COUNTKEYSINSLOT", "1")):
            assert app.ask(*words) == direct.ask(*words)


def test_in_a_transaction_too(shared: Proxy, node: Node) -> None:
    with Client(shared.port) as app:
        assert app.ask("MULTI") == b"OK"
        assert app.ask("CLUSTER", "SLOTS") == b"QUEUED"
        assert app.ask("EXEC") == [[[0, 16383, [b"127.0.0.1", shared.port, node.id]]]]


def test_a_server_that_is_no_cluster_answers_itself(server: Node, shared_proxy: Proxy) -> None:
    with Connection(shared_proxy.port) as app, Connection(server.port) as direct:
        assert app.ask("CLUSTER", "SLOTS") == direct.ask("CLUSTER", "SLOTS")


def test_a_cluster_client_has_deadlines(node: Node, shared: Proxy) -> None:
    app = RedisCluster(host="127.0.0.1", port=shared.port)
    assert [each.port for each in app.get_nodes()] == [shared.port]
    for number in range(50):
        key = f"h:{number}"
        assert app.hset(key, "f", "v") in (0, 1)
        assert app.execute_command("HEXPIREFIELD", key, "f", 100) == 1
        assert 90 < app.execute_command("HTTLFIELD", key, "f") <= 100
    app.close()
