"""--cluster-view nodes: each master is at a port of its own, and any port takes any request."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack, closing

import pytest
from redis import RedisCluster
from redis.exceptions import ConnectionError

from tests.support.masters import Masters, view_of_nodes
from tests.support.processes import wait_until
from tests.support.redis_client import Client
from tests.support.servers import Proxy, release
from ttlproxy.core.keys import SLOTS, slot

KEYS = [f"k:{number}" for number in range(60)]


@pytest.fixture
def first(masters: Masters, view: Proxy) -> int:
    """The port about the whole Cluster; the three after it have a master each, without keys."""
    return view.port


@pytest.fixture
def at(first: int) -> Iterator[list[Client]]:
    """A client at each port."""
    with ExitStack() as owned:
        yield [owned.enter_context(Client(first + number)) for number in range(4)]


def _number(key: str) -> int:
    """Of the key's port."""
    return slot(key.encode()) * 3 // SLOTS + 1


def _key_at(number: int) -> str:
    return next(key for key in KEYS if _number(key) == number)


def _connections(masters: Masters, name: str) -> list[int]:
    """How many clients with this name each master has."""
    lists = [node.ask("CLIENT", "LIST") for node in masters.nodes]
    return [each.count(b" name=%b " % name.encode()) for each in lists]


def test_each_port_tells_the_same_nodes_and_which_of_them_it_is(at: list[Client]) -> None:
    slots = at[0].ask("CLUSTER", "SLOTS")
    assert [(begin, end) for begin, end, _ in slots] == [(0, 5460), (5461, 10921), (10922, 16383)]
    ids = [node[2] for _, _, node in slots]
    for number, client in enumerate(at):
        assert client.ask("CLUSTER", "SLOTS") == slots
        assert client.ask("CLUSTER", "MYID") == ids[max(number - 1, 0)]
        lines = client.ask("CLUSTER", "NODES").splitlines()
        assert [b"myself" in line for line in lines].index(True) == max(number - 1, 0)
        assert [line.split()[0] for line in lines] == ids
        shards = client.ask("CLUSTER", "SHARDS")
        assert [shard[1] for shard in shards] == [[0, 5460], [5461, 10921], [10922, 16383]]


def test_a_cluster_client_has_one_connection_for_each_master(masters: Masters, first: int) -> None:
    app = RedisCluster(host="127.0.0.1", port=first, client_name="view", decode_responses=True)
    with closing(app):
        assert sorted(node.port for node in app.get_nodes()) == [first + 1, first + 2, first + 3]
        for key in KEYS:
            assert app.get_node_from_key(key).port == first + _number(key)
            assert app.set(key, key)
        before = _connections(masters, "view")
        assert [app.get(key) for key in KEYS] == KEYS
        assert _connections(masters, "view") == before
        assert sum(before) <= 4  # the fourth has asked for the nodes
        with app.pipeline(transaction=True) as pipeline:
            pipeline.watch("{k:1}n")
            pipeline.multi()
            pipeline.incr("{k:1}n")
            assert pipeline.execute() == [1]
        assert app.delete("{k:1}n") == 1
        everywhere = {"target_nodes": RedisCluster.PRIMARIES}
        assert app.dbsize(**everywhere) == len(KEYS)
        assert sorted(app.keys("*", **everywhere)) == sorted(app.scan_iter("*")) == sorted(KEYS)
        assert app.script_load("return 1") == "e0e1f9fabfc9d4800c877a703b823ac0578ff8db"
        if release(masters.nodes[0].binary.name) >= (7,):
            assert app.function_load("#!lua name=own\nredis.register_function('f', function() end)")
            assert app.function_delete("own")
        assert app.flushall()
        assert app.dbsize(**everywhere) == 0


def test_a_port_is_about_its_master_and_the_first_about_all(
    masters: Masters, at: list[Client]
) -> None:
    at[0].ask_many([("SET", key, 1) for key in KEYS])
    sizes = [len([key for key in KEYS if _number(key) == number]) for number in (1, 2, 3)]
    assert [client.ask("DBSIZE") for client in at] == [len(KEYS), *sizes]
    runs = [node.ask("INFO", "server").split(b"run_id:")[1][:40] for node in masters.nodes]
    told = [client.ask("INFO", "server").split(b"run_id:")[1][:40] for client in at[1:]]
    assert told == runs
    _, own = at[2].ask("SCAN", 0, "COUNT", 1000)
    assert {key.decode() for key in own} == {key for key in KEYS if _number(key) == 2}
    assert at[2].ask("FLUSHALL") == b"OK"
    left = len(KEYS) - sizes[1]
    assert [client.ask("DBSIZE") for client in at] == [left, sizes[0], 0, sizes[2]]


def test_any_port_takes_requests_for_any_master(at: list[Client]) -> None:
    keys = [_key_at(number) for number in (1, 2, 3)]
    for client in at:
        assert client.ask("MSET", *(word for key in keys for word in (key, 1))) == b"OK"
        assert client.ask("MGET", *keys) == [b"1"] * 3
        for key in keys:
            assert client.ask_many([("INCR", key)], transaction=True)[-1] == 2
            assert client.ask("HSETEX", f"{{{key}}}h", "EX", 100, "FIELDS", 1, "f", "v") == 1
            assert client.ask("SET", key, 1) == b"OK"


def test_a_slot_that_moves_is_told_at_each_port(
    masters: Masters, first: int, at: list[Client]
) -> None:
    def port_of(number: int) -> set[int]:
        told = [client.ask("CLUSTER", "SLOTS") for client in at]
        ranges = [each for slots in told for each in slots if each[0] <= number <= each[1]]
        return {node[1] for _, _, node in ranges}

    def until_at(port: int) -> None:
        wait_until(lambda: port_of(5) == {port}, "all tell it")

    until_at(first + 1)
    masters.move(5, masters.nodes[0], masters.nodes[2])
    until_at(first + 3)
    masters.move(5, masters.nodes[2], masters.nodes[0])
    until_at(first + 1)


@pytest.mark.any_server
def test_a_port_that_is_taken_is_named(masters: Masters) -> None:
    words = view_of_nodes()
    first = int(words[1].rpartition(":")[2])
    proxy = Proxy(masters.nodes[0].url, *words, forked=True)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", first + 2))
        with pytest.raises(RuntimeError, match=f"{first + 2}: another program has this port"):
            proxy.start()
    proxy.remove()


@pytest.mark.any_server
@pytest.mark.slow
def test_several_workers_share_the_ports(masters: Masters) -> None:
    words = ("--cluster-ports", "2", "--workers", "2", "--max-clients", "6")
    proxy = Proxy(masters.nodes[0].url, *view_of_nodes(3), *words, forked=True).start()
    first = proxy.port
    with ExitStack() as owned:
        owned.callback(proxy.remove)
        clients = [owned.enter_context(Client(first + number)) for number in (0, 1, 2, 0, 1, 2)]
        told = [client.ask("CLUSTER", "SLOTS") for client in clients]
        assert {node[1] for _, _, node in told[0]} == {first + 1, first + 2}  # for three masters
        assert told == [told[0]] * 6
        ids = [client.ask("CLUSTER", "MYID") for client in clients]
        assert ids[:3] == ids[3:]
        assert ids[1] != ids[2]
        with pytest.raises(ConnectionError), Client(first + 1) as one_more:
            one_more.ask("PING")
        assert "some share a port" in proxy.stderr
