"""What replies tell: of which requests a client's state depends, and on what they have done."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Generic, NamedTuple, TypeAlias, TypeVar

# Values that one setting of a client may have, for all that is known.
_MOST: Final = 16
# How errors begin.
ERRORS: Final = b"-!"

Tell: TypeAlias = Callable[[bytes | None], bool]
"""Is told how a reply begins: its first line, with its line break; None: it will never be known.
Returns whether the client gets the reply."""


class Told(NamedTuple):
    """A request of a chunk whose reply matters.

    before: how many requests of the chunk come before it; tell: is told its reply; confirmations:
    of a subscription, how many it has if it is not refused
    """

    before: int
    tell: Tell | None = None
    confirmations: int = 0


def all_of(tells: Sequence[Tell]) -> Tell:
    """Tells all of them, whose answers are the same."""

    def tell_all(line: bytes | None) -> bool:
        goes = True
        for tell in tells:
            goes = tell(line)
        return goes

    return tell_all


V = TypeVar("V")


class Candidates(Generic[V]):
    """The values of which one holds: a request that sets another may be refused, or not have been
    carried out yet.

    It keeps no more than _MOST: the oldest are forgotten first, but not the one that held last.
    """

    __slots__ = ("_holds", "_may_hold", "_tried")

    def __init__(self, value: V) -> None:
        self._holds = value  # for certain, unless one of the others does
        self._tried: tuple[V, ...] = ()  # by requests whose replies have not come, oldest first
        self._may_hold: tuple[V, ...] = ()  # by requests whose replies will never be known

    @property
    def values(self) -> tuple[V, ...]:
        """The newest first."""
        newest = (*reversed((*self._may_hold, *self._tried)[1 - _MOST :]), self._holds)
        return tuple(dict.fromkeys(newest))

    def tries(self, value: V) -> None:
        """A request sets it, if it is not refused."""
        self._tried += (value,)

    def may_be(self, value: V) -> None:
        """A request may set it at any time, and nobody will know."""
        self._may_hold = (*self._may_hold[-_MOST:], value)

    def answered(self, is_set: bool | None) -> None:
        """The first request that has not been answered has, or never will be: None."""
        value, *tried = self._tried
        self._tried = tuple(tried)
        if is_set:
            self._holds, self._may_hold = value, ()
        elif is_set is None:
            self.may_be(value)
