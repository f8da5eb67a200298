"""Checks of the servers together: Sentinels, a Cluster's slots, clocks and nodes that are away, and
what a failover would lose.

Redis replicates asynchronously, so any failover may lose the last writes, except for CLUSTER
FAILOVER without FORCE and TAKEOVER, which waits until the replica has everything.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Final, NamedTuple

from redis.exceptions import RedisError

from ttlproxy.core.keys import SLOTS
from ttlproxy.core.text import counted
from ttlproxy.core.topology import ClusterNode, cluster_nodes
from ttlproxy.errors import UpstreamError
from ttlproxy.link import NodeOfSeveral, SentinelGroup, check_slots
from ttlproxy.link.connecting.known_server import unix_ms
from ttlproxy.net.tasks import cancel
from ttlproxy.operations.doctor.finding import INFO, WARNING, Finding, error, info, ok, warning
from ttlproxy.operations.doctor.target import Target

# A larger difference between the clocks of two masters is a finding.
_SKEW_MS: Final = 1000
_ASKED: Final[Sequence[Sequence[bytes]]] = ((b"CLUSTER", b"NODES"), (b"TIME",))


async def sentinels(target: Target) -> AsyncIterator[Finding]:
    """Checks that each Sentinel of the URL answers, and agrees with the others."""
    upstream, timeout_s = target.settings.upstream, target.settings.connect_timeout
    if upstream is None or upstream.sentinels is None:
        yield ok("no Sentinel is asked for the master")
        return
    asked = SentinelGroup(upstream, lambda: timeout_s)
    running = asyncio.create_task(asked.run(), name="doctor: Sentinels")
    try:
        await asked.until_asked(timeout_s)
    finally:
        await cancel(running)
    latest = asked.latest()
    master = latest and latest.address
    for each in asked.each:
        if each.answer is None:
            yield warning(
                f"the Sentinel at {each.address}: {each.trouble or 'no answer'}",
                "If the others are away as well, nobody learns of a failover.",
                "look whether it runs there, and at sentinel_user and sentinel_password",
            )
        elif each.answer.address != master:
            yield warning(
                f"the Sentinel at {each.address} says that the master is {each.answer.address},"
                f" and the latest to the others is {master}",
                "It is cut off from the others, or watches other servers under the same name.",
                "look at SENTINEL MASTERS and SENTINEL SENTINELS there",
            )


async def cluster(target: Target) -> AsyncIterator[Finding]:
    """Checks the slots of one node."""
    if not target.keys.clustered:
        return
    try:
        node = await check_slots(target.redis, all_of_them=False)
        if not node.slots:
            raise UpstreamError("it owns no slots of its Redis Cluster")
    except UpstreamError as unfit:
        yield error(
            str(unfit),
            "Requests for its keys fail.",
            "name all nodes of the Cluster in --upstream; redis-cli --cluster check",
        )
        return
    if node.moving:
        yield warning(
            f"{counted(node.moving, 'slot is', 'slots are')} on the way to another node",
            "Commands on keys there are refused until the move is over.",
            "redis-cli --cluster fix, or CLUSTER SETSLOT with the slot and STABLE",
        )
    else:
        said = "the only master" if node.slots == SLOTS else f"a master of {node.slots} slots"
        yield ok(f"the server is {said} of a Cluster")


class MasterFacts(NamedTuple):
    """Facts about one master, from its replies.

    shown, id: its address, and its id in the Cluster
    nodes: all nodes of the Cluster, as it knows them
    now_ms: its clock
    online: how many replicas have its data, and are sent what it writes
    is_strict: it serves no key while one slot has no master
    """

    shown: str
    id: str
    nodes: Sequence[ClusterNode]
    now_ms: int = 0
    online: int = 0
    is_strict: bool = False


async def master_facts(target: Target) -> MasterFacts | None:
    """Returns the facts of a master; None if it can no longer be reached, or refuses."""
    redis = target.redis
    assert isinstance(redis, NodeOfSeveral)
    try:
        text, time = await target.ask_each(0, _ASKED)
    except (RedisError, OSError):
        return None
    return MasterFacts(
        redis.shown,
        redis.node.id,
        cluster_nodes(text.decode(errors="replace")),
        unix_ms(time),
        sum(each.get("state") == "online" for each in target.replicas),
        target.config.get("cluster-require-full-coverage") == "yes",
    )


def of_cluster(masters: Sequence[MasterFacts]) -> Iterator[Finding]:
    """Returns the findings about all masters together."""
    nodes = [node for master in masters for node in master.nodes]
    owners = [node for node in nodes if node.is_master]
    if lost := SLOTS - len({number for node in owners for number in node.slots}):
        yield error(
            f"{counted(lost, 'slot has', 'slots have')} no master",
            "Requests for keys there fail.",
            "redis-cli --cluster fix",
            check="slots",
        )
    else:
        count = len({node.id for node in owners})
        yield ok(f"all slots have a master; there are {count}", check="slots")
    clocks_ms = [master.now_ms for master in masters] or [0]
    skew_ms = max(clocks_ms) - min(clocks_ms)
    if skew_ms > _SKEW_MS:
        yield warning(
            f"the masters' clocks differ by {skew_ms} ms",
            "After a slot has moved, or a replica was promoted, deadlines there pass earlier or"
            " later by that.",
            "synchronize the clocks of all nodes with NTP",
            check="clocks",
        )
    if strict := [master.shown for master in masters if master.is_strict]:
        yield info(
            f"cluster-require-full-coverage is on at {', '.join(strict)}",
            "While one slot has no master, requests for all keys fail there.",
            "CONFIG SET cluster-require-full-coverage no, if others should be served meanwhile",
            check="coverage",
        )
    if away := {f"{node.host}:{node.port}" for node in nodes if not node.is_there}:
        yield warning(
            f"other nodes cannot reach {', '.join(sorted(away))}",
            "If it is a replica, its master has one less to replace it.",
            "start it again, or CLUSTER FORGET its id at each node",
            check="nodes",
        )
    yield from failover(masters, nodes)


def failover(masters: Sequence[MasterFacts], nodes: Sequence[ClusterNode]) -> Iterator[Finding]:
    """Finds masters whose failover would lose writes: without a replica, or with one that is
    behind."""
    replicas: dict[str, set[str]] = {master.id: set() for master in masters}
    for node in nodes:
        if node.is_there and node.master in replicas:
            replicas[node.master].add(f"{node.host}:{node.port}")
    if alone := sorted(master.shown for master in masters if not replicas[master.id]):
        are_all = len(alone) == len(masters)
        some = f"{counted(len(alone), 'master has', 'masters have')} no replica that can be reached"
        yield Finding(
            INFO if are_all else WARNING,
            f"{'no master has a replica' if are_all else some}: {', '.join(alone)}",
            "Nobody can take over from it. Until it is back, requests for its slots fail; if its"
            " disk is lost, so are its elements and deadlines.",
            "redis-cli --cluster add-node NEW-HOST:PORT HOST:PORT --cluster-slave",
            check="failover",
        )
    # Replicas that others can reach, and to which the master sends nothing.
    for master in masters:
        if master.online < len(known := replicas[master.id]):
            yield warning(
                f"{master.shown} sends its writes to {master.online} of"
                f" {counted(len(known), 'replica')}: {', '.join(sorted(known))}",
                "A failover to one that gets none loses all that was written since, elements and"
                " deadlines alike. CLUSTER FAILOVER without FORCE and TAKEOVER waits until the"
                " replica has everything.",
                "look at master_link_status in INFO replication, and at masterauth, at the replica",
                check="failover",
            )
