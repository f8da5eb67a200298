"""The one master comes back, or a replica is promoted: the proxy follows, and deadlines stay."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.conftest import StartProxy
from tests.support.cluster import Cluster
from tests.support.doctor import examine, of
from tests.support.processes import wait_until
from tests.support.raw_client import Connection, command
from tests.support.redis_client import Client, ask_anew
from tests.support.servers import Binary, Proxy
from ttlproxy.core.keys import slot

pytestmark = pytest.mark.long


@pytest.fixture
def cluster(binary: Binary) -> Iterator[Cluster]:
    with Cluster(binary) as cluster:
        cluster.replicate()
        yield cluster


@pytest.mark.parametrize(
    "how",
    [
        pytest.param((), id="both live", marks=pytest.mark.slow),
        pytest.param(("TAKEOVER",), id="the master is lost"),
    ],
)
def test_a_promoted_replica_is_served(
    cluster: Cluster, start_proxy: StartProxy, how: tuple[str, ...]
) -> None:
    master, replica = cluster.nodes
    proxy = start_proxy(f"redis://127.0.0.1:{master.port},127.0.0.1:{replica.port}")
    app = Client(proxy.port)
    keys = [f"h:{number}" for number in range(100)]
    app.ask_many([("HSETEX", key, "EX", 1000, "FIELDS", 1, "f", "v") for key in keys])
    assert app.ask("WAIT", 1, 5000) == 1
    app.close()
    if how:
        master.kill()
    replica.promote(*how)
    wait_until(
        lambda: ask_anew(proxy.port, "HSET", "new", "f", "v") in (0, 1), "it is served as a master"
    )
    app = Client(proxy.port)
    assert replica.ask("EXISTS", "new") == 1
    assert min(app.ask_many([("HTTLFIELD", key, "f") for key in keys])) > 900
    app.ask_many([("HPEXPIREFIELD", key, "f", 1) for key in keys])
    gone = [0] * len(keys)
    wait_until(lambda: replica.client.ask_many([("EXISTS", key) for key in keys]) == gone, "gone")
    app.close()


@pytest.mark.slow
def test_a_replica_alone_is_served_once_it_is_promoted(
    cluster: Cluster, start_proxy: StartProxy
) -> None:
    _, replica = cluster.nodes
    proxy = start_proxy(replica.url)
    wait_until(lambda: "it is a replica in a Redis Cluster" in proxy.stderr, "a line in the log")
    assert "it is a replica" in of("cluster", examine(replica.url)).what
    replica.promote()
    wait_until(
        lambda: ask_anew(proxy.port, "HSETEX", "h", "EX", "9", "FIELDS", "1", "f", "v") == 1,
        "it is served as a master",
    )


@pytest.mark.slow  # the proxy looks at its slots every ten seconds
def test_a_master_that_has_lost_a_slot_to_another_is_one_of_several(cluster: Cluster) -> None:
    """Its clients would be sent past the proxy: they connect anew, and both masters are served."""
    master, other = cluster.nodes
    assert other.ask("CLUSTER", "RESET") == b"OK"
    assert other.ask("CLUSTER", "MEET", "127.0.0.1", master.port) == b"OK"
    wait_until(lambda: other.id in master.ask("CLUSTER", "NODES"), "they know each other")
    proxy = Proxy(master.url, forked=True).start()
    try:
        app = Client(proxy.port)
        assert app.ask("HSETEX", "h", "EX", 1000, "FIELDS", 1, "f", "v") == 1
        name = next(b"k:%d" % at for at in range(100_000) if slot(b"k:%d" % at) == 7)
        with Connection(proxy.port) as reader:
            assert reader.ask("GET", name) == b"$-1\r\n"
            for node in (other, master):
                assert node.ask("CLUSTER", "SETSLOT", 7, "NODE", other.id) == b"OK"
            reader.send(command("GET", "h2") * 2 + command("GET", name) + command("GET", "h2"))
            answers = reader.read_many(4)
        assert answers[2] == b"-TRYAGAIN the slot is on its way to another master\r\n"
        assert answers[3] == answers[0] == b"$-1\r\n"
        wait_until(lambda: "it owns 16383 of the 16384 slots" in proxy.stderr, "it is noticed")
        app.close()
        wait_until(lambda: ask_anew(proxy.port, "SET", name, 1) == b"OK", "both are served")
        assert other.ask("GET", name) == b"1"
        assert ask_anew(proxy.port, "HTTLFIELD", "h", "f") > 0
    finally:
        proxy.remove()


@pytest.mark.slow  # for two seconds after a restart, a node answers CLUSTERDOWN
def test_a_restart_is_an_outage_and_nothing_else(binary: Binary, start_proxy: StartProxy) -> None:
    with Cluster(binary, nodes=1) as cluster:
        (node,) = cluster.nodes
        proxy = start_proxy(node.url)
        node.kill()
        node.restart()
        wait_until(
            lambda: ask_anew(proxy.port, "HSETEX", "h", "EX", "9", "FIELDS", "1", "f", "v") == 1,
            "it is served again",
        )
        assert "it serves no keys yet: its Cluster is down" in proxy.stderr
        assert "ERROR" not in proxy.stderr
