"""Walks over the keys of one database with SCAN, a page at a time, at a limited rate, from the
position of an earlier walk, which a file keeps.

Knows names of keys, its position, and which run a file belongs to. Does not know what is done with
the keys.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from math import inf
from pathlib import Path
from time import monotonic
from types import MappingProxyType
from typing import Any, Final, NamedTuple, TypeVar

from redis.asyncio import Redis

from ttlproxy.errors import OperationError
from ttlproxy.link import run, valid
from ttlproxy.link.connecting.known_server import fields

PAGE: Final = 500
# Names that one SCAN is asked for by callers that do not limit their rate.
LARGE_PAGE: Final = 1000


class WalkPosition(NamedTuple):
    """The position of a walk: the pages before `cursor` have been worked through.

    server: the run_id of the server that the cursor is from; keys: how many names there were
    """

    server: str = ""
    cursor: str = "0"
    keys: int = 0
    is_over: bool = False


class Pace:
    """Limits things per second, evenly: time that was not used is lost."""

    def __init__(
        self,
        per_second: float,
        clock: Callable[[], float] = monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """`clock()` returns seconds."""
        self._one_s = 1 / per_second
        self._clock = clock
        self._sleep = sleep
        self._free_s = clock()

    async def spend(self, things: int) -> None:
        """Returns when it is time for this number of things."""
        now_s = self._clock()
        begin_s = max(now_s, self._free_s)
        self._free_s = begin_s + things * self._one_s
        if begin_s > now_s:
            await self._sleep(begin_s - now_s)


class KeyWalk:
    """Goes through the keys of database `db`, from `place` on.

    Like SCAN, it returns each key that exists all the time at least once, and may return a key
    twice.

    place: its position; the last page of `pages` counts only when the next one is asked for, so a
    walk that is stopped repeats its page
    """

    def __init__(
        self,
        redis: Redis,
        db: int,
        pace: Pace,
        place: WalkPosition,
        *,
        match: bytes = b"*",
        kind: bytes = b"",
        page: int = PAGE,
    ) -> None:
        """`match`: a pattern for names; `kind`: as TYPE says it, all if empty; `page`: for COUNT"""
        self.place = place
        self._redis = redis
        self._db = db
        self._pace = pace
        self._match = match
        self._kind = (b"TYPE", kind) if kind else ()
        self._page = page

    async def pages(self) -> AsyncGenerator[list[bytes], None]:
        """Yields the names, a page at a time, some of them empty. Raises redis-py's RedisError.

        A server that was restarted counts in another order, so the walk begins again there.
        """
        server = await self._run_id()
        if self.place.server != server and not self.place.is_over:
            self.place = WalkPosition(server)
        while not self.place.is_over:
            cursor = self.place.cursor.encode()
            words = (b"SCAN", cursor, b"MATCH", self._match, b"COUNT", self._page, *self._kind)
            await self._pace.spend(1)
            (reply,) = await run(self._redis, [(self._db, words)])
            following, names = valid(reply)
            yield names
            keys = self.place.keys + len(names)
            self.place = WalkPosition(server, following.decode(), keys, following == b"0")

    async def _run_id(self) -> str:
        """Returns the server's run_id; empty if it does not tell."""
        (reply,) = await run(self._redis, [(self._db, (b"INFO", b"server"))])
        return fields(valid(reply)).get("run_id", "")


async def scan(
    redis: Redis, db: int, pattern: bytes = b"*", pages: float = inf
) -> AsyncIterator[tuple[list[bytes], bool]]:
    """Yields (names, whether they are the last ones) for each page of SCAN, of at most `pages`."""
    cursor, seen = b"", 0
    while cursor != b"0" and seen < pages:
        words = (b"SCAN", cursor or b"0", b"MATCH", pattern, b"COUNT", LARGE_PAGE)
        ((cursor, names),) = map(valid, await run(redis, [(db, words)]))
        seen += 1
        yield names, cursor == b"0"


_JOB: Final = "job"
T = TypeVar("T")


class ResumeFile:
    """Exists while a run is unfinished."""

    def __init__(
        self, path: Path | None = None, job: Mapping[str, str] = MappingProxyType({})
    ) -> None:
        """`path`: without one, nothing is kept; `job`: what makes it the same run."""
        self._path = path
        self._job = dict(job)

    def load(self, read: Callable[[Any], T]) -> T | None:
        """Returns what `read` makes of what was kept; None if there is no file.

        Raises OperationError, also if the file belongs to another run. `read` may raise KeyError,
        TypeError or ValueError.
        """
        if self._path is None:
            return None
        try:
            content: Any = json.loads(self._path.read_text("utf-8"))
            job, kept = dict(content[_JOB]), read(content)
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError) as trouble:
            raise OperationError(f"{self._path} is no state that can be read: {trouble}") from None
        names = sorted(name for name in {*job, *self._job} if job.get(name) != self._job.get(name))
        if names:
            raise OperationError(
                f"{self._path} is of another run, which is not over ({', '.join(names)} differ):"
                f" delete the file, or name another one with --state"
            )
        return kept

    def keep(self, kept: Mapping[str, Any]) -> None:
        """Replaces what was kept before. Raises OperationError."""
        if self._path is None:
            return
        beside = self._path.with_name(f"{self._path.name}.new")
        try:
            beside.write_text(json.dumps({_JOB: self._job, **kept}), "utf-8")
            os.replace(beside, self._path)
        except OSError as trouble:
            raise OperationError(f"cannot write {self._path}: {trouble.strerror}") from None

    def remove(self) -> None:
        """Removes the file: the run is over, and the next one begins anew."""
        if self._path is not None:
            self._path.unlink(missing_ok=True)
