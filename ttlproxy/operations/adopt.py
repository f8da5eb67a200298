"""`ttlproxy adopt`: gives existing elements without a deadline one, through a running proxy.

Knows the commands of a client, and its own position. The proxy does the rest: it tells other
proxies, and an element that has got a deadline meanwhile, by whatever way, keeps it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import aclosing
from random import Random
from typing import Any, Final, NamedTuple, TypeAlias

from redis.asyncio import Redis
from redis.exceptions import RedisError, ResponseError

from ttlproxy.addresses import Upstream
from ttlproxy.core.element_types import TYPES, ElementType
from ttlproxy.core.text import counted
from ttlproxy.errors import OperationError
from ttlproxy.link import cause, client, is_wrong_type, run, valid
from ttlproxy.net.progress import Progress
from ttlproxy.operations.key_walk import KeyWalk, Pace, ResumeFile, WalkPosition

Words = tuple[bytes, ...]

# The most elements of a page. Redis walks through all of a list for each request about it.
_PAGE: Final = 500
_LIST_PAGE: Final = 5_000


class Page(NamedTuple):
    """A page of a key's elements.

    A list is read from its head, then, if it has several pages, from its tail: what a pop at one
    end has moved past the reader is found from the other end.
    at: the cursor, or the number of elements before the page; from_tail: whether a list is read
    from there
    """

    key: bytes
    type: ElementType
    at: int = 0
    from_tail: bool = False

    @property
    def request(self) -> Words:
        """The request that reads the page."""
        if self.type.scan:
            return (self.type.scan.encode(), self.key, b"%d" % self.at, b"COUNT", b"%d" % _PAGE)
        first, last = self.at, self.at + _LIST_PAGE - 1
        if self.from_tail:
            first, last = -last - 1, -first - 1
        return (b"LRANGE", self.key, b"%d" % first, b"%d" % last)

    def read(self, reply: Any) -> tuple[Sequence[bytes], list[Page]]:
        """Reads the reply to `request`; returns (elements, the pages after this one)."""
        if self.type.scan:
            cursor, words = reply
            rest = [self._replace(at=int(cursor))] if cursor != b"0" else []
            return list(dict.fromkeys(words[:: self.type.width])), rest
        if len(reply) == _LIST_PAGE:
            rest = [self._replace(at=self.at + _LIST_PAGE)]
        else:
            is_half = self.at and not self.from_tail
            rest = [self._replace(at=0, from_tail=True)] if is_half else []
        return list(dict.fromkeys(reply)), rest

    def order(self, elements: Sequence[bytes], ttl_ms: int) -> Words:
        """Returns a request that gives a deadline to those of the elements that have none; its
        reply has 1 for each that got one."""
        name = self.type.command("PEXPIRE")
        return (name, self.key, b"%d" % ttl_ms, b"NX", *self._named(elements))

    def question(self, elements: Sequence[bytes]) -> Words:
        """Returns a request whose reply has -1 for each element without a deadline."""
        return (self.type.command("PTTL"), self.key, *self._named(elements))

    def _named(self, elements: Sequence[bytes]) -> Words:
        return (self.type.keyword, b"%d" % len(elements), *elements)


# Keys that are looked at in one round trip: each may have a page of elements.
_TOGETHER: Final = 16
# The number of different deadlines that elements of a page get with a jitter: one request for each
# element would cost the server ten times as much.
_SPREAD: Final = 32
# The most words of a request; Lua's unpack fails at 8,000.
_MOST: Final = 5_000
# The position at which a run begins, and what was counted until there.
_Begun: TypeAlias = tuple[WalkPosition, Counter[str]]


class Wanted(NamedTuple):
    """The elements that get a deadline, and which.

    pattern: of keys; db: their database; ttl_ms: the time to live; jitter: up to this many percent
    more, at random; kind: the type of the keys, all if empty
    """

    pattern: bytes
    ttl_ms: int
    jitter: int = 0
    kind: bytes = b""
    db: int = 0


class AdoptOptions(NamedTuple):
    """rate: keys and elements to look at per second, at most; is_dry: whether nothing is changed

    state: where the run keeps its position
    """

    rate: int
    is_dry: bool = False
    state: ResumeFile = ResumeFile()


async def adopted(
    proxy: Upstream, timeout_s: float, wanted: Wanted, how: AdoptOptions, progress: Progress
) -> None:
    """Goes through all keys, and reports what it did. Raises OperationError.

    It may be interrupted at any time: the next run skips elements that have a deadline, and with
    `state` it also goes on where this one was.
    """
    begun = how.state.load(_noted) or (WalkPosition(), Counter())
    redis = client(proxy, "ttlproxy:adopt", timeout_s)
    adoption = _Adoption(redis, wanted, how, begun, progress)
    try:
        await redis.initialize()
        if isinstance((await run(redis, [(0, (b"TTLPROXY", b"HELP"))]))[0], ResponseError):
            raise OperationError(f"{proxy.shown} is no ttlproxy: name one with --proxy")
        await adoption.run()
    except (RedisError, OSError) as trouble:
        raise OperationError(f"the proxy at {proxy.shown}: {cause(trouble)}") from trouble
    finally:
        progress.say(adoption.so_far())
        await redis.aclose()


class _Adoption:
    """One run."""

    def __init__(
        self, redis: Redis, wanted: Wanted, how: AdoptOptions, begun: _Begun, progress: Progress
    ) -> None:
        self._redis = redis
        self._wanted = wanted
        self._is_dry = how.is_dry
        self._state = how.state
        self._progress = progress
        self._pace = Pace(how.rate)
        self._random = Random()
        self._is_over = False
        # keys that were looked at, elements, and those of them that got a deadline
        self._place, self._counts = begun

    def so_far(self) -> str:
        has_got = "has got" if self._counts["dated"] == 1 else "have got"
        done = "would get" if self._is_dry else has_got
        keys, elements = self._counts["keys"], self._counts["elements"]
        whole = "" if self._is_over else "stopped: "
        return (
            f"{whole}database {self._wanted.db}: {counted(keys, 'key')} with"
            f" {counted(elements, 'element')}, of which {self._counts['dated']} {done} a deadline"
        )

    async def run(self) -> None:
        wanted = self._wanted
        walk = KeyWalk(
            self._redis,
            wanted.db,
            self._pace,
            self._place,
            match=wanted.pattern,
            kind=wanted.kind,
        )
        async with aclosing(walk.pages()) as pages:
            async for names in pages:
                self._state.keep({"place": walk.place, "counts": self._counts})
                await self._adopt(names)
        self._is_over = True
        self._state.remove()

    async def _adopt(self, names: Sequence[bytes]) -> None:
        kinds = await self._asked([(b"TYPE", name) for name in names])
        waiting = [
            Page(key, TYPES[kind])
            for key, kind in zip(names, kinds, strict=True)
            if isinstance(kind, bytes) and kind in TYPES
        ]
        self._counts["keys"] += len(waiting)
        while waiting:
            now, waiting = waiting[:_TOGETHER], waiting[_TOGETHER:]
            waiting = [*await self._date(now), *waiting]

    async def _date(self, pages: Sequence[Page]) -> list[Page]:
        """Gives deadlines to the elements of these pages; returns the pages after them."""
        replies = await self._asked([page.request for page in pages])
        following, requests, elements = list[Page](), list[tuple[bytes, ...]](), 0
        for page, reply in zip(pages, replies, strict=True):
            if reply is not None:
                found, more = page.read(reply)
                elements += len(found)
                requests += self._dating(page, found)
                following += more
        await self._pace.spend(len(pages) + elements)
        outcomes = [each for reply in await self._asked(requests) for each in reply or ()]
        self._counts["elements"] += elements
        self._counts["dated"] += outcomes.count(-1 if self._is_dry else 1)
        self._progress.at(self.so_far)
        return following

    def _dating(self, page: Page, elements: Sequence[bytes]) -> Iterator[tuple[bytes, ...]]:
        if self._is_dry:
            for at in range(0, len(elements), _MOST):
                yield page.question(elements[at : at + _MOST])
            return
        groups = max(_SPREAD if self._wanted.jitter else 1, -(-len(elements) // _MOST))
        for group in (elements[first::groups] for first in range(min(groups, len(elements)))):
            more_ms = self._random.randint(0, self._wanted.ttl_ms * self._wanted.jitter // 100)
            yield page.order(group, self._wanted.ttl_ms + more_ms)

    async def _asked(self, requests: Sequence[tuple[bytes, ...]]) -> list[Any]:
        """Returns the replies; None if the key has another type by now."""
        db = self._wanted.db
        replies = await run(self._redis, [(db, words) for words in requests]) if requests else []
        return [
            None if isinstance(reply, ResponseError) and is_wrong_type(reply) else valid(reply)
            for reply in replies
        ]


def _noted(kept: Any) -> _Begun:
    return WalkPosition(*kept["place"]), Counter(kept["counts"])
