"""The topology of a Cluster as clients see it: all nodes are the proxy (core/cluster_view.py).

A client that knew the real nodes would go past the proxy.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ttlproxy.commands.model.spec import Call, Survey

_ASKED: Final = frozenset({b"MYID", b"NODES", b"SHARDS", b"SLOTS"})


_OF_A_NODE: Final = frozenset({b"REPLICAS", b"SLAVES"})


def _plan(args: Sequence[bytes]) -> Call | None:
    word = args[1].upper() if len(args) > 1 else b""
    if len(args) == 2 and word in _ASKED:
        return Call("cluster_topology", (), (word.lower(),))
    if len(args) == 3 and word in _OF_A_NODE:
        return Call("cluster_topology", (), (b"replicas " + args[2],))
    return None


def _plan_scan(args: Sequence[bytes]) -> Call:
    return Call("cluster_scan", args[1:2], args[2:])


SURVEYS = (
    Survey(name="CLUSTER", plan=_plan, of_proxy=True),
    Survey(name="CLUSTERSCAN", plan=_plan_scan, of_keys=True),
)
