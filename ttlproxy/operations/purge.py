"""`ttlproxy purge`: takes everything of ours out of Redis. Data stays, and loses its deadlines."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from redis.asyncio import Redis
from redis.exceptions import RedisError

from ttlproxy.addresses import Upstream
from ttlproxy.config import Settings
from ttlproxy.core.keys import Keys
from ttlproxy.errors import PurgeError
from ttlproxy.link import attached, client, run, valid

_PAGE = 1000


async def purged(
    settings: Settings, upstream: Upstream, force: bool, say: Callable[[str], None]
) -> None:
    """Removes all internal keys, in every database; says what it removed of each.

    Unless `force` is set, elements that are kept for TAKE stay. Raises PurgeError where proxies are
    there that would go on using internal keys, unless `force` is set, and where Redis is not there
    or refuses.
    """
    keys = Keys(settings.prefix.encode())
    redis = client(upstream, "ttlproxy:purge", settings.connect_timeout)
    try:
        await redis.initialize()
        proxies = await attached(redis, keys.prefix)
        if proxies and not force:
            raise PurgeError(
                f"{proxies} of its proxies are before {upstream.shown}: stop them first, or say"
                " --force, which takes all deadlines from under them"
            )
        for db in await _databases(redis):
            removed, kept = await _purge(redis, db, keys, force)
            say(f"database {db}: {removed} internal keys removed")
            if kept:
                say(
                    f"database {db}: elements of {kept} keys are kept: TAKE them through a proxy,"
                    " or say --force, which removes them"
                )
    except RedisError as trouble:
        raise PurgeError(f"Redis at {upstream.shown}: {trouble}") from trouble
    finally:
        await redis.aclose()


async def _databases(redis: Redis) -> list[int]:
    """The logical databases that hold keys."""
    keyspace: dict[str, Any] = await redis.info("keyspace")
    return sorted(int(name.removeprefix("db")) for name in keyspace if name.startswith("db"))


async def _purge(redis: Redis, db: int, keys: Keys, force: bool) -> tuple[int, int]:
    """One database, a page of names at a time, so that nobody else has to wait long.

    Gives how many keys were removed, and of how many elements are kept.
    """
    removed, kept, cursor = 0, set[bytes](), b"0"
    while True:
        words = (b"SCAN", cursor, b"MATCH", keys.pattern, b"COUNT", _PAGE)
        (reply,) = await run(redis, [(db, words)])
        cursor, names = valid(reply)
        if not force:
            kept.update(name for name in names if keys.is_kept(name))
            names = [name for name in names if name not in kept]
        if names:
            (count,) = await run(redis, [(db, (b"UNLINK", *names))])
            removed += valid(count)
        if cursor == b"0":
            break
    (count,) = await run(redis, [(db, (b"UNLINK", keys.state))])
    if kept:  # for the DBSIZE of proxies to come
        await run(redis, [(db, (b"SADD", keys.others, *kept))])
    return removed + valid(count), len(kept)
