"""The nodes of a Cluster and their slots, as CLUSTER NODES tells them. Knows no connection.

Redis documents the format with the command; src/cluster.c, clusterGenNodeDescription writes it.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from ttlproxy.addresses import Address
from ttlproxy.core.keys import SLOTS

_SLOTS_AT: Final = 8
_SLOTS: Final = re.compile(r"(\d+)(?:-(\d+))?")
_UNREACHABLE: Final = frozenset({"fail", "noaddr", "handshake"})


class Node(NamedTuple):
    """
    id: its name in the Cluster; address: where clients reach it, with the host empty if the node
      that was asked does not know its own; flags: Redis's words, such as `master`
    master: the id of a replica's master, else empty; epoch: that of its slots
    slots: those that it owns; moving: how many of its slots are on the way from or to another node
    """

    id: str
    address: Address
    flags: frozenset[str]
    master: str
    epoch: int
    slots: tuple[range, ...]
    moving: int

    @property
    def is_asked(self) -> bool:
        """Whether it is the node that was asked."""
        return "myself" in self.flags

    @property
    def is_reachable(self) -> bool:
        """Whether the node that was asked takes it for alive; `fail?` is only a suspicion."""
        return self.flags.isdisjoint(_UNREACHABLE)

    @property
    def size(self) -> int:
        """How many slots it owns."""
        return sum(map(len, self.slots))


class Topology:
    """nodes: by id, in Redis's order."""

    def __init__(self, nodes: dict[str, Node]) -> None:
        self.nodes = nodes

    @classmethod
    def parse(cls, text: str) -> Topology:
        """The reply to CLUSTER NODES. Raises ValueError."""
        found = map(_node, filter(None, text.splitlines()))
        return cls({node.id: node for node in found})

    @property
    def asked(self) -> Node:
        """The node that was asked. Raises ValueError if there is none."""
        for node in self.nodes.values():
            if node.is_asked:
                return node
        raise ValueError("CLUSTER NODES names no node as the one that was asked")

    @property
    def masters(self) -> list[Node]:
        """Those that own slots."""
        return [node for node in self.nodes.values() if node.slots]

    @property
    def missing(self) -> int:
        """How many slots nobody owns."""
        return SLOTS - sum(node.size for node in self.nodes.values())

    def owners(self) -> list[Node | None]:
        """For each slot, the node that owns it."""
        found: list[Node | None] = [None] * SLOTS
        for node in self.nodes.values():
            for some in node.slots:
                found[some.start : some.stop] = [node] * len(some)
        return found


def _node(line: str) -> Node:
    words = line.split(" ")
    if len(words) < _SLOTS_AT:
        raise ValueError(f"a line of CLUSTER NODES is too short: {line!r}")
    name, where, flags, master, _, _, epoch, _, *slots = words
    return Node(
        name,
        _address(where),
        frozenset(flags.split(",")),
        master.strip("-"),
        int(epoch),
        tuple(_range(each) for each in slots if each and not each.startswith("[")),
        sum(each.startswith("[") for each in slots),
    )


def _address(text: str) -> Address:
    """`host:port@bus,name,...`: the name counts, if the node announces one (Redis 7.0)."""
    numeric, _, more = text.partition(",")
    host, _, port = numeric.partition("@")[0].rpartition(":")
    name = more.partition(",")[0]
    return Address(name if name and "=" not in name else host, int(port))


def _range(text: str) -> range:
    match = _SLOTS.fullmatch(text)
    if match is None:
        raise ValueError(f"CLUSTER NODES has no slots {text!r}")
    first, last = int(match[1]), int(match[2] or match[1])
    if not first <= last < SLOTS:
        raise ValueError(f"CLUSTER NODES has no slots {text!r}")
    return range(first, last + 1)
