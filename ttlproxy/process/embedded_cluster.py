"""A Redis Cluster for users who have none: six embedded servers on this machine, for trials.

Knows processes and how nodes become a Cluster; knows no setting and no proxy.
"""

import asyncio
import socket
from contextlib import ExitStack, suppress
from itertools import combinations
from pathlib import Path

from redis.asyncio import Redis
from redis.exceptions import RedisError

from ttlproxy.core.keys import SLOTS
from ttlproxy.errors import EmbeddedError
from ttlproxy.process.embedded import KEPT, POLL_S, Embedded

HOST = "127.0.0.1"
MASTERS = 3
NODES = 6
_BUS = 10_000  # the port of a node's bus is higher than its own by this
_NODE_TIMEOUT_MS = 5000  # the time from the loss of a master to the promotion
_WELL = (b"cluster_state:ok", b"cluster_known_nodes:%d\r" % NODES)
_WELL_S = 60.0


class EmbeddedCluster:
    """Three masters and three replicas: `start` returns their URL, `wait` ends when all have ended,
    `stop` ends them.

    Their data is kept in data_dir/cluster, for the next start. Raises NoEmbeddedRedis if there is
    no server to run.
    """

    def __init__(self, data_dir: Path) -> None:
        self.data_dir = data_dir.absolute() / "cluster"
        self.ports = free_ports(NODES)
        self.servers = [
            Embedded(self.data_dir / f"node-{number}", _options(port))
            for number, port in enumerate(self.ports, 1)
        ]

    @property
    def description(self) -> list[str]:
        """Lines for people about what runs."""
        server = self.servers[0]
        return [
            f"in front of an embedded Redis Cluster: {server.binary.name} {server.version}",
            f"  binary  {server.binary}",
            f"  data    {self.data_dir}",
            *(
                f"  node    {HOST}:{port} (pid {node.pid})"
                for port, node in zip(self.ports, self.servers, strict=True)
            ),
            KEPT,
        ]

    async def start(self) -> str:
        """Starts the servers, waits until they are a Cluster, returns its URL. Raises
        EmbeddedError."""
        try:
            starts = (server.start() for server in self.servers)
            # The first error is raised after all have ended, so that each can be stopped.
            for result in await asyncio.gather(*starts, return_exceptions=True):
                if isinstance(result, BaseException):
                    raise result
            await self._connect()
        except BaseException:  # also a cancellation: no server must be left behind
            await self.stop()
            raise
        return "redis://" + ",".join(f"{HOST}:{port}" for port in self.ports)

    async def wait(self) -> int:
        """Waits until all servers have ended, as a Cluster lives on without one; returns the last
        code."""
        return (await asyncio.gather(*(server.wait() for server in self.servers)))[-1]

    async def stop(self) -> None:
        """Ends all servers."""
        await asyncio.gather(*(server.stop() for server in self.servers))

    async def _connect(self) -> None:
        nodes = [Redis(unix_socket_path=str(server.socket_path)) for server in self.servers]
        try:
            async with asyncio.timeout(_WELL_S):
                await self._make(nodes)
        except (RedisError, TimeoutError) as trouble:
            said = str(trouble) or f"not within {_WELL_S:.0f} seconds"
            raise EmbeddedError(f"the servers do not become a Cluster: {said}") from trouble
        finally:
            for node in nodes:
                await node.aclose()

    async def _make(self, nodes: list[Redis]) -> None:
        """Makes the nodes a Cluster. The file `made` exists once they have been one, with data that
        is kept."""
        made = self.data_dir / "made"
        is_new = not made.exists()
        if is_new:
            for node in nodes:
                await node.execute_command("CLUSTER", "RESET", "HARD")
            await _share_out(nodes[:MASTERS])
        # Each meets each other one: after a restart, the ports are new.
        for (port, _), (_, node) in combinations(zip(self.ports, nodes, strict=True), 2):
            await node.execute_command("CLUSTER", "MEET", HOST, port)
        if is_new:
            for number, node in enumerate(nodes[MASTERS:]):
                master = await nodes[number].execute_command("CLUSTER", "MYID")
                await _replicate(node, master)
        for node in nodes:
            await _until_well(node)
        made.touch()


def _options(port: int) -> dict[str, str]:
    return {
        "port": str(port),
        "bind": HOST,
        "cluster-enabled": "yes",
        "cluster-node-timeout": str(_NODE_TIMEOUT_MS),
    }


async def _share_out(masters: list[Redis]) -> None:
    """Gives each master a third of the slots, and an epoch of its own."""
    for number, node in enumerate(masters):
        await node.execute_command("CLUSTER", "SET-CONFIG-EPOCH", number + 1)
        slots = range(number * SLOTS // MASTERS, (number + 1) * SLOTS // MASTERS)
        await node.execute_command("CLUSTER", "ADDSLOTS", *slots)


async def _replicate(node: Redis, master: bytes) -> None:
    """Makes a node the replica of a master; asks again until the node has heard of the master."""
    while True:
        with suppress(RedisError):
            await node.execute_command("CLUSTER", "REPLICATE", master)
            return
        await asyncio.sleep(POLL_S)


async def _until_well(node: Redis) -> None:
    """Returns when the node serves, and has its master's data if it is a replica."""
    while True:
        about: bytes = await node.execute_command("CLUSTER", "INFO")
        link = (await node.info("replication")).get("master_link_status", "up")
        if all(word in about for word in _WELL) and link == "up":
            return
        await asyncio.sleep(POLL_S)


def free_ports(count: int) -> list[int]:
    """Returns ports of this machine that are free just now, as are those of their buses."""
    found: list[int] = []
    with ExitStack() as held:
        while len(found) < count:
            probe = held.enter_context(socket.socket())
            probe.bind((HOST, 0))
            port = probe.getsockname()[1]
            bus = held.enter_context(socket.socket())
            with suppress(OSError, OverflowError):
                bus.bind((HOST, port + _BUS))
                found.append(port)
    return found
