"""The doctor in front of several masters: what concerns all, and then each of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from redis.exceptions import RedisError

from ttlproxy.config import Settings
from ttlproxy.core.counted import counted
from ttlproxy.core.keys import SLOTS
from ttlproxy.core.topology import ClusterNode, cluster_nodes
from ttlproxy.link import NodeOfSeveral, close_all, run, valid
from ttlproxy.link.connecting.known_server import fields
from ttlproxy.net.progress import Progress
from ttlproxy.operations.doctor.checks import findings
from ttlproxy.operations.doctor.failovers import VALIDITY, MasterFacts, failover
from ttlproxy.operations.doctor.finding import ERROR, INFO, OK, WARNING, Finding
from ttlproxy.operations.doctor.fix import fixed
from ttlproxy.operations.doctor.fix_state import FixState
from ttlproxy.operations.doctor.target import meet

# Clocks of two masters that differ by more are told.
_SKEW_MS: Final = 1000


async def of_masters(
    masters: Sequence[NodeOfSeveral],
    settings: Settings,
    sample: int,
    progress: Progress,
    fix_state: FixState | None,
) -> list[Finding]:
    """The findings about the Cluster and about each master, the worst first. With a state, it fixes
    what each master has before it is examined."""
    found: list[Finding] = []
    all_are_fixed = True
    try:
        for redis in masters:
            try:
                await redis.plain.initialize()
                if fix_state is not None:
                    await fixed(await meet(redis, settings, sample, progress), fix_state)
                own = await findings(redis, settings, progress, sample)
            except (RedisError, OSError) as trouble:
                all_are_fixed = False
                own = [_unreached(str(trouble))]
            found += [replace(each, what=f"{redis.shown}: {each.what}") for each in own]
        if fix_state is not None and all_are_fixed:
            fix_state.end()
        found += await _of_cluster(masters)
    finally:
        await close_all(masters)
    return sorted(found, key=lambda finding: -finding.severity)


def _unreached(trouble: str) -> Finding:
    return Finding(
        "connection",
        ERROR,
        trouble,
        "Requests for its slots wait, and then fail.",
        "check that it runs, and that the proxy's user and password are right there",
    )


async def _of_cluster(masters: Sequence[NodeOfSeveral]) -> list[Finding]:
    told: list[ClusterNode] = []
    clocks_ms: list[int] = []
    strict: list[str] = []
    facts: list[MasterFacts] = []
    for redis in masters:
        words = [
            (b"CLUSTER", b"NODES"),
            (b"TIME",),
            (b"INFO", b"replication"),
            (b"CONFIG", b"GET", _COVERAGE),
            (b"CONFIG", b"GET", VALIDITY),
        ]
        try:
            *replies, coverage, validity = await run(redis.plain, [(0, each) for each in words])
            text, (seconds, microseconds), replication = map(valid, replies)
        except (RedisError, OSError):
            continue
        told += cluster_nodes(text.decode(errors="replace"))
        any_age = b"0" in _values(validity)
        facts.append(MasterFacts(redis.shown, redis.node.id, fields(replication), any_age))
        clocks_ms.append(int(seconds) * 1000 + int(microseconds) // 1000)
        strict += [redis.shown] * (b"yes" in _values(coverage))
    return [
        *_slots(told),
        *_clocks(clocks_ms),
        *_coverage(strict),
        *_lost(told),
        *failover(facts, told),
    ]


def _values(reply: object) -> list[bytes]:
    """The values in a reply to CONFIG GET; none if it is refused."""
    return reply[1::2] if isinstance(reply, list) else []


_COVERAGE: Final = b"cluster-require-full-coverage"


def _slots(told: Sequence[ClusterNode]) -> Iterator[Finding]:
    owned = {number for node in told if node.is_master for number in node.slots}
    if len(owned) == SLOTS:
        count = len({node.id for node in told if node.is_master})
        yield Finding("slots", OK, f"all slots have a master; there are {count}")
        return
    yield Finding(
        "slots",
        ERROR,
        f"{counted(SLOTS - len(owned), 'slot has', 'slots have')} no master",
        "Requests for keys there fail.",
        "redis-cli --cluster fix",
    )


def _clocks(clocks_ms: Sequence[int]) -> Iterator[Finding]:
    skew_ms = max(clocks_ms, default=0) - min(clocks_ms, default=0)
    if skew_ms <= _SKEW_MS:
        yield Finding("clocks", OK, f"the masters' clocks differ by {skew_ms} ms at most")
        return
    yield Finding(
        "clocks",
        WARNING,
        f"the masters' clocks differ by {skew_ms} ms",
        "After a slot has moved, or a replica was promoted, deadlines there pass earlier or later"
        " by that.",
        "synchronize the clocks of all nodes with NTP",
    )


def _coverage(strict: Sequence[str]) -> Iterator[Finding]:
    if strict:
        yield Finding(
            "coverage",
            INFO,
            f"cluster-require-full-coverage is on at {', '.join(strict)}",
            "While one slot has no master, requests for all keys fail there.",
            "CONFIG SET cluster-require-full-coverage no, if others should be served meanwhile",
        )


def _lost(told: Sequence[ClusterNode]) -> Iterator[Finding]:
    lost = sorted({f"{node.host}:{node.port}" for node in told if not node.is_there})
    if lost:
        yield Finding(
            "nodes",
            WARNING,
            f"other nodes cannot reach {', '.join(lost)}",
            "If it is a replica, its master has one less to replace it.",
            "start it again, or CLUSTER FORGET its id at each node",
        )
