"""What a failover in a Cluster would lose: masters without a replica, and replicas that are behind.

Redis replicates asynchronously, so any failover may lose the last writes, except for CLUSTER
FAILOVER without FORCE and TAKEOVER, which waits until the replica has all.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from ttlproxy.core.counted import counted
from ttlproxy.core.topology import ClusterNode
from ttlproxy.operations.doctor.finding import INFO, OK, WARNING, Finding

_CHECK: Final = "failover"
_BY_HAND: Final = (
    "CLUSTER FAILOVER without FORCE and TAKEOVER waits until the replica has everything"
)
# The setting has had two names; with 0 a replica tries to be promoted however old its data is.
VALIDITY: Final = b"cluster-*-validity-factor"


class MasterFacts(NamedTuple):
    """
    shown, id: its address, and its id in the Cluster
    replication: the fields of its INFO replication
    any_age: its replicas may be promoted with data of any age
    """

    shown: str
    id: str
    replication: Mapping[str, str]
    any_age: bool


def failover(masters: Sequence[MasterFacts], told: Sequence[ClusterNode]) -> Iterator[Finding]:
    """`told`: what all masters know of all nodes."""
    replicas: dict[str, set[str]] = {master.id: set() for master in masters}
    for node in told:
        if node.is_there and node.master in replicas:
            replicas[node.master].add(f"{node.host}:{node.port}")
    found = [
        *_alone(masters, replicas),
        *_cut_off(masters, replicas),
        *_stale([master.shown for master in masters if master.any_age]),
    ]
    number = sum(map(len, replicas.values()))
    said = f"each master has a replica; there are {number}"
    yield from found or [Finding(_CHECK, OK, said)]


def _alone(masters: Sequence[MasterFacts], replicas: Mapping[str, set[str]]) -> Iterator[Finding]:
    alone = sorted(master.shown for master in masters if not replicas[master.id])
    if alone:
        are_all = len(alone) == len(masters)
        yield Finding(
            _CHECK,
            INFO if are_all else WARNING,
            f"no master has a replica: {', '.join(alone)}"
            if are_all
            else f"{counted(len(alone), 'master has', 'masters have')} no replica that can be"
            f" reached: {', '.join(alone)}",
            "Nobody can take over from it. Until it is back, requests for its slots fail; if its"
            " disk is lost, so are its elements and deadlines.",
            "redis-cli --cluster add-node NEW-HOST:PORT HOST:PORT --cluster-slave",
        )


def _cut_off(masters: Sequence[MasterFacts], replicas: Mapping[str, set[str]]) -> Iterator[Finding]:
    """Replicas that others can reach, and to which the master sends nothing."""
    for master in masters:
        fed = _online(master.replication)
        known = len(replicas[master.id])
        if fed < known:
            yield Finding(
                _CHECK,
                WARNING,
                f"{master.shown} sends its writes to {fed} of"
                f" {counted(known, 'replica')}: {', '.join(sorted(replicas[master.id]))}",
                "A failover to one that gets none loses all that was written since, elements and"
                f" deadlines alike. {_BY_HAND}.",
                "look at master_link_status in INFO replication, and at masterauth, at the replica",
            )


def _online(replication: Mapping[str, str]) -> int:
    """How many replicas have the master's data, and are sent what it writes."""
    each = (value for name, value in replication.items() if name[:5] == "slave" and "ip=" in value)
    return sum("state=online" in value for value in each)


def _stale(any_age: Sequence[str]) -> Iterator[Finding]:
    if any_age:
        yield Finding(
            _CHECK,
            WARNING,
            f"cluster-replica-validity-factor is 0 at {', '.join(any_age)}",
            "Where replicas have it, too, one that lost its master long ago may be promoted: all"
            " that was written since is lost.",
            "CONFIG SET cluster-replica-validity-factor 10, at each node",
        )
