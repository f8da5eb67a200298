"""The topology of a Cluster as clients see it: the proxy is the one node, and owns all slots.

A client that knew the real nodes would go past the proxy.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ttlproxy.commands.model.spec import Call, Survey

_ASKED: Final = frozenset({b"NODES", b"SHARDS", b"SLOTS"})


def _plan(args: Sequence[bytes]) -> Call | None:
    word = args[1].upper() if len(args) == 2 else b""
    return Call("cluster_topology", (), (word.lower(),)) if word in _ASKED else None


SURVEYS = (Survey(name="CLUSTER", plan=_plan, of_proxy=True),)
