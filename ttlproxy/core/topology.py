"""The answer of CLUSTER NODES about the node that was asked. Knows no connection.

Redis documents the format with the command; src/cluster.c, clusterGenNodeDescription writes it.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final, NamedTuple

from ttlproxy.core.keys import SLOTS

_SLOTS_AT: Final = 8
_SLOTS: Final = re.compile(r"(\d+)(?:-(\d+))?")


class Node(NamedTuple):
    """
    master: the id of a replica's master, else empty
    slots: how many it owns; moving: how many of its slots are on the way from or to another node
    """

    master: str
    slots: int
    moving: int


def asked_node(text: str) -> Node:
    """The node that was asked; `text`: the reply to CLUSTER NODES. Raises ValueError."""
    for line in text.splitlines():
        words = line.split(" ")
        if len(words) < _SLOTS_AT:
            raise ValueError(f"a line of CLUSTER NODES is too short: {line!r}")
        _, _, flags, master, *_ = words
        if "myself" in flags.split(","):
            slots = [each for each in words[_SLOTS_AT:] if each]
            owned = [each for each in slots if not each.startswith("[")]
            return Node(master.strip("-"), sum(map(_size, owned)), len(slots) - len(owned))
    raise ValueError("CLUSTER NODES names no node as the one that was asked")


def _size(text: str) -> int:
    """The number of these slots: they are one number, or the first and the last."""
    match = _SLOTS.fullmatch(text)
    first, last = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
    if not first <= last < SLOTS:
        raise ValueError(f"CLUSTER NODES has no slots {text!r}")
    return last - first + 1


class ClusterNode(NamedTuple):
    """A line of CLUSTER NODES.

    host, port: empty and 0 where nobody knows them; hostname: empty where it announces none
    epoch: of two masters that claim a slot, the one with the higher epoch has it
    master: the id of a replica's master, else empty
    """

    id: str
    host: str
    port: int
    hostname: str
    flags: frozenset[str]
    epoch: int
    slots: frozenset[int]
    master: str

    @property
    def myself(self) -> bool:
        """Whether it is the node that was asked."""
        return "myself" in self.flags

    @property
    def is_master(self) -> bool:
        """Whether it is a master that owns slots, as far as the node that was asked knows."""
        return "master" in self.flags and bool(self.slots)

    @property
    def is_there(self) -> bool:
        """Whether it may be reached."""
        return self.flags.isdisjoint(("noaddr", "handshake", "fail"))


def cluster_nodes(text: str) -> list[ClusterNode]:
    """The nodes that one of them knows; `text`: its reply to CLUSTER NODES. Raises ValueError."""
    return [_node(line.split(" ")) for line in text.splitlines() if line]


def _node(words: list[str]) -> ClusterNode:
    if len(words) < _SLOTS_AT:
        raise ValueError(f"a line of CLUSTER NODES is too short: {' '.join(words)!r}")
    name, address, flags, master, _, _, epoch, _ = words[:_SLOTS_AT]
    # Since Redis 7.0 a host name may follow, and then words such as shard-id=...
    place, hostname, *_ = [*address.split(","), ""]
    host, _, port = place.partition("@")[0].rpartition(":")
    slots = _slots(tuple(words[_SLOTS_AT:]))
    marks = frozenset(flags.split(","))
    return ClusterNode(name, host, int(port), hostname, marks, int(epoch), slots, master.strip("-"))


@lru_cache(maxsize=64)
def _slots(words: tuple[str, ...]) -> frozenset[int]:
    """Each master says it once a second, and mostly the same."""
    owned = [each for each in words if each and each[0] != "["]
    return frozenset(number for each in owned for number in _range(each))


def _range(text: str) -> range:
    first, _, last = text.partition("-")
    return range(int(first), int(last or first) + 1)
