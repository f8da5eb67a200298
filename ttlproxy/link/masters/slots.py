"""The slots of which this process knows all families, whichever master has them; and a log of slots
that have no master.

A family is announced on most of the masters. So one may be missed only if the announcements of two
masters are missed at the same time.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Final

from ttlproxy.core.keys import SLOTS
from ttlproxy.core.text import counted
from ttlproxy.core.topology import ClusterNode
from ttlproxy.link.masters.master import Master, PushesOfAll

log = logging.getLogger(__name__)

# Further ranges of slots are not listed.
_LISTED: Final = 8


class KnownSlots:
    """`masters`: those that there are, by the node's id."""

    def __init__(self, masters: Mapping[str, Master]) -> None:
        self._masters = masters
        self._known: set[int] = set()

    def clear(self) -> None:
        """Notes that families may have been missed."""
        self._known.clear()

    def note_gap(self) -> None:
        """Notes that this process now misses the announcements of one more master."""
        owners = (each.link for each in self._masters.values() if each.slots)
        if sum(link.announcements.connection is None for link in owners) > 1:
            self.clear()

    def learn(self) -> None:
        """Notes that nothing is missed, if the announcements of all masters are received."""
        masters = self._masters.values()
        if len(self._known) < SLOTS and all(
            each.link.serving.now for each in masters if each.slots
        ):
            self._known.update(*(each.known for each in masters))

    async def at_new_master(self, master: Master, before: list[PushesOfAll]) -> set[int]:
        """Returns the slots, although this master was added just now. `before`: the push
        connections from before others knew it as a master."""
        others, now = self.others(master), self.pushes()
        has_gap = not others or any(
            now[each.id] is not had.get(each.id) for each in others for had in before
        )
        received = (each.link.announcements.has_no_gap() for each in others)
        if has_gap or not all(await asyncio.gather(*received)):
            self.clear()
        return self._known

    def others(self, master: Master) -> list[Master]:
        """Returns the other masters that have slots which are not this master's."""
        own = set(master.link.context.slot_schedules.owned)
        others = (each for each in self._masters.values() if each is not master)
        return [each for each in others if not own.issuperset(each.slots)]

    def has_heard(self, master: Master, nodes: list[ClusterNode]) -> bool:
        """Whether what was set in its slots since it last told was announced to its link, or to
        another master's: the slots may have been at that one, and be back with a higher epoch."""
        now, others = self.pushes(), (node for node in nodes if node.id != master.id)
        suspects = [node for node in others if "master" in node.flags and node.epoch > master.epoch]
        heard = (now.get(node.id) for node in suspects)
        before = (master.pushes.get(node.id) for node in suspects)
        return all(
            one is not None and one is other for one, other in zip(heard, before, strict=True)
        )

    def pushes(self) -> PushesOfAll:
        """Returns the push connections of all masters."""
        return {name: each.link.announcements.connection for name, each in self._masters.items()}


class SlotLog:
    """Logs that slots have no master, once for each such state."""

    def __init__(self) -> None:
        self._last: list[int] = []
        self._logged: list[int] = []

    def log(self, lacking: list[int]) -> None:
        """Logs the slots without a master, if there is news; `lacking`: these slots now, ascending.

        A slot that moves has none for a moment, so two calls in a row must agree.
        """
        is_settled, self._last = lacking == self._last, lacking
        if not is_settled or lacking == self._logged:
            return
        self._logged = lacking
        if not lacking:
            log.info("each slot of the Cluster has a master again")
            return
        log.warning(
            "%s of the Cluster %s no master (%s): redis-cli --cluster fix gives them masters",
            counted(len(lacking), "slot"),
            "has" if len(lacking) == 1 else "have",
            shown(lacking),
        )


def shown(slots: Sequence[int]) -> str:
    """Returns slots as ranges: 0-99, 200; `slots` ascend."""
    ranges = []
    for _, group in groupby(enumerate(slots), lambda each: each[1] - each[0]):
        run = [number for _, number in group]
        ranges.append(f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]))
    left = len(ranges) - _LISTED
    more = f" and {counted(left, 'other range')}" if left > 0 else ""
    return ", ".join(ranges[:_LISTED]) + more
