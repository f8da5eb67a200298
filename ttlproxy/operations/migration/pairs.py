"""Sorted sets with the deadlines of elements of another key, as many programs keep them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from math import ceil, isfinite
from typing import Any, Final, NamedTuple

from ttlproxy.core.expiry_actions import filled, marks
from ttlproxy.core.glob import Glob, stars
from ttlproxy.core.keys import slot
from ttlproxy.errors import UnfitKey
from ttlproxy.link.connecting.known_server import unix_ms
from ttlproxy.link.connecting.pipeline import Words
from ttlproxy.operations.migration.connection import SCANS, Server
from ttlproxy.operations.migration.elements import (
    NO_KEY,
    PROXY_WORDS,
    Element,
    Found,
    Outcome,
    Page,
    SourcePart,
    TargetState,
    shown,
)

# From September 2001 to November 2286 Unix time has 13 digits in ms, and 10 in seconds. So a number
# that is meant in the other unit is outside.
_EARLIEST_MS: Final = 10**12
_LATEST_MS: Final = 10**13


class Unit(NamedTuple):
    """ms: how many ms it has; other: the name of the unit that may be meant instead"""

    name: str
    ms: int
    other: str


UNITS: Final[Mapping[str, Unit]] = {"s": Unit("s", 1000, "ms"), "ms": Unit("ms", 1, "s")}


def deadline_ms(score: bytes, unit: Unit, member: bytes, key: bytes) -> int | None:
    """Returns a deadline from the score of a member of `key`; None if it is infinite.

    Raises UnfitKey if it cannot be meant as a deadline.
    """
    number = float(score)
    if number == float("inf"):
        return None
    found = round(number * unit.ms) if isfinite(number) else 0
    if _EARLIEST_MS <= found < _LATEST_MS:
        return found
    other = UNITS[unit.other]
    fits = _EARLIEST_MS <= number * other.ms < _LATEST_MS
    hint = (
        f"it is one in {other.name}: use --unit {other.name}"
        if fits
        else "are the scores deadlines? As deadlines, they are Unix times"
    )
    raise UnfitKey(
        f"{shown(key)} has member {shown(member)} with score {score.decode()}, which is no time in"
        f" {unit.name} between 2001 and 2286: {hint}"
    )


def score(deadline: int, unit: Unit) -> int:
    """Returns a deadline in ms as a number in the unit, never earlier."""
    return ceil(deadline / unit.ms)


class Naming:
    """A pattern for names, and the name that belongs to each: `%1` is what the first star matched,
    and `%K` the whole name."""

    def __init__(self, pattern: bytes, template: bytes, *, is_elsewhere: bool = False) -> None:
        """`is_elsewhere`: whether the other name is on another server, where a key may have the
        same name.

        Raises ValueError if the template has a star's number that the pattern does not have.
        """
        known = {b"K", *(b"%d" % number for number in range(1, stars(pattern) + 1))}
        if unknown := marks(template) - known:
            text = ", ".join(sorted(f"%{mark.decode()}" for mark in unknown))
            raise ValueError(f"the pattern has no star for {text}")
        self.pattern = pattern
        self._glob = Glob(pattern)
        self._template = template
        self._is_elsewhere = is_elsewhere

    def other(self, name: bytes) -> bytes:
        """Returns the name that belongs to `name`. Raises UnfitKey if they are equal."""
        found = filled(self._template, name, self._glob.match(name) or ())
        if found == name and not self._is_elsewhere:
            raise UnfitKey(f"{shown(name)} would belong to itself: give another name")
        return found


class PairsSource:
    """Sorted sets with the deadlines of elements, on the target itself. `naming`: from their names
    to those of the keys with elements."""

    slack_ms = 0
    compares = False

    def __init__(self, server: Server, naming: Naming, unit: Unit, *, is_clustered: bool) -> None:
        self.parts: Sequence[SourcePart] = (SourcePart(naming.pattern, b"zset"),)
        self.server = server
        self._naming = naming
        self._unit = unit
        self._is_clustered = is_clustered

    async def page(self, name: bytes, part: SourcePart, cursor: bytes) -> Page:
        key = self._naming.other(name)
        # Keys of several slots cannot be watched: then a deadline that changes now may be missed.
        keys = [key] if self._is_clustered and slot(key) != slot(name) else [key, name]
        scan = SCANS[b"zset"]
        read = await self.server.watched(keys, [(b"TYPE", key), scan.words(name, cursor)])
        kind, (following, listed) = map(self.server.valid, read)
        if kind not in PROXY_WORDS and kind != NO_KEY:
            raise UnfitKey(
                f"{shown(key)} is a {kind.decode()}, which has no elements, but {shown(name)} has"
                " deadlines for it: does --data name the right key?"
            )
        elements = [
            Element(member, deadline_ms(at or b"", self._unit, member, name))
            for member, at in scan.pairs(listed)
        ]
        return Page(key, kind, elements, following)


class PairsTarget:
    """Sorted sets with the deadlines of elements. `naming`: from names of keys with elements to
    their names."""

    def __init__(self, server: Server, naming: Naming, unit: Unit) -> None:
        self.slack_ms = unit.ms - 1
        self.server = server
        self._naming = naming
        self._unit = unit

    async def read_state(self, page: Page, *, with_values: bool) -> TargetState:
        """See Target. The elements themselves are not read."""
        key = self._naming.other(page.key)
        words = (b"ZMSCORE", key, *(element.name for element in page.elements))
        requests: list[Words] = [(b"TYPE", key), (b"TIME",), words]
        there, time, scores = await self.server.watched([key], requests)
        kind = self.server.valid(there)
        if kind not in (b"zset", NO_KEY):
            raise UnfitKey(
                f"{shown(key)} is a {kind.decode()}, and no sorted set: give deadlines another"
                " name with --beside"
            )
        found = [
            Found(True, deadline_ms(at, self._unit, name, key) if at else None)
            for (name, *_), at in zip(page.elements, self.server.valid(scores), strict=True)
        ]
        return TargetState(found, unix_ms(self.server.valid(time)))

    def ttl_requests(self, page: Page, elements: Sequence[Element]) -> list[Words]:
        if not elements:
            return []
        words: list[bytes | int] = []
        for name, at, _ in elements:
            assert at is not None
            words += [score(at, self._unit), name]
        return [(b"ZADD", self._naming.other(page.key), b"NX", *words)]

    def outcomes(self, request: Words, reply: Any) -> Counter[Outcome]:
        there_too = (len(request) - 3) // 2 - reply
        return Counter({Outcome.DATED: reply, Outcome.OTHER: there_too})

    def add_requests(self, page: Page, elements: Sequence[Element]) -> list[Words]:
        """See Target. Nothing is ever missing here."""
        return []
