"""Where the nodes of a Cluster are to be reached, as the Cluster tells its clients."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from redis.exceptions import RedisError

from ttlproxy.addresses import Address, Upstream
from ttlproxy.core.topology import ClusterNode
from ttlproxy.link.connecting.connections import client, close
from ttlproxy.link.connecting.pipeline import error, run, valid
from ttlproxy.net.time_limit import time_limit

# Of the node that was reached through a unix socket.
_HERE: Final = "127.0.0.1"
# An endpoint of CLUSTER SLOTS that must be a host name, of a node that announces none.
_NONE: Final = "?"


async def endpoints(
    server: Upstream, nodes: Iterable[ClusterNode], timeout_s: float
) -> dict[str, Address]:
    """The addresses of these nodes by their ids; `server` has told of them.

    CLUSTER SLOTS knows which the nodes want clients to use: see cluster-preferred-endpoint-type.
    """
    preferred = await _preferred(server, timeout_s)
    asked = Address(server.host or _HERE, server.port)
    return {node.id: _endpoint(node, preferred, asked, tls=server.tls) for node in nodes}


async def _preferred(server: Upstream, timeout_s: float) -> Mapping[str, str]:
    """The hosts that CLUSTER SLOTS names, by the ids of the nodes; empty for that of `server`."""
    redis = client(server, "ttlproxy:slots", timeout_s)
    try:
        async with time_limit(timeout_s):
            (reply,) = await run(redis, [(0, (b"CLUSTER", b"SLOTS"))])
    except (RedisError, OSError):
        return {}
    finally:
        await close(redis)
    if error(reply):  # we may not ask
        return {}
    told = [node for _, _, *nodes in valid(reply) for node in nodes]
    return {name.decode(): (host or b"").decode() for host, _, name, *_ in told}


def _endpoint(
    node: ClusterNode, preferred: Mapping[str, str], asked: Address, *, tls: bool
) -> Address:
    """Certificates are for names, so a host name is taken with TLS if nothing is preferred."""
    own = (node.hostname if tls else "") or node.host
    host = preferred.get(node.id, own)
    port = asked.port if node.myself and not node.port else node.port
    return Address((node.host if host == _NONE else host) or asked.host, port)
