"""The table of checks, and the examination of an upstream by all of them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
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
from ttlproxy.operations.doctor import cluster, content, rights, server
from ttlproxy.operations.doctor.finding import INFO, WARNING, Finding, error, ok
from ttlproxy.operations.doctor.fix import FixState, fixed
from ttlproxy.operations.doctor.required_rights import rules as rules_for_proxy
from ttlproxy.operations.doctor.target import Target, read_target

SAMPLE: Final = 1000


class Check(NamedTuple):
    """sound: the fact if there are no findings; find: each yields findings."""

    sound: str
    find: Sequence[Callable[[Target], AsyncIterator[Finding]]]


# Findings of the same severity are shown in this order.
CHECKS: Final[Mapping[str, Check]] = {
    "role": Check("the server is a primary", [server.role]),
    "sentinels": Check("the Sentinels name the same master", [cluster.sentinels]),
    "cluster": Check("the server is not part of a Cluster", [cluster.cluster]),
    "layout": Check(
        "no proxy has stored anything on this server", [server.layout, server.prefixes]
    ),
    "rights": Check("", [rights.rights]),
    "users": Check("no user can reach deadlines of keys that it may not access", [rights.users]),
    "protected-mode": Check("", [rights.protected_mode]),
    "commands": Check("", [server.commands, server.scripts, server.tracking]),
    "core": Check("requests and replies are read by compiled code", [server.core]),
    "eviction": Check("nothing is evicted (maxmemory-policy noeviction)", [server.eviction]),
    "memory": Check("there is memory left", [server.memory]),
    "clients": Check("there is room for clients", [server.clients]),
    "persistence": Check("", [server.persistence]),
    "replicas": Check("no replica is behind", [server.replicas]),
    "overdue": Check("", [content.overdue, content.destinations]),
    "unsigned": Check("rules and deferred commands are signed", [content.unsigned]),
    "content": Check("", [content.content]),
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
    """Returns the findings, the worst first, over connections of its own. If it `fixes`, it does
    that first, and reports it; `state`: the file that keeps its position.

    At most `sample` deadlines are examined, and as many internal keys of each database. A Redis
    that cannot be reached is a finding. Raises OperationError if the state cannot be used.
    """
    fix_state = FixState(state, upstream.shown, settings.prefix) if fixes else None
    settings = replace(settings, upstream=upstream)
    try:
        one = await located(upstream, settings.connect_timeout)
    except (UpstreamError, OSError) as trouble:
        return [_away(upstream, trouble)]
    role: Role = "redis" if upstream.sentinels is None else "behind"
    redis = client(one, "ttlproxy:doctor", settings.connect_timeout)
    masters: Sequence[NodeOfSeveral] = ()

    async def of_server(redis: Redis) -> tuple[Target, list[Finding]]:
        if fix_state is not None:
            await fixed(await read_target(redis, settings, sample, progress), fix_state)
        target = await read_target(redis, settings, sample, progress)
        checks = CHECKS.items()
        return target, [each for name, check in checks for each in await _of(name, check, target)]

    try:
        await redis.initialize()
        with suppress(NoPermissionError):  # then a check says so
            masters = await several_masters(one, "ttlproxy:doctor", settings.connect_timeout)
        if masters:
            found, is_whole = await _of_masters(masters, of_server)
        else:
            (_, found), is_whole = await of_server(redis), True
        if fix_state is not None and is_whole:
            fix_state.file.remove()
        return sorted(found, key=lambda finding: -finding.severity)
    except (RedisError, OSError, UpstreamError, ValueError) as trouble:
        return [_away(upstream, trouble, await mismatch(one, role))]
    finally:
        progress.clear()
        await close_all(masters)
        await redis.aclose()


async def _of_masters(
    masters: Sequence[NodeOfSeveral],
    examine: Callable[[Redis], Awaitable[tuple[Target, list[Finding]]]],
) -> tuple[list[Finding], bool]:
    """Returns (findings about each master and about the Cluster, whether each could be
    examined)."""
    found: list[Finding] = []
    targets: list[Target] = []
    for redis in masters:
        try:
            await redis.plain.initialize()
            target, own = await examine(redis)
            targets.append(target)
        except (RedisError, OSError) as trouble:
            own = [
                error(
                    str(trouble),
                    "Requests for its slots wait, and then fail.",
                    "check that it runs, and that the proxy's user and password are right there",
                    check="connection",
                )
            ]
        found += [replace(each, what=f"{redis.shown}: {each.what}") for each in own]
    facts = [await cluster.master_facts(target) for target in targets]
    found += cluster.of_cluster([each for each in facts if each is not None])
    return found, len(targets) == len(masters)


async def _of(name: str, check: Check, target: Target) -> list[Finding]:
    """The findings of one check, also where Redis refuses some of its requests."""
    found: list[Finding] = []
    for find in check.find:
        try:
            found += [each async for each in find(target)]
        except ResponseError as refused:
            severity = INFO if isinstance(refused, NoPermissionError) else WARNING
            found.append(Finding(severity, f"cannot be checked: {refused}"))
    found = found or [ok(check.sound)]
    return [replace(each, check=each.check or name) for each in found]


def _away(upstream: Upstream, trouble: Exception, known: str = "") -> Finding:
    """Returns the finding that Redis is away; `known`: what is wrong with TLS, and how to fix
    it."""
    user = upstream.user or "default"
    found = cause(trouble, Asked(user=user))
    what, _, cure = known.partition(": ") if known else (found.what, "", found.cure)
    if isinstance(trouble, NoPermissionError):
        cure = f"ACL SETUSER {user} {' '.join(rules_for_proxy())}"
    return error(
        f"Redis at {upstream.shown}: {what}",
        "No client can be served without it.",
        cure or "check whether Redis runs there, and is well",
        check="connection",
    )
