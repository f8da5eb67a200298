"""`ttlproxy purge`: removes all our keys from Redis. Data stays, without its deadlines."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

from redis.asyncio import Redis
from redis.exceptions import RedisError

from ttlproxy.addresses import Upstream
from ttlproxy.config import Settings
from ttlproxy.core.keys import KEPT_MS, KEPT_SLACK_MS, KEY_EXPIRY, Keys
from ttlproxy.core.text import counted
from ttlproxy.errors import OperationError, UpstreamError
from ttlproxy.link import (
    LAYOUT,
    NodeOfSeveral,
    attached,
    cause,
    client,
    close_all,
    is_node,
    located,
    run,
    several_masters,
    valid,
)
from ttlproxy.link.connecting.known_server import unix_ms
from ttlproxy.net.progress import Progress, of_names
from ttlproxy.operations.key_walk import LARGE_PAGE, scan


class PurgeOptions(NamedTuple):
    """force: removes also while proxies are attached, and what waits; is_dry: nothing is removed"""

    force: bool = False
    is_dry: bool = False

    def sentence(self, where: str, keys: int) -> str:
        """Returns a sentence on what was done with this number of keys."""
        done = "would be removed" if self.is_dry else "removed"
        return f"{where}: {counted(keys, 'internal key')} {done}"


async def purged(
    settings: Settings, upstream: Upstream, how: PurgeOptions, progress: Progress
) -> None:
    """Removes all internal keys in every database, and reports what it did in each.

    It may be interrupted: the next run removes what is left. Without `force`, elements that wait
    for TAKE or in outboxes stay, and OperationError is raised if proxies are attached, which would
    go on using internal keys. It is also raised if Redis is away or refuses.
    """
    keys = Keys(settings.prefix.encode())
    try:
        server = await located(upstream, settings.connect_timeout)
    except (UpstreamError, OSError) as trouble:
        raise OperationError(f"Redis at {upstream.shown}: {cause(trouble)}") from trouble
    redis = client(server, "ttlproxy:purge", settings.connect_timeout)
    masters: Sequence[NodeOfSeveral] = ()
    try:
        await redis.initialize()
        keys.clustered = await is_node(redis)
        masters = await several_masters(server, "ttlproxy:purge", settings.connect_timeout)
        proxies = await attached(redis, keys.prefix)
        if proxies and not (how.force or how.is_dry):
            there = counted(proxies, "proxy is", "proxies are")
            raise OperationError(
                f"{there} connected to {upstream.shown}: stop all proxies first, or use --force to"
                " remove the deadlines while they run"
            )
        nodes: Sequence[Redis] = masters or [redis]
        outboxes = set() if how.force else await _outboxes(nodes, keys)
        for node in nodes:
            await _purge_server(node, keys, how, outboxes, progress)
        if outboxes:
            progress.say(
                "elements still wait in outboxes for other slots: start a proxy, which carries"
                " them, or use --force to remove them"
            )
    except (RedisError, OSError, UpstreamError, ValueError) as trouble:
        raise OperationError(f"Redis at {upstream.shown}: {cause(trouble)}") from trouble
    finally:
        progress.clear()
        await close_all(masters)
        await redis.aclose()


async def _outboxes(nodes: Sequence[Redis], keys: Keys) -> set[bytes]:
    """Returns the names of outboxes, of their indexes and of the positions of slots; none if
    nothing waits."""
    found = set[bytes]()
    for node in nodes if keys.clustered else ():
        async for names, _ in scan(node, 0, keys.outboxes_pattern):
            found.update(names)
    boxes = [name for name in found if keys.destination(name) is not None]
    return found.union(map(keys.index, boxes)) if boxes else set()


async def _purge_server(
    redis: Redis, keys: Keys, how: PurgeOptions, outboxes: Collection[bytes], progress: Progress
) -> None:
    at = f"{redis.shown}, " if isinstance(redis, NodeOfSeveral) else ""
    keyspace: dict[str, Any] = await redis.info("keyspace")
    sizes = {int(name[2:]): about["keys"] for name, about in keyspace.items() if name[:2] == "db"}
    if not sizes:
        progress.say(f"{at}there are no keys at all")
    for db in sorted(sizes):
        database = _PurgedDatabase(db, sizes[db], f"{at}database {db}", redis)
        removed, kept = await _purge(database, keys, how, outboxes, progress)
        if kept and not (how.is_dry or keys.clustered):  # a proxy that finds no state hides nothing
            note = (b"SADD", keys.others, keys.state)
            await run(redis, [(0, (b"HSET", keys.state, b"layout", LAYOUT)), (0, note)])
        progress.say(how.sentence(database.shown, removed))
        if kept:
            progress.say(
                f"{database.shown}: elements of {counted(kept, 'key')} still wait for TAKE:"
                " take them through a proxy, or use --force to remove them"
            )


class _PurgedDatabase(NamedTuple):
    """A logical database; names: how many keys it has; shown: it, and its server if there are
    several, for people"""

    db: int
    names: int
    shown: str
    redis: Redis


async def _give_back(redis: Redis, db: int, keys: Keys, names: Sequence[bytes]) -> None:
    """Gives keys back their own expiry, which rules have put off, because their indexes are
    removed."""
    found = [(name, key) for name in names if (key := keys.data(name)) is not None]
    asked = [(db, (b"ZSCORE", name, KEY_EXPIRY)) for name, _ in found]
    scores = await run(redis, asked) if asked else []
    ends = [
        (key, -int(float(score)))
        for (_, key), score in zip(found, scores, strict=True)
        if isinstance(score, bytes | float)
    ]
    if not ends:
        return
    (clock,) = await run(redis, [(db, (b"TIME",))])
    now_ms = unix_ms(valid(clock))
    lefts = await run(redis, [(db, (b"PTTL", key)) for key, _ in ends])
    off = [
        (db, (b"PEXPIREAT", key, at_ms))
        for (key, at_ms), left_ms in zip(ends, lefts, strict=True)
        if abs(now_ms + valid(left_ms) - at_ms - KEPT_MS) < KEPT_SLACK_MS
    ]
    if off:
        await run(redis, off)


async def _purge(
    database: _PurgedDatabase,
    keys: Keys,
    how: PurgeOptions,
    outboxes: Collection[bytes],
    progress: Progress,
) -> tuple[int, int]:
    """Purges one database; returns (number of keys removed, number of keys whose elements wait for
    TAKE)."""
    db, names, shown, redis = database
    command = (b"EXISTS",) if how.is_dry else (b"UNLINK",)
    removed, looked_at, kept, posted = 0, 0, set[bytes](), set[bytes]()

    def how_far() -> str:
        return how.sentence(shown, removed) + of_names(looked_at, names)

    try:
        for pattern in (keys.pattern, *([keys.outboxes_pattern] if keys.clustered else [])):
            async for page, _ in scan(redis, db, pattern):
                if not how.force:
                    kept.update(name for name in page if keys.is_kept(name))
                    posted.update(name for name in page if name in outboxes)
                gone = [name for name in page if name not in kept and name not in posted]
                if not how.is_dry:
                    await _give_back(redis, db, keys, gone)
                requests = [(db, (*command, *group)) for group in keys.groups(gone)]
                removed += sum(map(valid, await run(redis, requests)))
                looked_at += LARGE_PAGE
                progress.at(how_far)
    except asyncio.CancelledError:
        more = "" if how.is_dry else "; start it again to remove the rest"
        progress.say(f"interrupted: {how_far()}{more}")
        raise
    (count,) = await run(redis, [(db, (*command, keys.home(keys.state)))])
    if not how.is_dry:
        # DBSIZE of a proxy that is started again does not count what is noted.
        groups = keys.groups(kept | {name for name in posted if name.startswith(keys.outbox)})
        notes = [(db, (b"SADD", keys.shared_by(group[0], keys.others), *group)) for group in groups]
        await run(redis, notes)
    return removed + valid(count), len(kept)
