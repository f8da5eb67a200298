"""Elements with deadlines of their own: in a proxy, or in a server that has them itself."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from typing import Any, Final, NamedTuple

from ttlproxy.errors import UnfitKey
from ttlproxy.link.connecting.known_server import unix_ms
from ttlproxy.link.connecting.pipeline import Words
from ttlproxy.operations.migration.connection import Server, scanned
from ttlproxy.operations.migration.elements import (
    NATIVE_WORDS,
    NO_KEY,
    PROXY_WORDS,
    Element,
    Found,
    Outcome,
    Page,
    SourcePart,
    TargetState,
    TimedWords,
    shown,
)

# Redis 8's replies.
_NO_DEADLINE: Final = -1
_NOT_THERE: Final = -2


class Reading(NamedTuple):
    """The way to read deadlines from a kind of server.

    kinds: the types that have deadlines there; slack_ms: see Source
    requests: makes the requests for these elements of a key of this type
    deadlines: reads the replies, with the server's time: Unix time in ms, _NO_DEADLINE or
    _NOT_THERE
    hides_whole: whether it may not report the deadline of a key whose elements have deadlines
    """

    kinds: Sequence[bytes]
    slack_ms: int
    requests: Callable[[bytes, bytes, Sequence[bytes]], list[Words]]
    deadlines: Callable[[list[Any], int], list[int]]
    hides_whole: bool = False


def _by_table(words: Mapping[bytes, TimedWords]) -> Reading:
    """Returns the reading of a server with these commands; `words`: by type."""

    def requests(key: bytes, kind: bytes, names: Sequence[bytes]) -> list[Words]:
        _, read, elements = words[kind]
        return [(read, key, elements, len(names), *names)]

    return Reading(tuple(words), 0, requests, lambda replies, now_ms: list(replies[0]))


# KeyDB gives the same reply for an element that is not there as for one without a deadline.
_IS_THERE: Final = {b"hash": b"HEXISTS", b"set": b"SISMEMBER", b"zset": b"ZSCORE"}


def _ask_keydb(key: bytes, kind: bytes, names: Sequence[bytes]) -> list[Words]:
    command = _IS_THERE[kind]
    return [words for name in names for words in ((b"PTTL", key, name), (command, key, name))]


def _of_keydb(replies: list[Any], now_ms: int) -> list[int]:
    return [
        now_ms + left_ms if left_ms >= 0 else _NO_DEADLINE if is_there else _NOT_THERE
        for left_ms, is_there in zip(replies[::2], replies[1::2], strict=True)
    ]


def _of_dragonfly(replies: list[Any], now_ms: int) -> list[int]:
    return [
        now_ms + 1000 * left_s if left_s >= 0 else max(left_s, _NOT_THERE) for left_s in replies
    ]


READINGS: Final[Mapping[str, Reading]] = {
    "ttlproxy": _by_table(PROXY_WORDS),
    "native": _by_table(NATIVE_WORDS),
    # Both tell how much time is left, so the replies to two questions differ. KeyDB 6.3.4 sets no
    # expireEntryFat::m_whenPrimary (expire.h), and tells it.
    "keydb": Reading((b"hash", b"set", b"zset"), 1000, _ask_keydb, _of_keydb, hides_whole=True),
    "dragonfly": Reading(
        (b"hash", b"set"),
        2000,
        lambda key, kind, names: [(b"FIELDTTL", key, name) for name in names],
        _of_dragonfly,
    ),
}


class TimedSource:
    """Reads elements from a server with a Reading.

    has_data: whether its data is that of the target
    copies: whether elements without deadlines, and deadlines of whole keys, are of interest
    """

    def __init__(
        self, server: Server, match: bytes, reading: Reading, *, has_data: bool, copies: bool
    ) -> None:
        self.parts: Sequence[SourcePart] = [SourcePart(match, kind) for kind in reading.kinds]
        self.slack_ms = reading.slack_ms
        self.compares = not has_data
        self.server = server
        self._reading = reading
        self._copies = copies

    async def page(self, name: bytes, part: SourcePart, cursor: bytes) -> Page:
        if part.kind == b"list":  # lists are not scanned: the proxy tells which have deadlines
            (listed,) = await self.server.ask((b"TTLPROXY", b"KEY", name))
            return Page(name, b"list", [Element(element, int(at)) for element, at in listed])
        found = await scanned(self.server, name, part.kind, cursor)
        names = [element for element, _ in found.pairs]
        if not names:
            return Page(name, part.kind, (), found.cursor)
        replies = await self.server.ask(*self._reading.requests(name, part.kind, names))
        deadlines = self._reading.deadlines(replies, found.now_ms)
        elements = [
            Element(element, None if at == _NO_DEADLINE else at, value)
            for (element, value), at in zip(found.pairs, deadlines, strict=True)
            if at >= 0 or (at == _NO_DEADLINE and self._copies)
        ]
        if not self._copies:
            return Page(name, part.kind, elements, found.cursor)
        whole, has_some = found.key_deadline_ms, any(at >= 0 for at in deadlines)
        is_untold = self._reading.hides_whole and has_some and whole is None
        return Page(name, part.kind, elements, found.cursor, whole, is_untold)


# The outcome by the reply, about an element, to a request that sets a deadline.
_BY_REPLY: Final[Mapping[int, Outcome]] = {
    1: Outcome.DATED,
    0: Outcome.OTHER,
    2: Outcome.DELETED,
    -2: Outcome.GONE,
}
# The types whose elements have values.
_VALUES: Final = {b"hash": b"HMGET", b"zset": b"ZMSCORE"}


# The words that add elements, before and for each element.
_ADDS: Final[Mapping[bytes, tuple[Words, Words, Callable[[Element], Words]]]] = {
    b"hash": ((b"HSET",), (), lambda element: (element.name, element.value or b"")),
    b"set": ((b"SADD",), (), lambda element: (element.name,)),
    b"zset": ((b"ZADD",), (b"NX",), lambda element: (element.value or b"", element.name)),
}


class TimedTarget:
    """Sets deadlines with a server's own commands; `words`: these, by type."""

    slack_ms = 0

    def __init__(self, server: Server, words: Mapping[bytes, TimedWords]) -> None:
        self.server = server
        self._words = words

    async def read_state(self, page: Page, *, with_values: bool) -> TargetState:
        if page.kind == NO_KEY:
            return TargetState([Found(is_there=False) for _ in page.elements], 0, has_key=False)
        names = [element.name for element in page.elements]
        read, word = self._words[page.kind].read, self._words[page.kind].elements
        wants_values = with_values and page.kind in _VALUES
        reads: Words = (read, page.key, word, len(names), *names)
        requests: list[Words] = [(b"TYPE", page.key), (b"TIME",), reads]
        if wants_values:
            requests.append((_VALUES[page.kind], page.key, *names))
        kind, time, deadlines, *more = await self.server.watched([page.key], requests)
        there = self.server.valid(kind)
        if there not in (page.kind, NO_KEY):
            raise UnfitKey(
                f"{shown(page.key)} at {self.server.shown} is a {there.decode()}, and not a"
                f" {page.kind.decode()}"
            )
        values = self.server.valid(more[0]) if more else [None] * len(names)
        found = [
            Found(at != _NOT_THERE, None if at < 0 else at, value)
            for at, value in zip(self.server.valid(deadlines), values, strict=True)
        ]
        return TargetState(found, unix_ms(self.server.valid(time)), there != NO_KEY)

    def ttl_requests(self, page: Page, elements: Sequence[Element]) -> list[Words]:
        groups: dict[int, list[bytes]] = {}
        for name, at, _ in elements:
            assert at is not None
            groups.setdefault(at, []).append(name)
        date, word = self._words[page.kind].date, self._words[page.kind].elements
        return [
            (date, page.key, at, b"NX", word, len(names), *names) for at, names in groups.items()
        ]

    def outcomes(self, request: Words, reply: Any) -> Counter[Outcome]:
        return Counter(_BY_REPLY[number] for number in reply)

    def add_requests(self, page: Page, elements: Sequence[Element]) -> list[Words]:
        if not elements:
            return []
        command, option, words = _ADDS[page.kind]
        return [(*command, page.key, *option, *chain.from_iterable(map(words, elements)))]
