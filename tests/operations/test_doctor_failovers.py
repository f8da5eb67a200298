"""What the doctor says of failovers in a Cluster, by what its masters tell."""

from __future__ import annotations

import pytest

from ttlproxy.core.topology import ClusterNode, cluster_nodes
from ttlproxy.operations.doctor.cluster import MasterFacts, failover

IDS = {name: name * 40 for name in "abcd"}


def _told(*replicas: tuple[str, str, str]) -> list[ClusterNode]:
    """Masters a and b, and (name, flags, master) for each replica."""
    lines = [
        f"{IDS['a']} 10.0.0.1:6379@16379 myself,master - 0 0 1 connected 0-8191",
        f"{IDS['b']} 10.0.0.2:6379@16379 master - 0 0 2 connected 8192-16383",
    ]
    for at, (name, flags, master) in enumerate(replicas, 3):
        address = f"10.0.0.{at}:6379@16379"
        lines.append(f"{IDS[name]} {address} {flags} {IDS[master]} 0 0 1 connected")
    return cluster_nodes("\n".join(lines))


def _master(name: str, online: int, nodes: list[ClusterNode]) -> MasterFacts:
    address = f"10.0.0.{' ab'.index(name)}:6379"
    return MasterFacts(address, IDS[name], nodes, online=online)


BOTH = (("c", "slave", "a"), ("d", "slave", "b"))


@pytest.mark.parametrize(
    ("a", "b", "replicas", "found"),
    [
        (1, 1, BOTH, []),
        (0, 0, (), [("info", "no master has a replica: 10.0.0.1:6379, 10.0.0.2:6379")]),
        (
            1,
            0,
            (BOTH[0], ("d", "slave,fail", "b")),
            [("warning", "1 master has no replica that can be reached: 10.0.0.2:6379")],
        ),
        (
            0,
            1,
            BOTH,
            [("warning", "10.0.0.1:6379 sends its writes to 0 of 1 replica: 10.0.0.3:6379")],
        ),
    ],
)
def test_replicas_that_cannot_take_over_are_told(
    a: int,
    b: int,
    replicas: tuple[tuple[str, str, str], ...],
    found: list[tuple[str, str]],
) -> None:
    nodes = _told(*replicas)
    findings = failover([_master("a", a, nodes), _master("b", b, nodes)], nodes)
    assert [(str(each.severity), each.what) for each in findings] == found
