"""Six servers of a Cluster, three of them replicas, and two proxies in front of them. Knows how to
ask each without the proxies; knows no trouble and no client."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from typing import Any, NamedTuple

from redis.exceptions import RedisError

from tests.chaos.history import Excuses, ServersClock, Window
from tests.chaos.system import Log, machine_ms
from tests.support.cluster import BUS, Cluster, Node
from tests.support.network import Network
from tests.support.network_path import NetworkPath
from tests.support.processes import attempts, wait_until
from tests.support.redis_client import Client, Word
from tests.support.servers import Binary, Proxy
from ttlproxy.core.keys import SLOTS, Keys, slot
from ttlproxy.core.topology import ClusterNode, cluster_nodes

PROXIES = 2
_MASTERS = 3
NODES = 2 * _MASTERS
# The slots with keys: the first ones of each master, as they are the first that redis-cli moves.
_SLOTS_OF_A_MASTER = 4
_PATIENCE_S = 120.0
# The default of --hold-max.
_HOLD_MAX_S = 5.0
_KEYS = Keys(clustered=True)


class Away(NamedTuple):
    """A time in which masters may not have answered as they should.

    slots: of these masters; loses: what was acknowledged then may be lost
    """

    begun_ms: float
    ended_ms: float
    slots: Collection[int]
    loses: bool


class ClusterSystem:
    """The processes of a run. `with` starts and ends them.

    aways: when masters were in trouble; lags_ms: how far a replica may have been behind then
    evicting: when a master lacked memory
    relays: in front of each node, unless these are in a network of their own
    is_cautious: acknowledged writes may be lost soon
    """

    lags_ms = 1000.0

    def __init__(
        self,
        binary: Binary,
        log: Log,
        timeout_ms: int,
        *,
        forked: bool,
        network: Network | None = None,
    ) -> None:
        """`timeout_ms`: after which nodes take one of them for dead; `network`: where they are."""
        self.network = network
        self.log = log
        self.clock = ServersClock()
        self.aways: list[Away] = []
        self.evicting: list[Window] = []
        self.is_cautious = False
        self.proxies: list[Proxy] = []
        self.relays: list[NetworkPath] = []
        self.words = [
            _KEYS.word(number * SLOTS // _MASTERS + at).decode()
            for at in range(_SLOTS_OF_A_MASTER)
            for number in range(_MASTERS)
        ]
        self._binary = binary
        self._config = ("--cluster-node-timeout", str(timeout_ms))
        self._forked = forked
        self._stack = ExitStack()

    def __enter__(self) -> ClusterSystem:
        with ExitStack() as failed:
            failed.callback(self._stack.close)
            cluster = Cluster(self._binary, NODES, _MASTERS, self._config, network=self.network)
            self._stack.enter_context(cluster)
            self.nodes = cluster.nodes
            cluster.replicate(_MASTERS)
            if self.network is None:  # from another network nobody reaches a relay
                self._put_far()
            url = "redis://" + ",".join(f"{node.host}:{node.port}" for node in self.nodes)
            for _ in range(PROXIES):
                proxy = Proxy(url, "--drain-max", "1", forked=self._forked)
                self._stack.callback(proxy.remove)
                self.proxies.append(proxy.start())
            self.until_settled()
            failed.pop_all()
        return self

    def __exit__(self, *trouble: object) -> None:
        self._stack.close()

    def _put_far(self) -> None:
        """Each node names a relay as its port, so proxies and replicas reach it through that."""
        for node in self.nodes:
            self.relays.append(self._stack.enter_context(NetworkPath(node.port)))
            self.announce(node)
        ports = {relay.port for relay in self.relays}

        def is_known() -> bool:
            return all({each.port for each in self.view(node)} == ports for node in self.nodes)

        wait_until(is_known, "all nodes know the relays", _PATIENCE_S)

    def announce(self, node: Node) -> None:
        """After its start."""
        for relay in self.relays:
            if relay.target == node.port:
                self.ask(node, "CONFIG", "SET", "cluster-announce-bus-port", node.port + BUS)
                self.ask(node, "CONFIG", "SET", "cluster-announce-port", relay.port)

    def delay(self, least_ms: float, most_ms: float) -> None:
        """From now on each way of each connection to a node has a delay of its own."""
        for relay in self.relays:
            relay.delay(least_ms / 1000, most_ms / 1000)

    @property
    def now_ms(self) -> float:
        """What the servers' clock shows, too."""
        return machine_ms()

    @property
    def has_shard_channels(self) -> bool:
        """From Redis 7.0 on."""
        return isinstance(self.ask(self.nodes[0], "PUBSUB", "SHARDCHANNELS"), list)

    @property
    def slots(self) -> list[int]:
        """Those with keys."""
        return [slot(word.encode()) for word in self.words]

    def excuses_of(self, key: str) -> Excuses:
        """What the troubles explain about the key."""
        here = [away for away in self.aways if slot(key.encode()) in away.slots]
        kept = [(away.begun_ms, away.ended_ms) for away in here if not away.loses]
        lost = [(away.begun_ms - self.lags_ms, away.ended_ms) for away in here if away.loses]
        return Excuses(late=kept, lagging=[*kept], rewound=lost, evicting=self.evicting)

    # The servers, without the proxies.

    def ask(self, node: Node, *words: Word) -> Any:
        """The reply; an error is returned as an exception. Raises redis-py's connection errors."""
        with Client(node.port, host=node.host) as client:
            return client.ask(*words)

    def at_owner(self, number: int, *words: Word) -> Any:
        """The reply of the slot's master."""
        return self.ask(self.owner(number), *words)

    def at_redis(self, key: str, *words: Word) -> Any:
        """The reply of the key's master."""
        return self.at_owner(slot(key.encode()), *words)

    def view(self, node: Node) -> list[ClusterNode]:
        return cluster_nodes(self.ask(node, "CLUSTER", "NODES").decode())

    def me(self, node: Node) -> ClusterNode:
        """What a node says of itself."""
        return next(each for each in self.view(node) if each.myself)

    @property
    def masters(self) -> list[Node]:
        return [node for node in self.nodes if self.me(node).is_master]

    def owner(self, number: int) -> Node:
        return next(node for node in self.nodes if number in self.me(node).slots)

    def replica_of(self, master: Node) -> Node:
        """One of its replicas."""
        role = self.ask(master, "ROLE")
        at = (role[2][0][0].decode(), int(role[2][0][1]))
        return next(node for node in self.nodes if (node.host, node.port) == at)

    def until_settled(self) -> None:
        """Returns when all nodes agree, each master has a replica, and each proxy serves all slots
        from their masters."""
        self.until_agreed()
        for number in self.slots:
            for proxy in self.proxies:
                self._until_served(proxy, number)

    def until_agreed(self) -> None:
        """Returns when all nodes agree, and each master has a replica.

        A slot that all of them have lost gets a master again. Redis 7.0 can lose one that has
        moved just before its new master fails; the proxies have no part in it.
        """
        for _ in attempts(_PATIENCE_S, "a Cluster that is well"):
            with suppress(RedisError, OSError):
                told = [self.view(node) for node in self.nodes]
                if self._is_calm(told):
                    lost = set(range(SLOTS)).difference(*(each.slots for each in told[0]))
                    if not lost:
                        return
                    for number in lost:
                        self._adopt(number)

    def _is_calm(self, told: Sequence[Sequence[ClusterNode]]) -> bool:
        """Whether all nodes say the same, and no master or replica is missing."""
        owners = {
            tuple(sorted((each.id, each.slots, each.epoch) for each in nodes if each.slots))
            for nodes in told
        }
        is_calm = all(
            each.flags.isdisjoint(("fail", "fail?", "handshake"))
            for nodes in told
            for each in nodes
        )
        mine = [next(each for each in nodes if each.myself) for nodes in told]
        return (
            len(owners) == 1
            and is_calm
            and all(map(_knows_replicas, told))
            and sum(bool(each.slots) for each in mine) == _MASTERS
            and all(self._has_data(node) for node in self.nodes)
        )

    def _adopt(self, number: int) -> None:
        """Gives a slot that nobody owns to the master that has most keys of it."""
        self.log("slot lost by the servers", slot=number)

        def keys(node: Node) -> int:
            return int(self.ask(node, "CLUSTER", "COUNTKEYSINSLOT", number))

        self.ask(max(self.masters, key=keys), "CLUSTER", "ADDSLOTS", number)

    def _has_data(self, node: Node) -> bool:
        """Whether it is a master with a replica, or has its master's data."""
        role = self.ask(node, "ROLE")
        return bool(role[2]) if role[0] == b"master" else role[3] == b"connected"

    def _until_served(self, proxy: Proxy, number: int) -> None:
        key, nonce = f"probe:{{{_KEYS.word(number).decode()}}}", f"{machine_ms()}"
        for _ in attempts(_PATIENCE_S, f"slot {number} is served"):
            with suppress(RedisError, OSError), Client(proxy.port) as client:
                is_served = client.ask("SET", key, nonce) == b"OK"
                if is_served and self.at_owner(number, "GET", key) == nonce.encode():
                    client.ask("DEL", key)
                    return

    @contextmanager
    def on_its_way(self, number: int) -> Iterator[None]:
        """A slot moves. If that takes longer than proxies hold requests, on a busy machine, clients
        may be refused."""
        begun_ms = machine_ms()
        yield
        if (ended_ms := machine_ms()) - begun_ms > _HOLD_MAX_S * 1000:
            self.aways.append(Away(begun_ms, ended_ms + _HOLD_MAX_S * 1000, [number], loses=False))

    @contextmanager
    def away(self, slots: Collection[int], *, loses: bool) -> Iterator[None]:
        """A master with these slots is in trouble: notes for how long."""
        at = len(self.aways)
        self.aways.append(Away(machine_ms(), math.inf, slots, loses))
        try:
            yield
        finally:
            self.aways[at] = self.aways[at]._replace(ended_ms=machine_ms())


def tags(words: Sequence[str]) -> list[str]:
    """Words as hash tags."""
    return [f"{{{word}}}" for word in words]


def _knows_replicas(view: Sequence[ClusterNode]) -> bool:
    """Whether a node takes none without slots for a master: it would not vote for such a one, and
    after an election that is lost Redis makes no other for four times the timeout."""
    return all(each.slots or each.master for each in view)
