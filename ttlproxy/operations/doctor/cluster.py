"""Checks of a Cluster: its slots, clocks and settings, nodes that are away, and what a failover
would lose.

Redis replicates asynchronously, so any failover may lose the last writes, except for CLUSTER
FAILOVER without FORCE and TAKEOVER, which waits until the replica has everything.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from redis.exceptions import RedisError

from ttlproxy.core.counted import counted
from ttlproxy.core.keys import SLOTS
from ttlproxy.core.topology import ClusterNode, cluster_nodes
from ttlproxy.link import NodeOfSeveral
from ttlproxy.link.connecting.known_server import unix_ms
from ttlproxy.operations.doctor.finding import ERROR, INFO, OK, WARNING, Finding
from ttlproxy.operations.doctor.target import Target

# A larger difference between the clocks of two masters is a finding.
_SKEW_MS: Final = 1000
_ASKED: Final[Sequence[Sequence[bytes]]] = ((b"CLUSTER", b"NODES"), (b"TIME",))


class MasterFacts(NamedTuple):
    """Facts about one master, from its replies.

    shown, id: its address, and its id in the Cluster
    nodes: all nodes of the Cluster, as it knows them
    now_ms: its clock
    online: how many replicas have its data, and are sent what it writes
    is_strict: whether it serves no key while one slot has no master
    any_age: whether its replicas may be promoted with data of any age
    """

    shown: str
    id: str
    nodes: Sequence[ClusterNode]
    now_ms: int = 0
    online: int = 0
    is_strict: bool = False
    any_age: bool = False


async def master_facts(target: Target) -> MasterFacts | None:
    """Returns the facts of a master; None if it can no longer be reached, or refuses."""
    redis, config = target.redis, target.config
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
        config.get("cluster-require-full-coverage") == "yes",
        # The setting has had two names; with 0 a replica is promoted however old its data is.
        any(config.get(f"cluster-{name}-validity-factor") == "0" for name in ("replica", "slave")),
    )


def of_cluster(masters: Sequence[MasterFacts]) -> list[Finding]:
    """Returns the findings about all masters together."""
    checks = {
        "slots": _slots,
        "clocks": _clocks,
        "coverage": _coverage,
        "nodes": _nodes,
        "failover": failover,
    }
    return [replace(each, check=name) for name, find in checks.items() for each in find(masters)]


def _told(masters: Sequence[MasterFacts]) -> Iterator[ClusterNode]:
    return (node for master in masters for node in master.nodes)


def _slots(masters: Sequence[MasterFacts]) -> Iterator[Finding]:
    nodes = [node for node in _told(masters) if node.is_master]
    if lost := SLOTS - len({number for node in nodes for number in node.slots}):
        yield Finding(
            ERROR,
            f"{counted(lost, 'slot has', 'slots have')} no master",
            "Requests for keys there fail.",
            "redis-cli --cluster fix",
        )
    else:
        count = len({node.id for node in nodes})
        yield Finding(OK, f"all slots have a master; there are {count}")


def _clocks(masters: Sequence[MasterFacts]) -> Iterator[Finding]:
    clocks_ms = [master.now_ms for master in masters] or [0]
    said = f"the masters' clocks differ by {max(clocks_ms) - min(clocks_ms)} ms"
    if max(clocks_ms) - min(clocks_ms) <= _SKEW_MS:
        yield Finding(OK, f"{said} at most")
    else:
        yield Finding(
            WARNING,
            said,
            "After a slot has moved, or a replica was promoted, deadlines there pass earlier or"
            " later by that.",
            "synchronize the clocks of all nodes with NTP",
        )


def _coverage(masters: Sequence[MasterFacts]) -> Iterator[Finding]:
    if strict := [master.shown for master in masters if master.is_strict]:
        yield Finding(
            INFO,
            f"cluster-require-full-coverage is on at {', '.join(strict)}",
            "While one slot has no master, requests for all keys fail there.",
            "CONFIG SET cluster-require-full-coverage no, if others should be served meanwhile",
        )


def _nodes(masters: Sequence[MasterFacts]) -> Iterator[Finding]:
    lost = {f"{node.host}:{node.port}" for node in _told(masters) if not node.is_there}
    if lost:
        yield Finding(
            WARNING,
            f"other nodes cannot reach {', '.join(sorted(lost))}",
            "If it is a replica, its master has one less to replace it.",
            "start it again, or CLUSTER FORGET its id at each node",
        )


def failover(masters: Sequence[MasterFacts]) -> Iterator[Finding]:
    """Finds masters whose failover would lose writes: without a replica, or with one that lags."""
    replicas: dict[str, set[str]] = {master.id: set() for master in masters}
    for node in _told(masters):
        if node.is_there and node.master in replicas:
            replicas[node.master].add(f"{node.host}:{node.port}")
    found = list(_at_risk(masters, replicas))
    count = sum(map(len, replicas.values()))
    yield from found or [Finding(OK, f"each master has a replica; there are {count}")]


def _at_risk(masters: Sequence[MasterFacts], replicas: Mapping[str, set[str]]) -> Iterator[Finding]:
    if alone := sorted(master.shown for master in masters if not replicas[master.id]):
        are_all = len(alone) == len(masters)
        some = f"{counted(len(alone), 'master has', 'masters have')} no replica that can be reached"
        yield Finding(
            INFO if are_all else WARNING,
            f"{'no master has a replica' if are_all else some}: {', '.join(alone)}",
            "Nobody can take over from it. Until it is back, requests for its slots fail; if its"
            " disk is lost, so are its elements and deadlines.",
            "redis-cli --cluster add-node NEW-HOST:PORT HOST:PORT --cluster-slave",
        )
    for master in masters:
        # Replicas that others can reach, and to which the master sends nothing.
        fed, known = master.online, sorted(replicas[master.id])
        if fed < len(known):
            yield Finding(
                WARNING,
                f"{master.shown} sends its writes to {fed} of {counted(len(known), 'replica')}:"
                f" {', '.join(known)}",
                "A failover to one that gets none loses all that was written since, elements and"
                " deadlines alike. CLUSTER FAILOVER without FORCE and TAKEOVER waits until the"
                " replica has everything.",
                "look at master_link_status in INFO replication, and at masterauth, at the replica",
            )
    if any_age := [master.shown for master in masters if master.any_age]:
        yield Finding(
            WARNING,
            f"cluster-replica-validity-factor is 0 at {', '.join(any_age)}",
            "Where replicas have it, too, one that lost its master long ago may be promoted: all"
            " that was written since is lost.",
            "CONFIG SET cluster-replica-validity-factor 10, at each node",
        )
