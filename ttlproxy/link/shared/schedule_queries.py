"""The link's questions to schedules: one sorted set for each database, or for each slot of a
Cluster.

Redis's errors are returned by database, or by slot, because a schedule may be overwritten by its
clients or not be ours to read. Every method raises redis-py's ConnectionError or TimeoutError.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Iterable, Mapping, Sequence
from itertools import islice
from math import floor
from typing import Any, Final, NamedTuple

from redis.asyncio import Redis
from redis.exceptions import ResponseError

from ttlproxy.commands import Call
from ttlproxy.core.keys import Keys
from ttlproxy.core.registry import DbKey
from ttlproxy.link.connecting.failures import is_elsewhere, is_wrong_type
from ttlproxy.link.connecting.pipeline import Words, error, run, valid
from ttlproxy.wire import NOTHING_DUE

PAGE = 1000
# Schedules that are asked in one round trip.
_TOGETHER: Final = 512
# Pages that are read at a time of what needs attention soon: each takes the proxy 1 ms.
_MOST_PAGES = 10
# Due keys that are read at a time.
DUE = 4096

Refused = dict[int, ResponseError]


def whole_ms(score: bytes) -> int:
    """Returns a score as a deadline, rounded down and limited: a whole ms is later than both or
    than neither. Scores are whole ms, unless somebody has written something else by hand."""
    return floor(min(max(float(score), 0), NOTHING_DUE))


class UnreadError(ResponseError):
    """Redis has refused access to some schedules; all others were read."""

    def __init__(self, refused: Refused) -> None:
        super().__init__("; ".join(map(str, refused.values())))
        self.refused = refused


class Late(NamedTuple):
    """The number of keys that are due in all schedules, and since when the first of them has been,
    in ms.

    refused: Redis's errors; such a schedule counts as empty
    """

    keys: int
    first_ms: int | None
    refused: Refused


class Overdue:
    """The keys that are past their deadline and still there, at the last look. The registry cannot
    tell: it holds lower bounds, and hears of no other proxy's reaps.

    keys: how many are overdue in all databases
    broken: databases, or slots of a Cluster, where another type of key is in place of the schedule
    """

    def __init__(self) -> None:
        self.keys = 0
        self.broken: list[int] = []
        self._first_ms: int | None = None  # the earliest deadline that is past

    def update(self, late: Late) -> None:
        """Takes what Redis has just told."""
        self.keys, self._first_ms, refused = late
        self.broken = [db for db, refusal in refused.items() if is_wrong_type(refusal)]

    def oldest_s(self, now_ms: int) -> float:
        """Returns for how long the oldest key has been due, in s; 0 if none is."""
        first_ms = self._first_ms
        return 0.0 if first_ms is None else max(now_ms - first_ms, 0) / 1000


class Soon(NamedTuple):
    """The keys that need attention soon: (key, when, in ms). No other key needs it before
    `until_ms`."""

    entries: list[tuple[bytes, int]]
    until_ms: int


class ScheduleQueries:
    """The schedules of one server's databases."""

    def __init__(self, keys: Keys) -> None:
        self._keys = keys

    def shown(self, which: int) -> str:
        """Returns the database of a schedule, for people."""
        return f"database {which}"

    def clearing(self, which: int) -> tuple[int, Call]:
        """Returns the database of a schedule, and the call that removes what stands in its
        place."""
        return which, Call("schedule_clear", (), ())

    def has_place(self, which: int, key: bytes) -> bool:
        """Whether a key of that database belongs into this schedule."""
        return True

    def slots(self) -> Collection[int]:
        """The slots that have managed keys; none unless in front of a Cluster."""
        return ()

    def to_count(self, has_rules: bool) -> bytes:
        """Returns the slots that slots_count.lua looks at, as it takes them; has_rules: of
        ONEXPIRE."""
        return b""

    async def find(self, redis: Redis) -> None:
        """Finds out which schedules there are, if there may be many."""

    async def due(
        self, redis: Redis, databases: Iterable[int], now_ms: int, most: int = DUE
    ) -> tuple[list[DbKey], Refused]:
        """Returns the keys that need attention, the earliest of each database first, at most `most`
        of each."""
        words = (b"ZRANGEBYSCORE", b"", *before(now_ms), b"LIMIT", 0, most)
        pages, refused = await self._ask(redis, databases, words)
        return [(db, key) for db, page in pages.items() for key in page], refused

    async def next_ms(self, redis: Redis, databases: Iterable[int], now_ms: int) -> int | None:
        """Returns when the first key needs attention that does not need it yet; None if there is
        none."""
        heads, _ = await self._ask(redis, databases, since(now_ms))
        return min((whole_ms(head[1]) for head in heads.values() if head), default=None)

    async def late(self, redis: Redis, databases: Iterable[int], now_ms: int) -> Late:
        """Returns what needs attention by now."""
        asked = list(databases)
        replies = await run(redis, [(db, self.first_late(now_ms)) for db in asked])
        return await self.counted(redis, dict(zip(asked, replies, strict=True)), now_ms)

    def first_late(self, now_ms: int) -> Words:
        """Returns the request for the first key of a database that needs attention by now."""
        until = (b"ZRANGEBYSCORE", self._keys.schedule, *before(now_ms))
        return (*until, b"WITHSCORES", b"LIMIT", 0, 1)

    def how_many(self) -> Words:
        """Returns the request for the number of managed keys in a database."""
        return (b"ZCARD", self._keys.schedule)

    async def counted(self, redis: Redis, heads: Mapping[int, Any], now_ms: int) -> Late:
        """Returns the keys that need attention, after the replies to `first_late` by database."""
        refused = {db: refusal for db, head in heads.items() if (refusal := error(head))}
        firsts = {
            db: whole_ms(valid(head)[1]) for db, head in heads.items() if head and db not in refused
        }
        counts, _ = await self._ask(redis, firsts, (b"ZCOUNT", b"", *before(now_ms)))
        return Late(sum(counts.values()), min(firsts.values(), default=None), refused)

    async def pages(self, redis: Redis, db: int) -> AsyncIterator[list[tuple[bytes, int]]]:
        """Yields all keys and when they need attention, in ms. Raises UnreadError, too."""
        refused: Refused = {}
        async for _, entries, _ in self._scan(redis, [db], refused):
            yield entries
        if refused:
            raise UnreadError(refused)

    async def soon(self, redis: Redis, db: int, since_ms: int, most_ms: int) -> Soon:
        """Returns the keys that need attention from `since_ms` on, and before `most_ms`. Raises
        UnreadError, too."""
        entries: list[tuple[bytes, int]] = []
        for _ in range(_MOST_PAGES):
            (reply,) = await run(redis, [(db, between(self._keys.schedule, since_ms, most_ms))])
            if refusal := error(reply):
                raise UnreadError({db: refusal})
            page = scored(valid(reply))
            entries += page
            if len(page) < PAGE:
                return Soon(entries, most_ms)
            if page[-1][1] == since_ms:
                break
            since_ms = page[-1][1]
        return Soon(entries, since_ms)

    async def scores(self, redis: Redis, db: int, keys: Sequence[bytes]) -> list[int | None]:
        """Returns when each key needs attention, in ms; None if it is not in the schedule. Raises
        redis-py's ResponseError, too."""
        (reply,) = await run(redis, [(db, (b"ZMSCORE", self._keys.schedule, *keys))])
        return [None if score is None else whole_ms(score) for score in valid(reply)]

    async def scan(self, redis: Redis, db: int) -> AsyncIterator[list[bytes]]:
        """Yields all keys, page by page. Raises redis-py's ResponseError, too."""
        try:
            async for entries in self.pages(redis, db):
                yield [key for key, _ in entries]
        except UnreadError as unread:
            raise unread.refused[db] from None

    async def sample(self, redis: Redis, db: int, most: int) -> list[bytes]:
        """Returns a random sample of managed keys. Raises redis-py's ResponseError, too."""
        (names,) = await run(redis, [(db, (b"ZRANDMEMBER", self._keys.schedule, most))])
        return list(valid(names))

    async def lacking(self, redis: Redis, db: int, keys: Sequence[bytes]) -> list[bytes]:
        """Returns the keys among these that are not in the schedule. Raises redis-py's
        ResponseError, too."""
        scores = await self.scores(redis, db, keys)
        return [key for key, score in zip(keys, scores, strict=True) if score is None]

    def _place(self, which: int) -> tuple[int, bytes]:
        """Returns the database and the name of a schedule."""
        return which, self._keys.schedule

    async def _ask(
        self, redis: Redis, asked: Iterable[int], words: Words
    ) -> tuple[dict[int, Any], Refused]:
        """Returns the replies by schedule, and Redis's errors; the second word is replaced by the
        schedule's name."""
        found: dict[int, Any] = {}
        refused: Refused = {}
        left = iter(asked)
        while some := {each: self._place(each) for each in islice(left, _TOGETHER)}:
            requests = [(db, (words[0], name, *words[2:])) for db, name in some.values()]
            for which, reply in zip(some, await run(redis, requests), strict=True):
                if refusal := error(reply):
                    refused[which] = refusal
                else:
                    found[which] = reply
        return found, refused

    async def _scan(
        self, redis: Redis, asked: Iterable[int], refused: Refused
    ) -> AsyncIterator[tuple[int, list[tuple[bytes, int]], bool]]:
        """Yields (schedule, entries, whether these are its last). Adds Redis's errors to
        `refused`."""
        cursors = dict.fromkeys(asked, b"0")
        while cursors:
            some = dict(islice(cursors.items(), _TOGETHER))
            places = [(*self._place(which), cursor) for which, cursor in some.items()]
            requests = [(db, (b"ZSCAN", name, at, b"COUNT", PAGE)) for db, name, at in places]
            for which, reply in zip(some, await run(redis, requests), strict=True):
                if refusal := error(reply):
                    if not is_elsewhere(refusal):
                        refused[which] = refusal
                    del cursors[which]
                    continue
                cursors[which], entries = valid(reply)
                is_whole = cursors[which] == b"0"
                if is_whole:
                    del cursors[which]
                yield which, scored(entries), is_whole


def before(now_ms: int) -> tuple[bytes, bytes]:
    """Returns the range of scores that are past: a deadline is past once the clock is beyond it."""
    return b"-inf", b"(%d" % now_ms


def since(now_ms: int) -> Words:
    """Returns the request for the first key that needs attention then or later; the schedule's name
    is put in."""
    return (b"ZRANGEBYSCORE", b"", now_ms, b"+inf", b"WITHSCORES", b"LIMIT", 0, 1)


def between(schedule: bytes, since_ms: int, most_ms: int) -> Words:
    """Returns the request for a page of what needs attention then, and when."""
    limits = (since_ms, b"(%d" % most_ms, b"WITHSCORES", b"LIMIT", 0, PAGE)
    return (b"ZRANGEBYSCORE", schedule, *limits)


def scored(page: Sequence[Any]) -> list[tuple[bytes, int]]:
    """Returns a reply WITHSCORES as (key, ms)."""
    return list(zip(page[::2], map(whole_ms, page[1::2]), strict=True))
