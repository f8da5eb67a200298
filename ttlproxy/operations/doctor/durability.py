"""Checks what survives a restart or a failover: persistence, role, replicas, and the clock."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any

from ttlproxy.core.counted import counted
from ttlproxy.operations.doctor.finding import ERROR, INFO, OK, WARNING, Finding
from ttlproxy.operations.doctor.target import Target

_LAG_S = 10
_DRIFT_MS = 1000


async def persistence(target: Target) -> list[Finding]:
    """Deadlines are data: they survive a restart exactly as elements do."""
    info = target.info
    broken = list(_broken(info))
    if broken:
        return broken
    if info.get("aof_enabled"):
        sync = target.config.get("appendfsync", "?")
        return [Finding("persistence", OK, f"the append-only file is on (appendfsync {sync})")]
    if target.config.get("save", "?"):
        unsaved = info.get("rdb_changes_since_last_save", 0)
        return [
            Finding(
                "persistence",
                INFO,
                f"only snapshots are saved; {counted(unsaved, 'change is', 'changes are')} in no"
                " snapshot yet",
                "A crash loses the latest elements together with their deadlines.",
                "CONFIG SET appendonly yes",
            )
        ]
    return [
        Finding(
            "persistence",
            INFO,
            "nothing is saved to disk",
            "A restart loses all elements and deadlines.",
            "CONFIG SET appendonly yes",
        )
    ]


def _broken(info: Mapping[str, Any]) -> Iterator[Finding]:
    for field, what in (
        ("rdb_last_bgsave_status", "the last snapshot could not be written"),
        ("aof_last_write_status", "the append-only file cannot be written"),
        ("aof_last_bgrewrite_status", "the append-only file could not be rewritten"),
    ):
        if info.get(field, "ok") != "ok":
            yield Finding(
                "persistence",
                ERROR,
                what,
                "Redis may refuse all writes (MISCONF), including those of the reaper.",
                "free space on the server's disk, then BGSAVE; Redis's log says what is wrong",
            )


async def role(target: Target) -> list[Finding]:
    if target.info.get("role") != "slave":
        return [Finding("role", OK, "the server is a primary")]
    host, port = target.info.get("master_host"), target.info.get("master_port")
    return [
        Finding(
            "role",
            ERROR,
            f"the server is a replica of {host}:{port}",
            "It accepts no writes: no deadline can be set, and expired elements are not being"
            " removed.",
            f"use the primary: ttlproxy --upstream redis://{host}:{port}",
        )
    ]


async def replicas(target: Target) -> list[Finding]:
    info = target.info
    found = [value for name, value in info.items() if _is_replica(name, value)]
    starved = _starved(info, target.config)
    if starved:
        return [starved]
    if not found and _has_sentinels(target):
        return [
            Finding(
                "replicas",
                WARNING,
                "the server has no replica that is connected to it",
                "Sentinels watch it, and nobody can take over from it. A replica that has lost it"
                " is promoted without what was written since.",
                "look at SENTINEL REPLICAS, and at master_link_status and masterauth of each",
            )
        ]
    if not found:
        return [Finding("replicas", OK, "the server has no replicas")]
    behind = [replica for replica in found if not _keeps_up(replica)]
    if behind:
        return [
            Finding(
                "replicas",
                WARNING,
                f"replicas that are behind, or not synchronized yet: {len(behind)} of {len(found)}",
                "A failover to one of them loses the latest elements together with their"
                " deadlines.",
                "see INFO replication, and the replica's log",
            )
        ]
    return [
        Finding(
            "replicas",
            INFO,
            f"{counted(len(found), 'replica')}; replication is asynchronous",
            "A failover may lose the latest elements together with their deadlines. The new"
            " primary's clock then decides what is due: run NTP on all servers.",
            ""
            if _demanded(target.config)
            else "CONFIG SET min-replicas-to-write 1 refuses writes while no replica is up to date",
        )
    ]


def _has_sentinels(target: Target) -> bool:
    upstream = target.settings.upstream
    return upstream is not None and upstream.sentinels is not None


def _starved(info: Mapping[str, Any], config: Mapping[str, str]) -> Finding | None:
    good, demanded = info.get("min_slaves_good_slaves"), _demanded(config)
    if good is None or not demanded or int(good) >= demanded:
        return None
    return Finding(
        "replicas",
        ERROR,
        f"min-replicas-to-write is {demanded}, but only"
        f" {counted(int(good), 'replica is', 'replicas are')} up to date",
        "Redis refuses all writes (NOREPLICAS), including those of the reaper.",
        "CONFIG SET min-replicas-to-write 0, or start the replicas",
    )


def _demanded(config: Mapping[str, str]) -> int:
    return int(config.get("min-replicas-to-write", "0") or 0)


def _is_replica(name: str, value: object) -> bool:
    return name.startswith("slave") and name[5:].isdigit() and isinstance(value, dict)


def _keeps_up(replica: Mapping[str, Any]) -> bool:
    return replica.get("state") == "online" and int(replica.get("lag", 0)) <= _LAG_S


async def clock(target: Target) -> list[Finding]:
    """Our own clock decides nothing: only this check reads it."""
    before = time.time()  # noqa: TID251 - the two clocks are compared
    theirs_ms = await target.now_ms()
    after = time.time()  # noqa: TID251
    drift_ms = round(theirs_ms - (before + after) * 500)
    if abs(drift_ms) < _DRIFT_MS:
        return [
            Finding("clock", OK, f"the clocks of Redis and of this machine differ by {drift_ms} ms")
        ]
    ahead = "ahead of" if drift_ms > 0 else "behind"
    return [
        Finding(
            "clock",
            INFO,
            f"Redis's clock is {abs(drift_ms) / 1000:.1f} s {ahead} this machine's",
            "Deadlines follow Redis's clock. Clients that send absolute times, as in EXPIREAT,"
            " need the same time.",
            "run NTP on all machines",
        )
    ]
