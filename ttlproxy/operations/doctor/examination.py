"""The table of checks, and the examination of an upstream by all of them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final, NamedTuple

from redis.asyncio import Redis
from redis.exceptions import NoPermissionError, RedisError, ResponseError

from ttlproxy.addresses import Upstream
from ttlproxy.config import Settings
from ttlproxy.errors import UpstreamError
from ttlproxy.link import (
    Asked,
    NodeOfSeveral,
    Role,
    cause,
    client,
    close_all,
    located,
    mismatch,
    several_masters,
)
from ttlproxy.net.progress import Progress
from ttlproxy.operations.doctor import content, proxies, rights, rules, scripting, server
from ttlproxy.operations.doctor.cluster import master_facts, of_cluster
from ttlproxy.operations.doctor.finding import ERROR, INFO, OK, WARNING, Finding, worst_first
from ttlproxy.operations.doctor.fix import FixState, fixed
from ttlproxy.operations.doctor.required_rights import rules as rules_for_proxy
from ttlproxy.operations.doctor.target import Target, read_target

SAMPLE: Final = 1000


class Check(NamedTuple):
    """find: yields what it finds; sound: what it means if that is nothing."""

    find: Callable[[Target], AsyncIterator[Finding]]
    sound: str = ""


# Findings of the same severity are shown in this order.
CHECKS: Final[Mapping[str, Check]] = {
    "version": Check(server.version),
    "cluster": Check(server.cluster, "the server is not part of a Cluster"),
    "databases": Check(server.databases, "each database that the server has is served"),
    "keyspace": Check(server.keyspace, "each of the server's commands about keys is known"),
    "sentinels": Check(server.sentinels, "the Sentinels name the same master"),
    "role": Check(server.role, "the server is a primary"),
    "rights": Check(rights.rights),
    "users": Check(rights.users, "no user can reach the deadlines of keys that it may not access"),
    "protected-mode": Check(rights.protected_mode),
    "scripting": Check(scripting.scripting, "scripts run"),
    "tracking": Check(server.tracking, "client tracking works"),
    "layout": Check(server.layout, "no proxy has stored anything on this server"),
    "eviction": Check(server.eviction, "nothing is evicted (maxmemory-policy noeviction)"),
    "memory": Check(server.memory, "there is memory left"),
    "clients": Check(server.clients, "there is room for clients"),
    "max-clients": Check(server.max_clients, "Redis accepts as many clients as a proxy"),
    "core": Check(server.core, "requests and replies are read by compiled code"),
    "memory-limit": Check(server.memory_limit, "a proxy needs less than the container's limit"),
    "events": Check(server.events, "keyspace events are off"),
    "persistence": Check(server.persistence),
    "replicas": Check(server.replicas, "the server has no replicas"),
    "clock": Check(server.clock),
    "proxies": Check(proxies.proxies),
    "prefixes": Check(proxies.prefixes, "nobody uses another prefix"),
    "lease": Check(proxies.lease, "the reaper's lease expires by itself"),
    "overdue": Check(proxies.overdue, "no key is overdue"),
    "outboxes": Check(proxies.outboxes, "nothing waits for long for other slots"),
    "deferred": Check(proxies.deferred),
    "scripts": Check(scripting.scripts, "the server has no scripts of users"),
    "rules": Check(rules.rules),
    "content": Check(content.content),
}


async def examined(
    settings: Settings,
    upstream: Upstream,
    sample: int,
    progress: Progress,
    *,
    fixes: bool,
    state: Path | None = None,
) -> list[Finding]:
    """The findings, the worst first, over connections of its own. If it `fixes`, it does so first,
    and says what; `state`: the file where it keeps how far it is.

    At most `sample` deadlines are examined, and as many internal keys of each database. A Redis
    that cannot be reached is a finding. Raises DoctorError if the state cannot be used.
    """
    fix_state = FixState(state, upstream.shown, settings.prefix) if fixes else None
    settings = replace(settings, upstream=upstream)
    examine = _Examination(settings, sample, progress, fix_state)
    try:
        one = await located(upstream, settings.connect_timeout)
    except (UpstreamError, OSError) as trouble:
        return [_away(upstream, trouble)]
    role: Role = "redis" if upstream.sentinels is None else "behind"
    redis = client(one, "ttlproxy:doctor", settings.connect_timeout)
    try:
        await redis.initialize()
        masters = await _masters(one, settings)
        found = await (examine.of_masters(masters) if masters else examine.of_server(redis))
        if fix_state is not None and not examine.has_failed:
            fix_state.end()
        return worst_first(found)
    except (RedisError, OSError, UpstreamError, ValueError) as trouble:
        return [_away(upstream, trouble, await mismatch(one, role))]
    finally:
        progress.clear()
        await redis.aclose()


class _Examination:
    """has_failed: a master could not be examined."""

    def __init__(
        self, settings: Settings, sample: int, progress: Progress, fix_state: FixState | None
    ) -> None:
        self.has_failed = False
        self._settings = settings
        self._sample = sample
        self._progress = progress
        self._fix_state = fix_state

    async def of_server(self, redis: Redis) -> list[Finding]:
        """`redis`: a connection for this caller alone. Raises RedisError if the server is away or
        does not answer INFO."""
        if self._fix_state is not None:
            await fixed(await self._target(redis), self._fix_state)
        target = await self._target(redis)
        return [found for name, check in CHECKS.items() for found in await _of(name, check, target)]

    async def of_masters(self, masters: Sequence[NodeOfSeveral]) -> list[Finding]:
        """The findings about each master, and then about the Cluster."""
        found: list[Finding] = []
        try:
            for redis in masters:
                try:
                    await redis.plain.initialize()
                    own = await self.of_server(redis)
                except (RedisError, OSError) as trouble:
                    self.has_failed = True
                    own = [_unreached(str(trouble))]
                found += [replace(each, what=f"{redis.shown}: {each.what}") for each in own]
            facts = [await master_facts(redis) for redis in masters]
            return [*found, *of_cluster([each for each in facts if each is not None])]
        finally:
            await close_all(masters)

    async def _target(self, redis: Redis) -> Target:
        return await read_target(redis, self._settings, self._sample, self._progress)


async def _of(name: str, check: Check, target: Target) -> list[Finding]:
    """The findings of one check; if Redis refuses its requests, a finding that says so."""
    try:
        found = [each async for each in check.find(target)]
    except ResponseError as refused:
        severity = INFO if isinstance(refused, NoPermissionError) else WARNING
        found = [Finding(severity, f"cannot be checked: {refused}")]
    found = found or [Finding(OK, check.sound)]
    return [replace(each, check=each.check or name) for each in found]


async def _masters(server: Upstream, settings: Settings) -> list[NodeOfSeveral]:
    """All masters, if there are several; none where a check tells that their list is refused."""
    try:
        return await several_masters(server, "ttlproxy:doctor", settings.connect_timeout)
    except NoPermissionError:
        return []


def _unreached(trouble: str) -> Finding:
    return Finding(
        ERROR,
        trouble,
        "Requests for its slots wait, and then fail.",
        "check that it runs, and that the proxy's user and password are right there",
        check="connection",
    )


def _away(upstream: Upstream, trouble: Exception, known: str = "") -> Finding:
    """`known`: what is wrong with TLS, and how to fix it."""
    user = upstream.user or "default"
    found = cause(trouble, Asked(user=user))
    what, _, cure = known.partition(": ") if known else (found.what, "", found.cure)
    if isinstance(trouble, NoPermissionError):
        cure = f"ACL SETUSER {user} {' '.join(rules_for_proxy())}"
    return Finding(
        ERROR,
        f"Redis at {upstream.shown}: {what}",
        "No client can be served without it.",
        cure or "check whether Redis runs there, and is well",
        check="connection",
    )
