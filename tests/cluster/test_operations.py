"""The subcommands for operators, for a Cluster of one master."""

from __future__ import annotations

import pytest

from tests.conftest import StartProxy, StartServer, in_cluster_mode
from tests.operations.test_purge import purge
from tests.support.cluster import Cluster, Node
from tests.support.deadlines import BOUNDED
from tests.support.doctor import above_info, examine, of, rights_of
from tests.support.redis_client import Client
from ttlproxy.core.keys import Keys

NAMES = Keys(clustered=True)
KEYS = [b"h:%d" % number for number in range(300)]


@pytest.fixture
def filled(node: Node, start_proxy: StartProxy) -> Node:
    """A Cluster whose proxy has stopped: 300 keys with deadlines, and a deferred command."""
    assert node.ask("FLUSHALL") == b"OK"  # and with it the key of the signatures
    proxy = start_proxy(node.url)
    app = Client(proxy.port)
    app.ask_many([("HSETEX", key, *BOUNDED, "EX", 100, "FIELDS", 1, "f", "v") for key in KEYS])
    app.ask("DEFER", "EX", 100, "DEL", "h")
    app.close()
    proxy.stop()
    return node


# --- purge


def test_a_purge_removes_what_is_internal_in_all_slots(filled: Node) -> None:
    internal = len(filled.ask("KEYS", "__ttl:*")) + len(filled.ask("KEYS", "ttlproxy-state:*"))
    assert internal > 2 * len(KEYS)
    done = purge("--upstream", filled.url)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [f"database 0: {internal} internal keys removed"]
    assert sorted(filled.ask("KEYS", "*")) == sorted(KEYS)


@pytest.mark.slow
def test_a_purge_leaves_what_is_kept_and_notes_it_in_its_slot(filled: Node) -> None:
    assert filled.ask("RPUSH", NAMES.kept(b"k"), "a") == 1
    done = purge("--upstream", filled.url)
    assert "elements of 1 key still wait for TAKE" in done.stdout
    others = NAMES.shared_by(b"k", NAMES.others)
    assert filled.ask("SMEMBERS", others) == [NAMES.kept(b"k")]
    assert purge("--upstream", filled.url, "--force").returncode == 0
    assert sorted(filled.ask("KEYS", "*")) == sorted(KEYS)


@pytest.mark.slow
def test_a_node_without_slots_is_not_purged(start_server: StartServer) -> None:
    done = purge("--upstream", in_cluster_mode(start_server).url)
    assert done.returncode == 1
    assert "it serves no keys yet: its Cluster is down" in done.stderr


# --- the doctor


def test_a_cluster_that_is_well_has_no_finding(filled: Node, start_proxy: StartProxy) -> None:
    start_proxy(filled.url)
    found = examine(filled.url)
    assert above_info(found) == []
    assert "only master" in of("cluster", found).what
    assert of("content", found).what == "301 keys and 301 deadlines, no fault found"
    assert of("unsigned", found).severity == 0


@pytest.mark.slow
def test_each_fault_is_found_in_any_slot(filled: Node) -> None:
    index = NAMES.index(b"h:1")
    assert filled.ask("ZREM", NAMES.shared_by(b"h:1", NAMES.schedule), "h:1") == 1
    assert filled.ask("HDEL", "h:2", "f") == 1
    assert filled.ask("ZADD", NAMES.shared_by(b"h:3", NAMES.schedule), 1000, "h:3") == 0
    found = examine(filled.url)
    assert of("schedule", found).keys == (b"h:1",)
    assert of("replaced", found).keys == (b"h:2",)
    assert of("overdue", found).what.startswith("1 key is overdue")
    found = examine(filled.url, fix=True)
    assert filled.ask("ZSCORE", NAMES.shared_by(b"h:1", NAMES.schedule), "h:1") is not None
    assert filled.ask("EXISTS", NAMES.index(b"h:2")) == 0
    assert filled.ask("EXISTS", index) == 1
    assert above_info(found) == []


@pytest.mark.slow
def test_the_proxys_own_user_needs_rights_to_ask_for_nodes(
    node: Node, start_proxy: StartProxy
) -> None:
    rules = rights_of(node.name, clustered=True)
    assert node.ask("ACL", "SETUSER", "own", "reset", "on", ">word", *rules) == b"OK"
    url = f"redis://own:word@127.0.0.1:{node.port}"
    start_proxy(url)
    assert of("rights", examine(url)).severity == 0
    assert node.ask("ACL", "SETUSER", "own", "-cluster") == b"OK"
    said = [found.what for found in examine(url) if found.check == "rights"]
    assert [
        right in what
        for right, what in zip(("+cluster|nodes", "+cluster|slots"), said, strict=True)
    ] == [True, True]


@pytest.mark.slow
def test_slots_that_are_on_their_way_are_counted(node: Node) -> None:
    with Cluster(node.binary) as cluster:
        cluster.open_slot(7)
        cluster.open_slot(8)
        assert of("cluster", examine(cluster.nodes[0].url)).what.startswith("2 slots are on")
        assert "it owns no slots" in of("cluster", examine(cluster.nodes[1].url)).what
