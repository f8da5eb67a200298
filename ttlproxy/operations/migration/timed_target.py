"""Elements that have deadlines of their own: through a proxy, or hash fields of a newer server."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any, Final

from ttlproxy.errors import UnfitKey
from ttlproxy.link.connecting.pipeline import Words
from ttlproxy.operations.migration.connection import Server
from ttlproxy.operations.migration.elements import (
    NO_KEY,
    Element,
    Found,
    Glance,
    Outcome,
    Page,
    TimedWords,
    milliseconds,
    shown,
)

# What a request that sets a deadline says of an element.
_BY_REPLY: Final[Mapping[int, Outcome]] = {
    1: Outcome.DATED,
    0: Outcome.OTHER,
    2: Outcome.DELETED,
    -2: Outcome.GONE,
}
# Of the types whose elements have values.
_VALUES: Final = {b"hash": b"HMGET", b"zset": b"ZMSCORE"}
# What a request that reads a deadline says of an element that is not there.
_NOT_THERE: Final = -2


def _of_hash(element: Element) -> tuple[bytes, ...]:
    return element.name, element.value or b""


def _of_set(element: Element) -> tuple[bytes, ...]:
    return (element.name,)


def _of_zset(element: Element) -> tuple[bytes, ...]:
    return element.value or b"", element.name


# The words that add elements, before and for each element.
_ADDS: Final = {
    b"hash": (b"HSET", (), _of_hash),
    b"set": (b"SADD", (), _of_set),
    b"zset": (b"ZADD", (b"NX",), _of_zset),
}


class TimedTarget:
    """`words`: its commands, by type."""

    slack_ms = 0

    def __init__(self, server: Server, words: Mapping[bytes, TimedWords]) -> None:
        self._server = server
        self._words = words

    async def look(self, page: Page, *, with_values: bool) -> Glance:
        """See Target."""
        if page.kind == NO_KEY:
            return Glance([Found(is_there=False) for _ in page.elements], 0, has_key=False)
        names = [element.name for element in page.elements]
        read, word = self._words[page.kind].read, self._words[page.kind].elements
        wants_values = with_values and page.kind in _VALUES
        reads: Words = (read, page.key, word, len(names), *names)
        requests: list[Words] = [(b"TYPE", page.key), (b"TIME",), reads]
        if wants_values:
            requests.append((_VALUES[page.kind], page.key, *names))
        kind, time, deadlines, *more = await self._server.watched([page.key], requests)
        there = self._server.valid(kind)
        if there not in (page.kind, NO_KEY):
            raise UnfitKey(
                f"{shown(page.key)} at {self._server.shown} is a {there.decode()}, and not a"
                f" {page.kind.decode()}"
            )
        values = self._server.valid(more[0]) if more else [None] * len(names)
        found = [
            Found(at != _NOT_THERE, None if at < 0 else at, value)
            for at, value in zip(self._server.valid(deadlines), values, strict=True)
        ]
        return Glance(found, milliseconds(self._server.valid(time)), there != NO_KEY)

    def dates(self, page: Page, elements: Sequence[Element]) -> list[Words]:
        """See Target."""
        groups: dict[int, list[bytes]] = {}
        for name, at, _ in elements:
            assert at is not None
            groups.setdefault(at, []).append(name)
        date, word = self._words[page.kind].date, self._words[page.kind].elements
        return [
            (date, page.key, at, b"NX", word, len(names), *names) for at, names in groups.items()
        ]

    def outcomes(self, request: Words, reply: Any) -> Counter[Outcome]:
        """See Target."""
        return Counter(_BY_REPLY[number] for number in reply)

    def adds(self, page: Page, elements: Sequence[Element]) -> list[Words]:
        """See Target."""
        if not elements:
            return []
        command, option, words = _ADDS[page.kind]
        return [(command, page.key, *option, *chain.from_iterable(map(words, elements)))]
