"""Nodes of a Redis Cluster on this machine, and slots that are on their way from one to another."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack, suppress
from time import monotonic
from typing import Any, Self

from redis.exceptions import RedisError

from tests.support.network import Network
from tests.support.processes import free_port, wait_until
from tests.support.redis_client import Client, Word
from tests.support.servers import Binary, Server
from ttlproxy.core.keys import SLOTS
from ttlproxy.core.topology import cluster_nodes

BUS = 10_000  # how much higher the port of a node's bus is than its own
_HIGHEST_PORT = 65_535
_GIVEN_UP_S = 7


class Node(Server):
    """One redis-server as a node of a Cluster."""

    def __init__(
        self,
        binary: Binary,
        *config: str,
        host: str = "127.0.0.1",
        prefix: Sequence[str] = (),
    ) -> None:
        # With a shorter timeout than Redis's own, nodes of a busy machine take each other for dead.
        super().__init__(binary, "--cluster-enabled", "yes", *config, host=host, prefix=prefix)
        self._elected_s = -float("inf")

    def start(self) -> Node:
        """Returns when the node serves."""
        while True:
            self.port = free_port()
            if self.port + BUS <= _HIGHEST_PORT and self._launch():
                self.client = Client(self.port, host=self.host)
                return self

    def move_away(self) -> None:
        """Kills it, and starts it from its folder at another port; it is the same node there."""
        self.kill()
        self.client.close()
        self.start()

    def ask(self, *words: Word) -> Any:
        return self.client.ask(*words)

    def promote(self, *how: str) -> None:
        """CLUSTER FAILOVER of a replica; asked for again where Redis has given it up after 5 s.

        Waits first while Redis would count its votes of before once more.
        """
        if how != ("TAKEOVER",):
            old = "old votes do not count any more"
            wait_until(lambda: not self.was_elected, old, self._votes_count_s + 1)
            self.note_elected()
        while self.ask("ROLE")[0] != b"master":
            assert self.ask("CLUSTER", "FAILOVER", *how) == b"OK"
            with suppress(TimeoutError):
                wait_until(lambda: self.ask("ROLE")[0] == b"master", "it is a master", _GIVEN_UP_S)

    @property
    def was_elected(self) -> bool:
        """Whether it has won an election so lately that Redis would take those votes for new ones:
        it would be a master with its old epoch, and the other one gets its slots back
        (redis/redis#8753)."""
        return monotonic() < self._elected_s + self._votes_count_s

    def note_elected(self) -> None:
        self._elected_s = monotonic()

    @property
    def _votes_count_s(self) -> float:
        """Four times the time after which a node is taken for dead, and the election itself."""
        timeout_ms: bytes = self.ask("CONFIG", "GET", "cluster-node-timeout")[1]
        return 4 * int(timeout_ms) / 1000 + _GIVEN_UP_S

    @property
    def id(self) -> bytes:
        name: bytes = self.ask("CLUSTER", "MYID")
        return name

    def remove(self) -> None:
        self.client.close()
        super().remove()


def told_by_all(node: Node) -> str:
    """What each node that this one knows says of the Cluster, for the message of a failure."""
    views: list[str] = []
    for each in cluster_nodes(node.ask("CLUSTER", "NODES").decode()):
        try:
            with Client(each.port, host=each.host) as client:
                told = client.ask("CLUSTER", "NODES").decode()
        except (RedisError, OSError) as trouble:
            told = f"{trouble}\n"
        views.append(f"{each.host}:{each.port} says:\n{told}")
    return "".join(views)


def until_known(slot: int, owner: Node, nodes: Sequence[Node]) -> None:
    """Returns when these nodes know whose slot it is, and since which epoch.

    A slot that moves on before has no owner for good, about once in a hundred times: its old
    master's claim has a higher epoch by then.
    """
    name = owner.id.decode()

    def agree() -> bool:
        told = [cluster_nodes(node.ask("CLUSTER", "NODES").decode()) for node in nodes]
        epochs = {node.epoch for known in told for node in known if node.id == name}
        owners = {node.id for known in told for node in known if slot in node.slots}
        return len(epochs) == 1 and owners == {name}

    wait_until(agree, "all nodes know who has the slot")


class Cluster:
    """Some nodes, of which the first owns all slots, or the first `masters` share them.

    A context manager; the nodes end with it.
    """

    def __init__(
        self,
        binary: Binary,
        nodes: int = 2,
        masters: int = 1,
        config: Sequence[str] = (),
        network: Network | None = None,
    ) -> None:
        """`config`: of each redis-server, in addition; `network`: has a place for each."""
        self._owned = ExitStack()
        self._network = network
        self.nodes = [self._node(binary, config, at) for at in range(nodes)]
        owner, *others = self.nodes
        for number, node in enumerate(self.nodes[:masters]):
            assert node.ask("CLUSTER", "SET-CONFIG-EPOCH", number + 1) == b"OK"
            slots = range(number * SLOTS // masters, (number + 1) * SLOTS // masters)
            assert node.ask("CLUSTER", "ADDSLOTS", *slots) == b"OK"
        for other in others:
            assert other.ask("CLUSTER", "MEET", owner.host, owner.port) == b"OK"
        wait_until(self._is_well, "all nodes know of all slots")

    def _node(self, binary: Binary, config: Sequence[str], at: int) -> Node:
        if self._network is None:
            node = Node(binary, *config).start()
        else:
            host, prefix = self._network.hosts[at], self._network.prefix(at)
            config = [*config, "--protected-mode", "no"]  # its address is no loopback's
            node = Node(binary, *config, host=host, prefix=prefix).start()
        self._owned.callback(node.remove)
        return node

    def _is_well(self) -> bool:
        infos = [node.ask("CLUSTER", "INFO") for node in self.nodes]
        known = b"known_nodes:%d" % len(self.nodes)
        return all(b"cluster_state:ok" in info and known in info for info in infos)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *trouble: object) -> None:
        self._owned.close()

    def replicate(self, masters: int = 1) -> None:
        """The other nodes become replicas of the first ones; returns when they have the data."""
        others = self.nodes[masters:]
        for number, other in enumerate(others):
            assert other.ask("CLUSTER", "REPLICATE", self.nodes[number % masters].id) == b"OK"
        wait_until(
            lambda: all(
                b"master_link_status:up" in other.ask("INFO", "replication") for other in others
            ),
            "the replicas have their master's data",
        )

    def move(self, slot: int, source: Node, target: Node) -> None:
        """Carries a slot over, with all its keys, as redis-cli does; returns when all nodes know.

        If it went on at once, an old claim that a node hears late could leave it without owner.
        """
        assert target.ask("CLUSTER", "SETSLOT", slot, "IMPORTING", source.id) == b"OK"
        assert source.ask("CLUSTER", "SETSLOT", slot, "MIGRATING", target.id) == b"OK"
        while names := source.ask("CLUSTER", "GETKEYSINSLOT", slot, 100):
            to: list[Word] = [target.host, target.port, "", 0, 5000, "KEYS"]
            reply = source.ask("MIGRATE", *to, *names)
            there = target.ask("CLUSTER", "GETKEYSINSLOT", slot, 100)
            told = f"{reply}: {names} to {there}\n{source.ask('CLUSTER', 'NODES')}"
            assert reply in (b"OK", b"NOKEY"), told
        for node in (target, source):
            assert node.ask("CLUSTER", "SETSLOT", slot, "NODE", target.id) == b"OK"
        until_known(slot, target, self.nodes)

    def flush(self) -> None:
        """Removes all keys, and holds no slot open any more."""
        for node in self.nodes:
            assert node.ask("FLUSHALL") == b"OK"

    def open_slot(self, slot: int) -> None:
        """The slot is from now on its way from the first node to the second."""
        owner, other = self.nodes
        assert other.ask("CLUSTER", "SETSLOT", slot, "IMPORTING", owner.id) == b"OK"
        assert owner.ask("CLUSTER", "SETSLOT", slot, "MIGRATING", other.id) == b"OK"

    def take_back(self, slot: int) -> None:
        """The slot is not on its way any more; the first node has it."""
        for node in self.nodes:
            assert node.ask("CLUSTER", "SETSLOT", slot, "STABLE") == b"OK"

    def carry_over(self, *names: bytes) -> None:
        """Moves these keys of an open slot to the second node."""
        owner, other = self.nodes
        to: list[Word] = [other.host, other.port, "", 0, 5000, "KEYS"]
        assert owner.ask("MIGRATE", *to, *names) == b"OK"

    def content(self) -> dict[tuple[int, bytes], tuple[bytes, int]]:
        """What each node holds: DUMP of each key, and which twenty seconds it ends in.

        By the number of the node and the name of the key.
        """
        found = {}
        for number, node in enumerate(self.nodes):
            for name in node.ask("KEYS", "*"):
                _, dump, _, left_ms = node.client.ask_many(
                    [("ASKING",), ("DUMP", name), ("ASKING",), ("PTTL", name)]
                )
                found[number, name] = (dump, left_ms // 20_000)
        return found
