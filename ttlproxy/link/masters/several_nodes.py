"""Connects to each master of a Cluster once, for a caller such as the doctor."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from redis.asyncio import Redis

from ttlproxy.addresses import Upstream
from ttlproxy.core.keys import slot
from ttlproxy.core.topology import ClusterNode
from ttlproxy.link.connecting.connections import client, close
from ttlproxy.link.connecting.known_server import fields
from ttlproxy.link.connecting.pipeline import RoutingRedis, Words, ask_once, valid
from ttlproxy.link.connecting.reachability import endpoints
from ttlproxy.link.masters.master import nodes_told_by
from ttlproxy.link.server.compatibility import is_clustered

# Requests that are about a node, or whose first argument is no key.
_KEYLESS: Final = frozenset(
    b"ACL CLIENT CLUSTER COMMAND CONFIG DBSIZE HELLO INFO MEMORY PING PUBLISH PUBSUB ROLE SCAN"
    b" SCRIPT SELECT SLOWLOG TIME WAIT".split()
)
_AROUND: Final = b"MULTI EXEC DISCARD".split()
_SCRIPTS: Final = frozenset(b"EVAL EVALSHA EVAL_RO EVALSHA_RO".split())


class NodeOfSeveral(RoutingRedis):
    """One of several masters.

    shown: its address; node: the node of the Cluster that it is
    plain: a connection whose requests all go to this node; masters: all, this one too
    """

    def __init__(self, upstream: Upstream, node: ClusterNode, name: str, timeout_s: float) -> None:
        super().__init__(connection_pool=client(upstream, name, timeout_s).connection_pool)
        self.auto_close_connection_pool = True
        self.shown = upstream.address
        self.node = node
        self.plain = client(upstream, name, timeout_s)
        self.masters: Sequence[NodeOfSeveral] = [self]
        self._in_transaction = False

    def node_of(self, words: Words) -> Redis:
        if words[0] in _AROUND:
            self._in_transaction = words[0] == _AROUND[0]
            return self.plain
        key = None if self._in_transaction else _key(words)
        number = None if key is None else slot(key)
        owners = (each.plain for each in self.masters if number in each.node.slots)
        return next(owners, self.plain)

    @property
    def owned(self) -> Collection[int]:
        return self.node.slots


async def several_masters(server: Upstream, name: str, timeout_s: float) -> list[NodeOfSeveral]:
    """Returns a connection to each master of the server's Cluster; none if there is only one, or no
    Cluster.

    Raises redis-py's RedisError, OSError, UpstreamError or ValueError.
    """
    (said,) = await ask_once(server, name, timeout_s, (b"INFO", b"cluster"))
    if not is_clustered(fields(valid(said))):
        return []
    nodes = await nodes_told_by(server, timeout_s)
    masters = sorted((node for node in nodes if node.is_master), key=lambda node: min(node.slots))
    if len(masters) < 2:
        return []
    places = await endpoints(server, masters, timeout_s)
    found = [NodeOfSeveral(server.at(places[node.id]), node, name, timeout_s) for node in masters]
    for redis in found:
        redis.masters = found
    return found


async def close_all(masters: Sequence[NodeOfSeveral]) -> None:
    await close(*masters, *(each.plain for each in masters))


def _key(words: Words) -> bytes | None:
    """Returns the first key of a request; None if it has none."""
    name = words[0].upper() if isinstance(words[0], bytes) else b""
    if name in _KEYLESS or len(words) < 2:
        return None
    if name in _SCRIPTS:
        has_key = len(words) > 3 and words[2] not in (0, b"0")
        return words[3] if has_key and isinstance(words[3], bytes) else None
    return words[1] if isinstance(words[1], bytes) else None
