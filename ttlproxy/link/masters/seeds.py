"""Finds a node that tells of the Cluster: one of the URL, or another that was named before.

The nodes must be of one Cluster: two Clusters in a URL would both claim all slots, and while one is
away, the other would get its data.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable
from itertools import combinations
from typing import Final, NamedTuple

from redis.exceptions import RedisError

from ttlproxy.addresses import Address, Upstream
from ttlproxy.core.topology import ClusterNode
from ttlproxy.errors import UpstreamError
from ttlproxy.link.connecting.failures import cause
from ttlproxy.link.connecting.reachability import resolved
from ttlproxy.link.masters.master import nodes_told_by
from ttlproxy.net.tasks import cancel

# Once a node has told, the others of the URL have this time to tell of another Cluster.
_GRACE_S: Final = 0.2
_NO_SLOTS: Final = (
    "it owns no slots, and knows no node that does: it may have been reset or forgotten"
)
_NO_CLUSTER: Final = "it is no node of a Redis Cluster"
_ANOTHER: Final = "it is a node of another Redis Cluster than the one that is served"


class NodeAnswer(NamedTuple):
    """A node's answer.

    asked: the node, as it was named; server: the same, with a numeric address; nodes: what it knows
    """

    asked: Upstream
    server: Upstream
    nodes: list[ClusterNode]

    @property
    def ids(self) -> set[str]:
        return {node.id for node in self.nodes}


class Seeds:
    """Asks nodes of the URL, and others, which nodes the Cluster has.

    others: addresses of nodes that are not in the URL
    trouble: what the nodes say, if none tells
    """

    def __init__(self, upstream: Upstream, timeout_s: Callable[[], float]) -> None:
        self.others: Collection[Address] = ()
        self.trouble = ""
        self._upstream = upstream
        self._timeout_s = timeout_s
        self._seen: set[str] = set()  # addresses at which nodes of the served Cluster have told
        self._last: set[str] = set()  # the ids of all nodes, as told last
        self._said: dict[str, str] = {}
        self._apart: tuple[NodeAnswer, NodeAnswer] | None = None  # they have told of two Clusters

    async def find(self, known: set[str]) -> NodeAnswer | None:
        """Returns the answer of one of the nodes; `known`: the ids of the masters that are served.

        The answer has none of these ids only if another Cluster is at an address of the served one
        now, and no other node tells of the served one. None if no node tells.
        """
        self._said, found = {}, list[NodeAnswer]()
        upstream = self._upstream
        named = [upstream.at(each) for each in upstream.addresses] or [upstream]
        others = [upstream.at(each) for each in self.others if each not in upstream.addresses]
        known = known or self._last
        for servers in (named, others):
            found += await self._ask(servers)
            fit = _served(found, known) if known else self._first(found)
            if fit is not None:
                return self._believed(fit)
        fit = self._made_anew(found) if known else None
        if fit is not None:
            return self._believed(fit)
        self.trouble = "; ".join(f"{address}: {said}" for address, said in self._said.items())
        return None

    def _believed(self, told: NodeAnswer) -> NodeAnswer:
        self._seen.add(told.asked.address)
        self._last = told.ids
        self.trouble = ""
        return told

    async def _ask(self, servers: Iterable[Upstream]) -> list[NodeAnswer]:
        """Returns their answers, in their order; without those that come late after the first."""
        asking = [asyncio.create_task(self._told_by(server)) for server in servers]
        pending, limit_s = set(asking), None
        try:
            while pending:
                done, pending = await asyncio.wait(
                    pending, timeout=limit_s, return_when=asyncio.FIRST_COMPLETED
                )
                if not done:
                    break
                if any(each.result() is not None for each in done):
                    limit_s = _GRACE_S
        finally:
            await cancel(*pending)
        told = [each.result() for each in asking if each not in pending]
        return [each for each in told if each is not None]

    async def _told_by(self, asked: Upstream) -> NodeAnswer | None:
        timeout_s = self._timeout_s()
        try:
            server = await resolved(asked, timeout_s)
            nodes = await nodes_told_by(server, timeout_s)
        except (RedisError, OSError, UpstreamError, ValueError) as trouble:
            is_none = "cluster support disabled" in str(trouble)
            said = str(trouble if isinstance(trouble, ValueError) else cause(trouble))
            self._said[asked.address] = _NO_CLUSTER if is_none else said
            return None
        if not any(node.is_master for node in nodes):
            self._said[asked.address] = _NO_SLOTS
            return None
        return NodeAnswer(asked, server, nodes)

    def _first(self, found: list[NodeAnswer]) -> NodeAnswer | None:
        """Returns the first answer, if all tell of one Cluster; else None."""
        for first, other in combinations(found, 2):
            if first.ids.isdisjoint(other.ids):
                self._apart = first, other
        if self._apart is None or any(_joins(each, *self._apart) for each in found):
            self._apart = None
            return found[0] if found else None
        first, other = self._apart
        self._said[other.asked.address] = (
            f"it is a node of another Redis Cluster than {first.asked.address}: the URL must name"
            " nodes of one"
        )
        return None

    def _made_anew(self, found: list[NodeAnswer]) -> NodeAnswer | None:
        """Returns the first answer from an address of the served Cluster, of which none tells any
        more."""
        for each in found:
            if each.asked.address in self._seen:
                return each
            self._said[each.asked.address] = _ANOTHER
        return None


def _served(found: list[NodeAnswer], known: set[str]) -> NodeAnswer | None:
    """Returns the first answer that tells of the served Cluster; None if none does."""
    return next((each for each in found if not known.isdisjoint(each.ids)), None)


def _joins(told: NodeAnswer, one: NodeAnswer, other: NodeAnswer) -> bool:
    """Whether two Clusters have become one."""
    return not (told.ids.isdisjoint(one.ids) or told.ids.isdisjoint(other.ids))
