"""The subcommands for operators, for a Cluster of one master."""

from __future__ import annotations

import pytest

from tests.conftest import StartProxy, StartServer, in_cluster_mode
from tests.operations.test_purge import purge
from tests.support.cluster import Node
from tests.support.redis_client import Client
from ttlproxy.core.keys import Keys

NAMES = Keys(clustered=True)
KEYS = [b"h:%d" % number for number in range(300)]


@pytest.fixture
def filled(node: Node, start_proxy: StartProxy) -> Node:
    """A Cluster whose proxy has stopped: 300 keys with deadlines, and a deferred command."""
    proxy = start_proxy(node.url)
    app = Client(proxy.port)
    assert app.ask("FLUSHALL") == b"OK"
    app.ask_many([("HSETEX", key, "EX", 100, "FIELDS", 1, "f", "v") for key in KEYS])
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


def test_a_purge_leaves_what_is_kept_and_notes_it_in_its_slot(filled: Node) -> None:
    assert filled.ask("RPUSH", NAMES.kept(b"k"), "a") == 1
    done = purge("--upstream", filled.url)
    assert "elements of 1 key still wait for TAKE" in done.stdout
    others = NAMES.shared_by(b"k", NAMES.others)
    assert filled.ask("SMEMBERS", others) == [NAMES.kept(b"k")]
    assert purge("--upstream", filled.url, "--force").returncode == 0
    assert sorted(filled.ask("KEYS", "*")) == sorted(KEYS)


def test_a_node_without_all_slots_is_not_purged(start_server: StartServer) -> None:
    done = purge("--upstream", in_cluster_mode(start_server).url)
    assert done.returncode == 1
    assert "it owns 0 of the 16384 slots" in done.stderr
