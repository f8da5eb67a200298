"""Unconfirmed changes: what requests on their way may change of what all sessions share.

Redis may refuse such a request. So the change is believed only as far as that does no harm if it
never happens, until the request has been answered and the link has looked. If the link found
nothing changed, none is believed for a while, so that a client that repeats such a request costs
others little. Knows no connection and no clock.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

from ttlproxy.scripts import Scripts


class Forgetful(Protocol):
    """The knowledge of keys."""

    def forget_all(self) -> None:
        """Forgets all keys: any of them may be another one now."""


class UnconfirmedChange(Protocol):
    """A change that one request may make."""

    def believe(self, scripts: Scripts, registry: Forgetful) -> bool:
        """Prepares for success and for refusal; returns whether that costs others anything."""


class Flush:
    """SCRIPT FLUSH: until the link has looked, scripts go as text."""

    def believe(self, scripts: Scripts, registry: Forgetful) -> bool:
        costs = scripts.loaded
        scripts.flushed()
        return costs


class Events(NamedTuple):
    """CONFIG SET notify-keyspace-events: until the link has looked, old and new events count."""

    flags: str

    def believe(self, scripts: Scripts, registry: Forgetful) -> bool:
        before = scripts.traits
        scripts.doubts += 1
        scripts.suit(before.perhaps_notifying(self.flags))
        return scripts.traits != before


class Users:
    """ACL SETUSER and similar: the known rights count until the link has looked at the users."""

    def believe(self, scripts: Scripts, registry: Forgetful) -> bool:
        return False


class Swap(NamedTuple):
    """SWAPDB as it came: until the schedules are read, nothing is known of any key."""

    one: int
    other: int

    def believe(self, scripts: Scripts, registry: Forgetful) -> bool:
        registry.forget_all()
        return True


class UnconfirmedChanges:
    """Shared by all sessions and the link.

    believed: whether they are believed now: none was wrong lately
    """

    __slots__ = ("_costs", "_scripts", "_swapped", "believed")

    def __init__(self, scripts: Scripts) -> None:
        self._scripts = scripts
        self._swapped = False  # since the schedules were last read
        self._costs = False
        self.believed = True

    def note(self, change: UnconfirmedChange, registry: Forgetful) -> None:
        """A request that may make this change is about to be forwarded."""
        if isinstance(change, Swap):
            self._swapped = True
        if self.believed:
            self._scripts.changed = self._scripts.changed and self._costs
            self._costs = change.believe(self._scripts, registry) or self._costs

    def sent(self) -> None:
        """A request that may make some was sent."""
        self._scripts.unanswered += 1

    def answered(self) -> None:
        """It has been answered, or should have been carried out."""
        self._scripts.unanswered -= 1

    def were_wrong(self, changed: bool) -> bool:
        """The link has looked. Returns whether a costly change was wrong; then none is believed. It
        is not known while one may still come.

        None was if something was found changed meanwhile: the heartbeat may have seen the effect
        before this look, or scripts may have been loaded for another flush.
        """
        if self._scripts.unanswered:
            return False
        costs, self._costs = self._costs, False
        if not costs or changed or self._scripts.changed:
            return False
        self.believed = False
        return True

    def wants_reading(self) -> bool:
        """Whether the schedules must be read again now. Once is enough after the last reply."""
        wanted, self._swapped = self._swapped, self._swapped and self._scripts.unanswered > 0
        return wanted
