"""Three masters with a replica each: one is demoted, killed, or comes back."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.conftest import StartProxy
from tests.operations.test_status_routes import status
from tests.support.admin_pages import FLAGS, Pages, families, metric, pages
from tests.support.cluster import Cluster, Node
from tests.support.doctor import examine
from tests.support.masters import view_of_nodes
from tests.support.processes import wait_until
from tests.support.raw_client import Connection, command
from tests.support.redis_client import Client, ask_anew
from tests.support.servers import Binary, Proxy
from ttlproxy.core.keys import SLOTS, slot

# Booting a Cluster takes a minute on a busy machine.
pytestmark = [pytest.mark.long, pytest.mark.timeout(400)]

KEYS = [b"k:%d" % number for number in range(60)]
# A key of the second master, and one of the third.
SECOND, THIRD = b"key:1", b"key:3"


@pytest.fixture
def cluster(binary: Binary) -> Iterator[Cluster]:
    with Cluster(binary, nodes=6, masters=3) as cluster:
        cluster.replicate(masters=3)
        yield cluster


@pytest.fixture
def proxy(cluster: Cluster, start_proxy: StartProxy) -> Proxy:
    """The ports after its own are each about one master. It holds requests for as long as a
    failover may take on a busy machine."""
    return start_proxy(cluster.nodes[0].url, *FLAGS, *view_of_nodes(), "--hold-max", "60")


def _run(client: Client) -> bytes:
    """The run of the server that answers for no slot."""
    run: bytes = client.ask("INFO", "server").split(b"run_id:")[1][:40]
    return run


def _second(key: bytes) -> bool:
    return slot(key) * 3 // SLOTS == 1


def _failover(cluster: Cluster) -> list[str]:
    """What the doctor says of failovers."""
    found = examine(cluster.nodes[2].url, sample=10)
    return [each.what for each in found if each.check == "failover"]


def _up(admin: Pages) -> set[str]:
    """The servers that metrics are about."""
    return {sample.labels["node"] for sample in families(admin)["ttlproxy_node_up"].samples}


def _written(client: Client) -> None:
    client.ask_many([("HSET", key, "a", 1, "b", 2) for key in KEYS])
    client.ask_many([("HEXPIREFIELD", key, 1000, "FIELDS", 1, "a") for key in KEYS])


def _expire(cluster: Cluster, client: Client, number: int) -> None:
    """Deadlines are there after the change, and fire at node `number`."""
    assert min(client.ask_many([("HTTLFIELD", key, "a") for key in KEYS])) > 900
    client.ask_many([("HPEXPIREFIELD", key, 1, "FIELDS", 1, "a") for key in KEYS])
    node = cluster.nodes[number]
    own = [("HLEN", key) for key in KEYS if _second(key)]
    wait_until(lambda: node.client.ask_many(own) == [1] * len(own), "all are reaped")


def test_a_demoted_master_is_left_without_an_error(cluster: Cluster, proxy: Proxy) -> None:
    """The replica that is promoted is at the port of its master."""
    keys = [key for key in KEYS if _second(key)]
    run = _run(cluster.nodes[4].client)
    with (
        Client(proxy.port) as client,
        Client(proxy.port + 2) as second,
        Connection(proxy.port) as app,
    ):
        _written(client)
        slots = second.ask("CLUSTER", "SLOTS")
        assert second.ask("DBSIZE") == len(keys)
        cluster.nodes[4].promote()
        for number in range(1, 30):
            assert second.ask("CLUSTER", "SLOTS") == slots
            app.send(command("DBSIZE") + command("INCR", b"{%b}n" % keys[0]) + command("PING"))
            size, *rest = app.read_many(3)
            assert size.startswith(b":")
            assert rest == [b":%d\r\n" % number, b"+PONG\r\n"]
            assert second.ask("DBSIZE") == len(keys) + 1
        wait_until(lambda: _run(second) == run, "it is about the replica")
        _expire(cluster, client, 4)
    wait_until(lambda: not _failover(cluster), "well")
    first, replica = cluster.nodes[0], cluster.nodes[3]
    for name in ("masteruser", "masterauth"):
        assert replica.ask("CONFIG", "SET", name, "nobody") == b"OK"
    assert first.ask("CLIENT", "KILL", "TYPE", "replica") == 1
    said = f"127.0.0.1:{first.port} sends its writes to 0 of 1 replica: 127.0.0.1:{replica.port}"
    wait_until(lambda: _failover(cluster) == [said], "it is told")


def test_new_masters_are_met_before_the_old_ones_are_left(cluster: Cluster, proxy: Proxy) -> None:
    """Each old master tells of its replica, even if no other master is left that would."""
    old, new = cluster.nodes[:3], cluster.nodes[3:]
    with Client(proxy.port) as client:
        _written(client)
        assert client.ask("WAIT", 1, 10_000) == 1
    with ThreadPoolExecutor() as pool:
        list(pool.map(Node.promote, new))
    left = [f"127.0.0.1:{node.port} is no master of the Cluster any more" for node in old]
    wait_until(lambda: all(line in proxy.stderr for line in left), "all old ones are left")
    log = proxy.stderr
    met = [log.rindex(f"a master of the Cluster: 127.0.0.1:{node.port}") for node in new]
    assert all(one < log.index(line) for one, line in zip(met, left, strict=True))
    with Client(proxy.port) as client:
        assert client.ask_many([("HTTLFIELD", key, "b") for key in KEYS]) == [-1] * len(KEYS)


@pytest.mark.slow
def test_others_are_served_while_a_master_is_away(cluster: Cluster, proxy: Proxy) -> None:
    with Client(proxy.port) as client:
        _written(client)
        others = [key for key in KEYS if not _second(key)]
        for node in cluster.nodes:
            node.ask("CONFIG", "SET", "cluster-require-full-coverage", "no")
        assert client.ask("WAIT", 1, 10_000) == 1
        with Connection(proxy.port) as blocked:
            blocked.send(command("BLPOP", b"{%b}none" % SECOND, 0))
            wait_until(lambda: b"blocked_clients:1" in cluster.nodes[1].ask("INFO"), "it waits")
            cluster.nodes[1].kill()
            assert blocked.read_to_end() == b""
        wait_until(lambda: ask_anew(proxy.port, "HGET", others[0], "a") == b"1", "served")
        assert proxy.faults == []
        with Client(proxy.port) as another:
            assert another.ask_many([("HGET", key, "a") for key in others]) == [b"1"] * len(others)
        admin, names = pages(proxy), [f"127.0.0.1:{node.port}" for node in cluster.nodes]
        admin.until(f"/readyz?node={names[1]}", 503)
        ready = admin.get("/readyz")
        assert (ready.status, ready.text.count("not served")) == (200, 1)
        assert ready.text.startswith(f"ready\nnot served: {names[1]}: ")
        troubles = [bool(each["why_not"]) for each in status(admin)["masters"]]
        assert sorted(troubles) == [False, False, True]
        assert [metric(admin, "ttlproxy_node_up", node=name) for name in names[:3]] == [1, 0, 1]
        cluster.nodes[4].promote("TAKEOVER")
        second = next(key for key in KEYS if _second(key))
        wait_until(lambda: ask_anew(proxy.port, "HGET", second, "a") == b"1", "it is replaced")
        with Client(proxy.port) as another:
            _expire(cluster, another, 4)
        wait_until(lambda: admin.get("/readyz").text == "ready\n", "all are served")
        assert _up(admin) == {names[0], names[2], names[4]}


@pytest.mark.slow
def test_idle_clients_survive_a_killed_master(cluster: Cluster, proxy: Proxy) -> None:
    with Connection(proxy.port) as app:
        second = next(key for key in KEYS if _second(key))
        assert app.ask("SET", second, 1) == b"+OK\r\n"
        assert app.ask("WAIT", 1, 10_000) == b":1\r\n"
        cluster.nodes[1].kill()
        cluster.nodes[4].promote("TAKEOVER")
        wait_until(lambda: ask_anew(proxy.port, "GET", second) == b"1", "the other is served")
        assert app.ask("GET", second) == b"$1\r\n1\r\n"


@pytest.mark.slow
@pytest.mark.any_server
def test_masters_that_come_back_at_other_addresses_are_served(
    binary: Binary, start_proxy: StartProxy
) -> None:
    """As pods do: one of them, and then another one."""
    with Cluster(binary, nodes=3, masters=3) as cluster:
        first, second, third = cluster.nodes
        proxy = start_proxy(first.url, *FLAGS)
        with Client(proxy.port) as client:
            _written(client)
        for node, key in ((second, SECOND), (third, THIRD)):
            node.move_away()
            wait_until(lambda key=key: ask_anew(proxy.port, "SET", key, 1) == b"OK", "it is served")  # type: ignore[misc]
            names = {f"127.0.0.1:{each.port}" for each in cluster.nodes}
            wait_until(lambda names=names: _up(pages(proxy)) == names, "the old one is forgotten")  # type: ignore[misc]


def test_a_master_that_is_away_at_the_start_is_found_later(
    cluster: Cluster, start_proxy: StartProxy
) -> None:
    for node in cluster.nodes:
        node.ask("CONFIG", "SET", "cluster-require-full-coverage", "no")
    cluster.nodes[2].kill()
    proxy = start_proxy(cluster.nodes[0].url, *FLAGS, *view_of_nodes())
    assert ask_anew(proxy.port, "SET", SECOND, 1) == b"OK"
    with Client(proxy.port + 3) as third:
        others = [_run(node.client) for node in cluster.nodes[:2]]
        assert _run(third) in others  # another one stands in
        cluster.nodes[5].promote("TAKEOVER")
        wait_until(lambda: ask_anew(proxy.port, "SET", THIRD, 1) == b"OK", "the third is served")
        run = _run(cluster.nodes[5].client)
        wait_until(lambda: _run(third) == run, "it is about the third")
    masters = {f"127.0.0.1:{cluster.nodes[number].port}" for number in (0, 1, 5)}
    wait_until(lambda: _up(pages(proxy)) == masters, "nothing is left of the one that was away")
