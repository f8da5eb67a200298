"""The nodes that clients of a Cluster find: all of them are this proxy. Knows no connection.

By default there is one, with all slots. With `cluster_view nodes` each master is a node, at a port
of the proxy's own. Requests at any port are routed, so a client whose slot map is old does
not fail.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from itertools import groupby
from typing import Final, NamedTuple

from ttlproxy.addresses import Address
from ttlproxy.core.keys import SLOTS
from ttlproxy.core.topology import ClusterNode

# It stands for the id of the server that answers.
_OF_SERVER: Final = b"-"


class ClusterView:
    """The masters by the number of their port: 1 is the first behind that of `listen`, which is
    about the whole Cluster.

    Masters have the order of their last slots, as redis-cli takes a master's first slots away. So
    all proxies in front of a Cluster say the same, and a replica that is promoted is at the port of
    its master. If there are more masters than ports, they begin again with the first port. A slot
    that loses its master stays where it is until another has it.

    ports: how many there are; 0 if clients find one node
    """

    def __init__(self, ports: int) -> None:
        self.ports = ports
        self._owners: list[str] = [""] * SLOTS  # the masters' ids
        self._masters: list[list[str]] = [[] for _ in range(ports)]
        self._slots = [b" 0-%d" % (SLOTS - 1), *[b""] * (ports - 1)]

    @property
    def is_shared(self) -> bool:
        """Whether a port has more than one master."""
        return any(len(masters) > 1 for masters in self._masters)

    def masters_at(self, number: int) -> list[str]:
        """The ids of the masters at a port; empty if it is about the whole Cluster."""
        return self._masters[number - 1] if 0 < number <= self.ports else []

    def set_nodes(self, nodes: Iterable[ClusterNode]) -> None:
        """One of them names all. Its word counts for slots whose own master has said nothing."""
        if self.ports and "" in self._owners:
            masters = [node for node in nodes if node.is_master]
            self.follow(
                {
                    number: node.id
                    for node in masters
                    for number in node.slots
                    if not self._owners[number]
                }
            )

    def follow(self, owners: Mapping[int, str]) -> None:
        """`owners`: the id of the master, for each slot that has one."""
        if not self.ports or not owners:
            return
        for number, master in owners.items():
            self._owners[number] = master
        masters = [master for master in dict.fromkeys(reversed(self._owners)) if master][::-1]
        self._masters = [masters[first :: self.ports] for first in range(self.ports)]
        port_of = {master: at for at, own in enumerate(self._masters) for master in own}
        slots: list[list[bytes]] = [[] for _ in range(self.ports)]
        for at, numbers in groupby(range(SLOTS), lambda slot: port_of.get(self._owners[slot])):
            if at is not None:
                slots[at].append(_range(*numbers))
        self._slots = [b"".join(ranges) for ranges in slots]

    def nodes(self, listen: Address) -> dict[int, bytes]:
        """`id port slots...` for each port with a node, by its number.

        listen: the address of the port with number 0, as clients reach it
        """
        if not self.ports:
            return {0: b"%b %d%b" % (_OF_SERVER, listen.port, self._slots[0])}
        found = {}
        for number, slots in enumerate(self._slots, 1):
            port = listen.port + number
            if slots:
                found[number] = b"%b %d%b" % (_id(listen.host, port), port, slots)
        return found


class Reached(NamedTuple):
    """The port that a client has connected to, by its number.

    listen: the address of the port with number 0, as clients reach it
    """

    view: ClusterView
    listen: Address
    number: int

    def words(self) -> tuple[bytes, ...]:
        """The arguments of the script cluster_topology, behind what is asked for."""
        nodes = self.view.nodes(self.listen)
        mine = [*nodes].index(self.number) if self.number in nodes else 0
        return (self.listen.host.encode(), b"%d" % (mine + 1), *nodes.values())


def _range(first: int, *others: int) -> bytes:
    return b" %d-%d" % (first, others[-1]) if others else b" %d" % first


def _id(host: str, port: int) -> bytes:
    """The id of the node at this address, the same at each proxy that clients reach there."""
    return hashlib.sha1(f"{host}:{port}".encode()).hexdigest().encode()
