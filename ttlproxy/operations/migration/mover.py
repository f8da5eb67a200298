"""Goes through the keys of a source, gives each page to the target, and keeps its position."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any, Final, Self

from ttlproxy.errors import UnfitKey
from ttlproxy.link.connecting.pipeline import Words
from ttlproxy.operations.key_walk import KeyWalk, Pace, WalkPosition
from ttlproxy.operations.migration.elements import (
    END,
    Outcome,
    Page,
    Plan,
    Rules,
    Source,
    SourcePart,
    Target,
    shown,
)

MOVING: Final = "moving"
CHECKING: Final = "checking"


@dataclass
class State:
    """The position of a run, and its counts.

    phase: MOVING or CHECKING; part: the number of the source's part; place: the position there
    counts: of keys and of outcomes in this phase, by name; moved: those of MOVING when it is over
    """

    phase: str = MOVING
    part: int = 0
    place: WalkPosition = field(default_factory=WalkPosition)
    counts: Counter[str] = field(default_factory=Counter)
    moved: Counter[str] = field(default_factory=Counter)

    @classmethod
    def of(cls, kept: Any) -> Self:
        """Reads what `kept` returned. Raises KeyError or TypeError."""
        return cls(
            *(kept["phase"], kept["part"], WalkPosition(*kept["place"])),
            *(Counter(kept["counts"]), Counter(kept["moved"])),
        )

    def kept(self) -> dict[str, Any]:
        """Returns the state as JSON can have it."""
        return vars(self)

    def check(self) -> None:
        """Begins CHECKING, because MOVING is over."""
        self.phase, self.part, self.place = CHECKING, 0, WalkPosition()
        self.moved, self.counts = self.counts, Counter()


# Attempts at a page whose key changes meanwhile.
_TRIES: Final = 20
# Names in a page of the walk, all of which are looked at again after an interruption.
_NAMES: Final = 100
_EXAMPLES: Final = 5
# These are counted besides outcomes: elements of keys that change all the time; and keys: all,
# those that do not fit, and those whose own deadline the source does not tell.
BUSY: Final = "busy"
KEYS: Final = "keys"
UNFIT: Final = "unfit"
HIDDEN: Final = "hidden"


def elements(counts: Counter[str]) -> int:
    """Returns the number of elements that are counted."""
    return counts.total() - sum(counts[name] for name in (KEYS, UNFIT, HIDDEN))


@dataclass
class Mover:
    """One pass over all keys.

    state: its position; it counts outcomes, and the names above
    is_dry: whether nothing is written; the outcomes are then what would be
    examples: some elements that are written, or would be
    unfit: what is wrong with some of the keys that do not fit
    """

    source: Source
    target: Target
    rules: Rules
    state: State
    pace: Pace
    is_dry: bool
    examples: list[str] = field(default_factory=list)
    unfit: list[str] = field(default_factory=list)

    async def run(self, tell: Callable[[], None]) -> None:
        """Goes on from the position of `state`; `tell()` is called now and then. Raises
        OperationError."""
        while self.state.part < len(self.source.parts):
            await self._keys(self.source.parts[self.state.part], tell)
            self.state.part, self.state.place = self.state.part + 1, WalkPosition()

    async def _keys(self, part: SourcePart, tell: Callable[[], None]) -> None:
        walk = KeyWalk(
            *(self.source.server.redis, self.source.server.db, self.pace, self.state.place),
            match=part.match,
            kind=part.kind,
            page=_NAMES,
        )
        with self.source.server.errors():
            async with aclosing(walk.pages()) as pages:
                async for names in pages:
                    self.state.place = walk.place
                    for name in names:
                        await self._key(name, part, tell)
                    tell()

    async def _key(self, name: bytes, part: SourcePart, tell: Callable[[], None]) -> None:
        counts, is_untold = self.state.counts, False
        try:
            page = await self._page(name, part, END)
            while page.cursor != END:
                tell()
                is_untold = is_untold or page.is_deadline_untold
                page = await self._page(name, part, page.cursor)
            counts[HIDDEN] += is_untold or page.is_deadline_untold
        except UnfitKey as unfit:
            await self.target.server.transaction([])
            counts[UNFIT] += 1
            said = str(unfit) if shown(name) in str(unfit) else f"{shown(name)} at {unfit}"
            self.unfit += [said][: _EXAMPLES - len(self.unfit)]
        counts[KEYS] += 1

    async def _page(self, name: bytes, part: SourcePart, cursor: bytes) -> Page:
        """Moves the elements of the page from `cursor` on; returns the page."""
        for _ in range(_TRIES):
            page = await self.source.page(name, part, cursor)
            outcomes = await self._outcomes(page)
            await self.pace.spend(len(page.elements))
            if outcomes is not None:
                self.state.counts.update(outcomes)
                return page
        self.state.counts[BUSY] += len(page.elements)
        return page

    async def _outcomes(self, page: Page) -> Counter[Outcome] | None:
        """Returns the outcomes of a page; None if the key has changed meanwhile."""
        if not page.elements:
            await self.target.server.transaction([])
            return Counter()
        found = await self.target.read_state(page, with_values=self.rules.compares)
        plan = self.rules.plan(page, found)
        written = [*plan.to_expire, *plan.to_add][: _EXAMPLES - len(self.examples)]
        self.examples += [f"{shown(page.key)} {shown(element.name)}" for element in written]
        if self.is_dry:
            await self.target.server.transaction([])
            return plan.outcomes
        return await self._written(page, plan, has_key=found.has_key)

    async def _written(self, page: Page, plan: Plan, *, has_key: bool) -> Counter[Outcome] | None:
        dates = self.target.ttl_requests(page, plan.to_expire)
        adds = self.target.add_requests(page, plan.to_add)
        timed = [element for element in plan.to_add if element.deadline_ms is not None]
        whole: list[Words] = []
        if adds and not has_key and page.key_deadline_ms is not None:
            whole = [(b"PEXPIREAT", page.key, page.key_deadline_ms)]
        replies = await self.target.server.transaction(
            [*dates, *adds, *self.target.ttl_requests(page, timed), *whole]
        )
        if replies is None:
            return None
        outcomes = plan.outcomes.copy()
        for outcome in (Outcome.DATED, Outcome.DELETED):
            outcomes.pop(outcome, None)
        for request, reply in zip(dates, replies, strict=False):
            outcomes.update(self.target.outcomes(request, reply))
        return outcomes
