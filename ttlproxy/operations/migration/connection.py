"""A connection to one of the servers, in one database, and pages of the elements of a key there.

Errors name the server.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final, NamedTuple, Self

from redis.exceptions import ConnectionError, RedisError, ResponseError

from ttlproxy.addresses import Upstream
from ttlproxy.core.element_types import TYPES
from ttlproxy.errors import OperationError, UnfitKey
from ttlproxy.link import client, reason, run, valid
from ttlproxy.link.connecting.known_server import fields, unix_ms
from ttlproxy.link.connecting.pipeline import Words
from ttlproxy.operations.migration.elements import PAGE

_OF_A_KEY: Final = ("noperm", "wrongtype")


class Server:
    """A server, or a proxy. Between `watched` and `transaction` it does not connect anew, because
    nothing would be watched then.

    redis: the connection; db: the logical database
    """

    def __init__(self, upstream: Upstream, db: int, timeout_s: float) -> None:
        self.shown = upstream.shown
        self.redis = client(upstream, "ttlproxy:migration", timeout_s, opened=self._opened)
        self.db = db
        self._watches = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.redis.aclose()

    async def replies(self, requests: Sequence[Words]) -> list[object]:
        """Returns the replies, Redis's errors as exceptions. Raises OperationError."""
        with self.errors():
            return await run(self.redis, [(self.db, words) for words in requests])

    async def ask(self, *requests: Words) -> list[Any]:
        """Returns the replies. Raises OperationError, also for an error of Redis."""
        return [self.valid(reply) for reply in await self.replies(requests)]

    def valid(self, reply: object) -> Any:
        """Returns the reply. Raises OperationError if it is an error of Redis."""
        with self.errors():
            return valid(reply)

    async def watched(self, keys: Sequence[bytes], requests: Sequence[Words]) -> list[object]:
        """Returns the replies, as `replies` does, after WATCH: if one of these keys changes,
        `transaction` does nothing."""
        done, *replies = await self.replies([(b"WATCH", *keys), *requests])
        self.valid(done)
        self._watches = True
        return replies

    async def transaction(self, requests: Sequence[Words]) -> list[Any] | None:
        """Returns the replies; None if a watched key has changed: then nothing was done.

        Without requests it only ends the watching.
        """
        try:
            if not requests:
                if self._watches:
                    await self.ask((b"UNWATCH",))
                return []
            *_, replies = await self.ask((b"MULTI",), *requests, (b"EXEC",))
        finally:
            self._watches = False
        return None if replies is None else [self.valid(reply) for reply in replies]

    async def is_clustered(self) -> bool:
        (info,) = await self.ask((b"INFO", b"cluster"))
        return fields(info).get("cluster_enabled") == "1"

    @contextmanager
    def errors(self) -> Iterator[None]:
        """Raises OperationError for errors of Redis; UnfitKey if other keys may be in order."""
        try:
            yield
        except (RedisError, OSError) as trouble:
            is_of_key = isinstance(trouble, ResponseError) and reason(trouble) in _OF_A_KEY
            kind = UnfitKey if is_of_key else OperationError
            raise kind(f"{self.shown}: {trouble}") from trouble

    def _opened(self) -> None:
        if self._watches:
            raise ConnectionError("the connection was lost")


Pairs = Sequence[tuple[bytes, bytes | None]]


class ScanCommand(NamedTuple):
    """command: reads a page; width: how many words of its reply are about an element"""

    command: bytes
    width: int

    def words(self, key: bytes, cursor: bytes) -> Words:
        """Returns the request. Its reply is the next cursor, and what `pairs` takes."""
        return (self.command, key, cursor, b"COUNT", PAGE)

    def pairs(self, listed: Sequence[bytes]) -> Pairs:
        """Returns (element, value) for each; without values None."""
        values = listed[1::2] if self.width == 2 else [None] * len(listed)
        return list(zip(listed[:: self.width], values, strict=True))


SCANS: Final[Mapping[bytes, ScanCommand]] = {
    name: ScanCommand(type_.scan.encode(), type_.width)
    for name, type_ in TYPES.items()
    if type_.scan
}


class Scanned(NamedTuple):
    """A page of a key as it is at the source: see `Page`. now_ms: Unix time there"""

    cursor: bytes
    pairs: Pairs
    key_deadline_ms: int | None
    now_ms: int


async def scanned(server: Server, key: bytes, kind: bytes, cursor: bytes) -> Scanned:
    """Returns the elements from `cursor` on. Raises OperationError."""
    scan = SCANS[kind]
    (following, listed), left_ms, time = await server.ask(
        scan.words(key, cursor), (b"PTTL", key), (b"TIME",)
    )
    now_ms = unix_ms(time)
    whole_ms = now_ms + left_ms if left_ms >= 0 else None
    return Scanned(following, scan.pairs(listed), whole_ms, now_ms)
