"""The table of checks, and the function that runs them all."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TypeAlias

from redis.asyncio import Redis
from redis.exceptions import NoPermissionError, ResponseError

from ttlproxy.config import Settings
from ttlproxy.net.progress import Progress
from ttlproxy.operations.doctor import (
    client_users,
    content,
    deferred,
    durability,
    expiry_actions,
    installation,
    neighbours,
    outboxes,
    rights,
    scripting,
    sentinels,
    server,
    write_rules,
)
from ttlproxy.operations.doctor.finding import INFO, WARNING, Finding
from ttlproxy.operations.doctor.target import Target, meet

Check: TypeAlias = Callable[[Target], Awaitable[list[Finding]]]

# Findings of the same severity are shown in this order.
CHECKS: Mapping[str, Check] = {
    "version": server.version,
    "cluster": server.cluster,
    "databases": server.databases,
    "keyspace": server.keyspace,
    "sentinels": sentinels.sentinels,
    "role": durability.role,
    "loading": server.loading,
    "rights": rights.rights,
    "users": client_users.users,
    "protected-mode": client_users.protected_mode,
    "scripting": scripting.scripting,
    "tracking": server.tracking,
    "layout": server.layout,
    "eviction": server.eviction,
    "memory": server.memory,
    "clients": server.clients,
    "max-clients": server.max_clients,
    "core": installation.core,
    "memory-limit": installation.memory_limit,
    "script-limit": server.script_limit,
    "events": server.events,
    "persistence": durability.persistence,
    "replicas": durability.replicas,
    "clock": durability.clock,
    "proxies": neighbours.proxies,
    "prefixes": neighbours.prefixes,
    "lease": neighbours.lease,
    "overdue": neighbours.overdue,
    "scripts": neighbours.scripts,
    "rules": expiry_actions.rules,
    "write-rules": write_rules.write_rules,
    "outboxes": outboxes.outboxes,
    "deferred": deferred.deferred,
    "content": content.content,
}

SAMPLE = 1000


async def findings(
    redis: Redis, settings: Settings, progress: Progress, sample: int = SAMPLE
) -> list[Finding]:
    """The findings of all checks, the worst first.

    `redis` is a connection for this caller alone, made by `link.client`. At most `sample` deadlines
    are examined, and as many internal keys of each database. Raises RedisError if the server is
    away or does not answer INFO.
    """
    target = await meet(redis, settings, sample, progress)
    found = [
        finding for name, check in CHECKS.items() for finding in await _of(name, check, target)
    ]
    return sorted(found, key=lambda finding: -finding.severity)


async def _of(name: str, check: Check, target: Target) -> list[Finding]:
    """The findings of one check; if Redis refuses its requests, a finding that says so."""
    try:
        return await check(target)
    except ResponseError as refused:
        severity = INFO if isinstance(refused, NoPermissionError) else WARNING
        return [Finding(name, severity, f"cannot be checked: {refused}")]
