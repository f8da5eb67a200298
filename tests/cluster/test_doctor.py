"""What the doctor says of a Cluster's nodes that are away, or whose clocks differ."""

from __future__ import annotations

import pytest

from tests.support.clock_shim import Clock
from tests.support.cluster import Cluster
from tests.support.doctor import examine
from tests.support.processes import wait_until
from tests.support.servers import Binary
from ttlproxy.operations.doctor import Finding

pytestmark = pytest.mark.slow  # nodes tell each other once a second

_PROMPT = ("--cluster-node-timeout", "1000", "--cluster-require-full-coverage", "no")


def _found(cluster: Cluster, check: str) -> list[Finding]:
    return [each for each in examine(cluster.nodes[0].url, sample=10) if each.check == check]


def test_nodes_that_cannot_be_reached_are_named(binary: Binary) -> None:
    with Cluster(binary, nodes=4, masters=3, config=_PROMPT) as cluster:
        cluster.nodes[3].kill()
        other = f"other nodes cannot reach 127.0.0.1:{cluster.nodes[3].port}"
        wait_until(lambda: [each.what for each in _found(cluster, "nodes")] == [other], "told")
        cluster.nodes[2].kill()
        (away,) = _found(cluster, "connection")
        assert away.what.startswith(f"127.0.0.1:{cluster.nodes[2].port}: ")
        assert str(away.severity) == "error"


def test_clocks_that_differ_are_told(binary: Binary, clock: Clock) -> None:
    with Cluster(binary, nodes=2, masters=2, config=_PROMPT) as cluster:
        assert _found(cluster, "clocks") == []
        ahead = cluster.nodes[1]
        ahead.kill()
        ahead.env = clock.env
        ahead.restart()
        clock.jump(60_500)
        (told,) = _found(cluster, "clocks")
        assert str(told.severity) == "warning"
        assert told.what.startswith("the masters' clocks differ by 60")
