"""What requests on their way may change of what all sessions share.

Only their client has said so, and Redis may refuse it. So it is believed as far as that does no
harm if it is wrong, and until the link has looked. Where the link found nothing changed, nothing is
believed for a while, so that who says it again and again costs others little. Knows no connection
and no clock.
"""

from __future__ import annotations

from typing import Final, NamedTuple, Protocol

from ttlproxy.core.registry import Registry
from ttlproxy.scripts import Scripts

# Reads of all schedules after a swap: it may have been carried out behind the first.
_READS: Final = 2


class Claim(Protocol):
    """One request of a client's."""

    def believe(self, scripts: Scripts, registry: Registry) -> bool:
        """Makes ready for what it says, and for its being refused; whether that costs anything."""


class Flush:
    """SCRIPT FLUSH: until the link has looked, scripts go as text."""

    def believe(self, scripts: Scripts, registry: Registry) -> bool:
        scripts.flushed()
        return True


class Events(NamedTuple):
    """CONFIG SET notify-keyspace-events: until the link has looked, nothing is left out."""

    flags: str

    def believe(self, scripts: Scripts, registry: Registry) -> bool:
        before = scripts.traits
        scripts.doubts += 1
        scripts.suit(before.perhaps_notifying(self.flags))
        return scripts.traits != before


class Users:
    """ACL SETUSER and its like: who may do what is looked at, and until then as it was."""

    def believe(self, scripts: Scripts, registry: Registry) -> bool:
        return False


class Swap(NamedTuple):
    """SWAPDB as it came: until the schedules are read anew, each database has the keys of both."""

    one: int
    other: int

    def believe(self, scripts: Scripts, registry: Registry) -> bool:
        registry.perhaps_swapped(self.one, self.other)
        return True


class Claims:
    """Context by all sessions and the link.

    believed: whether no claim of late was wrong
    """

    __slots__ = ("_costs", "_reads", "_scripts", "believed")

    def __init__(self, scripts: Scripts) -> None:
        self._scripts = scripts
        self._reads = 0
        self._costs = False
        self.believed = True

    def note(self, claim: Claim, registry: Registry) -> None:
        """A request is about to be forwarded."""
        if isinstance(claim, Swap):
            self._reads = _READS
        if self.believed:
            self._costs = claim.believe(self._scripts, registry) or self._costs

    def were_wrong(self, changed: bool) -> bool:
        """The link has looked: whether what was believed was wrong, and costly; no more of it."""
        costs, self._costs = self._costs, False
        if not costs or changed:
            return False
        self.believed = False
        return True

    def wants_reading(self) -> bool:
        """Whether the schedules have to be read anew now."""
        wanted = self._reads > 0
        self._reads = max(self._reads - 1, 0)
        return wanted
