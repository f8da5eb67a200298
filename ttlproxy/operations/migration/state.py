"""How far an import is, as its file keeps it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Final, Self

from ttlproxy.operations.key_walk import Place

MOVING: Final = "moving"
CHECKING: Final = "checking"


@dataclass
class State:
    """
    phase: MOVING or CHECKING; part: the number of the source's part; place: how far it is there
    counts: of keys and of outcomes in this phase, by name; moved: those of MOVING when it is over
    """

    phase: str = MOVING
    part: int = 0
    place: Place = field(default_factory=Place)
    counts: Counter[str] = field(default_factory=Counter)
    moved: Counter[str] = field(default_factory=Counter)

    @classmethod
    def of(cls, kept: Any) -> Self:
        """From what `kept` gave. Raises KeyError or TypeError."""
        return cls(
            *(kept["phase"], kept["part"], Place(*kept["place"])),
            *(Counter(kept["counts"]), Counter(kept["moved"])),
        )

    def kept(self) -> dict[str, Any]:
        """What JSON can have."""
        return vars(self)

    def check(self) -> None:
        """MOVING is over."""
        self.phase, self.part, self.place = CHECKING, 0, Place()
        self.moved, self.counts = self.counts, Counter()
