"""Traits of the server that scripts must know; they become part of the scripts' text."""

from __future__ import annotations

from typing import NamedTuple

from ttlproxy.core.element_types import TYPES

_TYPES = "".join(type_.letter for type_ in TYPES.values())
_CHANNELS = "KESTIV"


class Traits(NamedTuple):
    """field_ttls: hash fields may have deadlines that the server keeps itself.

    subkeys: `notify-keyspace-events` has letters for events with subkeys (Redis 8.8);
    events: the types and channels of the events that scripts publish, as letters of that setting,
    "" for none; counting: a rule counts how often an element is handed on;
    ruled: some database has a rule; flags: a script may declare that it writes nothing, and ask
    what its client may do (Redis 7.0); careful: a user may lack a right that a script needs;
    clustered: it is a Cluster's node, so each slot has a schedule of its own (core/keys.py).
    """

    field_ttls: bool = False
    subkeys: bool = False
    events: str = ""
    counting: bool = False
    ruled: bool = False
    flags: bool = False
    careful: bool = True
    clustered: bool = False

    def notifying(self, flags: str) -> Traits:
        """The traits with the events that `flags`, a value of `notify-keyspace-events`, asks for.

        If there are no letters for events with subkeys, K and E stand for S and T too.
        """
        types = _TYPES if "A" in flags else [letter for letter in _TYPES if letter in flags]
        channels = [letter for letter in _CHANNELS if letter in flags]
        if not self.subkeys:
            channels += [theirs for ours, theirs in ("KS", "ET") if ours in channels]
        wanted = types and channels
        return self._replace(events="".join([*types, *channels]) if wanted else "")

    def perhaps_notifying(self, flags: str) -> Traits:
        """The traits with the events of now and those of `flags`, until it is known which hold."""
        both = {*self.events, *self.notifying(flags).events}
        return self._replace(events="".join(each for each in _TYPES + _CHANNELS if each in both))
