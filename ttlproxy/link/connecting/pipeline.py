"""Several requests in one round trip, each with its own database and its own outcome."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from itertools import islice
from typing import Any, Final, TypeAlias, cast

from redis.asyncio import Redis
from redis.exceptions import ResponseError

from ttlproxy.link.connecting.connections import OwnConnection, nothing
from ttlproxy.wire import encode

# Keys that one script call is for. A call costs Redis 400 us, and each key 2 us to look at it, or
# 15 us to reap it where few elements are due.
KEYS_PER_CALL: Final = 128
Words = Sequence[bytes | int]
AskForKeys: TypeAlias = Callable[[Redis, Sequence[tuple[int, Words]]], Awaitable[list[object]]]
"""Sends (db, words) for each request; returns the replies, Redis's errors as exceptions."""


class RoutingRedis(Redis):
    """A connection to one of several nodes; a request with a key goes to the node that has it.

    A transaction goes to this node as a whole.
    """

    def node_of(self, words: Words) -> Redis:
        """The connection for the next request; one to this node if it names no key."""
        raise NotImplementedError


async def run(
    redis: Redis, requests: Iterable[tuple[int, Words]], on_reply: Callable[[], None] = nothing
) -> list[object]:
    """Sends (db, words) for each request; returns the replies, Redis's errors as exceptions.

    All are sent at once: redis-py's own pipeline costs 0.3 ms more, as much as reaping thirty keys.
    `on_reply` is called for each reply as it comes. If Redis refuses what opens the connection, as
    while a script keeps it busy, that is the reply to each request. Raises redis-py's
    ConnectionError or TimeoutError. `redis` is a `client`.
    """
    if isinstance(redis, RoutingRedis):
        return await _spread(redis, list(requests), on_reply)
    pool = redis.connection_pool
    try:
        connection = await pool.get_connection()
    except ResponseError as refusal:
        return [refusal for _ in requests]
    try:
        return await _exchange(cast(OwnConnection, connection), requests, on_reply)
    finally:
        await pool.release(connection)


async def ask(redis: Redis, parts: Mapping[str, Sequence[Words]]) -> dict[str, list[Any]]:
    """Sends the words of all parts at once, in database 0; returns the replies of each part."""
    replies = iter(await run(redis, [(0, words) for part in parts.values() for words in part]))
    return {name: list(islice(replies, len(part))) for name, part in parts.items()}


async def _spread(
    redis: RoutingRedis, requests: Sequence[tuple[int, Words]], on_reply: Callable[[], None]
) -> list[object]:
    """The same at several nodes."""
    places: dict[Redis, list[int]] = {}
    for at, (_, words) in enumerate(requests):
        places.setdefault(redis.node_of(words), []).append(at)
    found: dict[int, object] = {}
    for node, numbers in places.items():
        replies = await run(node, [requests[at] for at in numbers], on_reply)
        found.update(zip(numbers, replies, strict=True))
    return [found[at] for at in range(len(requests))]


async def _exchange(
    connection: OwnConnection,
    requests: Iterable[tuple[int, Words]],
    on_reply: Callable[[], None],
) -> list[object]:
    """The same on one connection; if redis-py connects anew, it selects the connection's `db`."""
    sent: list[bytes] = []
    wanted: list[tuple[int, int | None, int]] = []  # db; positions of SELECT's and its own reply
    before = current = int(connection.db)
    selected: int | None = None
    for db, words in requests:
        if db != current:
            current, selected = db, len(sent)
            sent.append(encode((b"SELECT", db)))
        wanted.append((db, selected, len(sent)))
        sent.append(encode(tuple(words)))
    connection.db = 0  # until all has gone well
    await connection.send_packed_command(b"".join(sent), check_health=False)
    replies = await connection.read_replies(len(sent), on_reply)
    if selected is None:
        connection.db = before
        return replies
    found: list[object] = []
    actual = before
    for db, at, reply in wanted:
        refusal = None if at is None else error(replies[at])
        if at is not None and refusal is None:
            actual = db
        found.append(_outcome(db, actual, refusal, replies[reply]))
    connection.db = actual
    return found


async def everywhere(
    redis: Redis, databases: Iterable[int], words: Words
) -> tuple[dict[int, Any], dict[int, ResponseError]]:
    """Sends a request in several databases; returns replies, and Redis's errors, by database."""
    asked = list(databases)
    if not asked:
        return {}, {}
    replies = dict(zip(asked, await run(redis, [(db, words) for db in asked]), strict=True))
    refused = {db: refusal for db, reply in replies.items() if (refusal := error(reply))}
    return {db: valid(reply) for db, reply in replies.items() if db not in refused}, refused


def valid(reply: object) -> Any:
    """The reply; raises it if it is an error of Redis."""
    if isinstance(reply, Exception):
        raise reply
    return reply


def error(reply: object) -> ResponseError | None:
    """The reply if it is an error of Redis, else None."""
    return reply if isinstance(reply, ResponseError) else None


def _outcome(db: int, actual: int, refusal: ResponseError | None, reply: object) -> object:
    """The reply, unless the request was carried out in another database than it was meant for.

    `actual`: where it was; `refusal`: of the SELECT before it. A number that is out of range came
    from a client that believes its own SELECT, and nothing is there.
    """
    if refusal is None or actual == db or "out of range" in str(refusal):
        return reply
    return refusal
