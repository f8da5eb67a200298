"""Checks of a Cluster: its slots, clocks and settings, nodes that are away, and what a failover
would lose.

Redis replicates asynchronously, so any failover may lose the last writes, except for CLUSTER
FAILOVER without FORCE and TAKEOVER, which waits until the replica has all.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from redis.exceptions import RedisError

from ttlproxy.core.counted import counted
from ttlproxy.core.keys import SLOTS
from ttlproxy.core.topology import ClusterNode, cluster_nodes
from ttlproxy.link import NodeOfSeveral, run, valid
from ttlproxy.link.connecting.known_server import fields
from ttlproxy.operations.doctor.finding import ERROR, INFO, OK, WARNING, Finding

# Clocks of two masters that differ by more are told.
_SKEW_MS: Final = 1000
_COVERAGE: Final = b"cluster-require-full-coverage"
# The setting has had two names; with 0 a replica tries to be promoted however old its data is.
_VALIDITY: Final = b"cluster-*-validity-factor"


class MasterFacts(NamedTuple):
    """
    shown, id: its address, and its id in the Cluster
    nodes: all nodes of the Cluster, as it knows them
    now_ms: its clock
    replication: the fields of its INFO replication
    is_strict: it serves no key while one slot has no master
    any_age: its replicas may be promoted with data of any age
    """

    shown: str
    id: str
    nodes: Sequence[ClusterNode]
    now_ms: int = 0
    replication: Mapping[str, str] = {}
    is_strict: bool = False
    any_age: bool = False


async def master_facts(redis: NodeOfSeveral) -> MasterFacts | None:
    """None if it cannot be reached, or refuses."""
    words = (
        (b"CLUSTER", b"NODES"),
        (b"TIME",),
        (b"INFO", b"replication"),
        (b"CONFIG", b"GET", _COVERAGE),
        (b"CONFIG", b"GET", _VALIDITY),
    )
    try:
        *replies, coverage, validity = await run(redis.plain, [(0, each) for each in words])
        text, (seconds, microseconds), replication = map(valid, replies)
    except (RedisError, OSError):
        return None
    return MasterFacts(
        redis.shown,
        redis.node.id,
        cluster_nodes(text.decode(errors="replace")),
        int(seconds) * 1000 + int(microseconds) // 1000,
        fields(replication),
        b"yes" in _values(coverage),
        b"0" in _values(validity),
    )


def _values(reply: object) -> list[bytes]:
    """The values in a reply to CONFIG GET; none if it is refused."""
    return reply[1::2] if isinstance(reply, list) else []


def of_cluster(masters: Sequence[MasterFacts]) -> Iterator[Finding]:
    """The findings about all masters together."""
    nodes = [node for master in masters for node in master.nodes]
    yield _slots(nodes)
    yield _clocks([master.now_ms for master in masters])
    if strict := [master.shown for master in masters if master.is_strict]:
        yield Finding(
            INFO,
            f"cluster-require-full-coverage is on at {', '.join(strict)}",
            "While one slot has no master, requests for all keys fail there.",
            "CONFIG SET cluster-require-full-coverage no, if others should be served meanwhile",
            check="coverage",
        )
    if lost := sorted({f"{node.host}:{node.port}" for node in nodes if not node.is_there}):
        yield Finding(
            WARNING,
            f"other nodes cannot reach {', '.join(lost)}",
            "If it is a replica, its master has one less to replace it.",
            "start it again, or CLUSTER FORGET its id at each node",
            check="nodes",
        )
    yield from failover(masters)


def _slots(nodes: Sequence[ClusterNode]) -> Finding:
    owned = {number for node in nodes if node.is_master for number in node.slots}
    if len(owned) == SLOTS:
        count = len({node.id for node in nodes if node.is_master})
        return Finding(OK, f"all slots have a master; there are {count}", check="slots")
    return Finding(
        ERROR,
        f"{counted(SLOTS - len(owned), 'slot has', 'slots have')} no master",
        "Requests for keys there fail.",
        "redis-cli --cluster fix",
        check="slots",
    )


def _clocks(clocks_ms: Sequence[int]) -> Finding:
    skew_ms = max(clocks_ms, default=0) - min(clocks_ms, default=0)
    if skew_ms <= _SKEW_MS:
        said = f"the masters' clocks differ by {skew_ms} ms at most"
        return Finding(OK, said, check="clocks")
    return Finding(
        WARNING,
        f"the masters' clocks differ by {skew_ms} ms",
        "After a slot has moved, or a replica was promoted, deadlines there pass earlier or later"
        " by that.",
        "synchronize the clocks of all nodes with NTP",
        check="clocks",
    )


def failover(masters: Sequence[MasterFacts]) -> Iterator[Finding]:
    """A failover loses writes where a master has no replica, or one that is behind."""
    replicas: dict[str, set[str]] = {master.id: set() for master in masters}
    for node in (node for master in masters for node in master.nodes):
        if node.is_there and node.master in replicas:
            replicas[node.master].add(f"{node.host}:{node.port}")
    found = list(_at_risk(masters, replicas))
    if not found:
        number = sum(map(len, replicas.values()))
        said = f"each master has a replica; there are {number}"
        yield Finding(OK, said, check="failover")
    yield from found


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
            check="failover",
        )
    for master in masters:
        # Replicas that others can reach, and to which the master sends nothing.
        fed, known = _online(master.replication), sorted(replicas[master.id])
        if fed < len(known):
            yield Finding(
                WARNING,
                f"{master.shown} sends its writes to {fed} of {counted(len(known), 'replica')}:"
                f" {', '.join(known)}",
                "A failover to one that gets none loses all that was written since, elements and"
                " deadlines alike. CLUSTER FAILOVER without FORCE and TAKEOVER waits until the"
                " replica has everything.",
                "look at master_link_status in INFO replication, and at masterauth, at the replica",
                check="failover",
            )
    if any_age := [master.shown for master in masters if master.any_age]:
        yield Finding(
            WARNING,
            f"cluster-replica-validity-factor is 0 at {', '.join(any_age)}",
            "Where replicas have it, too, one that lost its master long ago may be promoted: all"
            " that was written since is lost.",
            "CONFIG SET cluster-replica-validity-factor 10, at each node",
            check="failover",
        )


def _online(replication: Mapping[str, str]) -> int:
    """The number of replicas that have the master's data, and are sent what it writes."""
    each = (value for name, value in replication.items() if name[:5] == "slave" and "ip=" in value)
    return sum("state=online" in value for value in each)
