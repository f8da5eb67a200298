"""Logs that slots of the Cluster have no master, once for each such state."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from itertools import groupby
from typing import Final

from ttlproxy.core.text import counted

log = logging.getLogger(__name__)

# Further ranges of slots are not listed.
_LISTED: Final = 8


class SlotLog:
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
