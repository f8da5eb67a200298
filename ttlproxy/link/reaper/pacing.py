"""How much the reaper asks of Redis at a time: arithmetic, without Redis and without a clock."""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from ttlproxy.core.registry import Place
from ttlproxy.link.connecting.pipeline import KEYS_PER_CALL
from ttlproxy.link.shared.agenda import SWEEP_AFTER_MS

# The smallest batch.
_LEAST = 10
# Keys of the first calls that are sent together.
_FIRST_KEYS = 4
# Of all keys of such calls together at most so many batches are taken: in the time of so many, each
# for a key of its own, Redis serves nobody else.
_BATCHES = 4


class Pace(NamedTuple):
    """What the next request takes: `batch` elements of each of `keys` keys at most."""

    batch: int
    keys: int


class Done(NamedTuple):
    """What the last request did: so many keys were asked for, the script got to `reached` of them,
    `more` of these have more that is due; all took Redis `took_ms`; half of the keys had no more
    than `typical` elements removed."""

    asked: int
    reached: int
    more: int
    took_ms: float
    typical: int


def plan(queue: deque[Place], pace: Pace) -> dict[Place, int]:
    """Takes the keys of the next request from the front of `queue`, with a limit of elements for
    each, so that keys with much due and keys with little take part alike."""
    return {queue.popleft(): pace.batch for _ in range(min(len(queue), pace.keys))}


class OneCall:
    """The pace where one call is for all keys: the script leaves out keys it has no time for."""

    def __init__(self, largest: int) -> None:
        self.pace = Pace(largest, KEYS_PER_CALL)
        self._largest = largest

    def adapt(self, done: Done, budget_ms: float) -> None:
        batch, _ = self.pace
        if done.took_ms > budget_ms:
            batch = max(batch // 2, _LEAST)
        elif done.took_ms < budget_ms / 2:
            batch = min(batch * 2, self._largest)
        self.pace = Pace(batch, _within_a_call(done))


class ManyCalls:
    """The pace in front of a Cluster, where a call is for one slot: calls that are sent together
    share the budget of one. Fewer keys at a time leave more of the budget for each: so many are
    taken that most of them are done with in one call."""

    def __init__(self, largest: int) -> None:
        self._largest, self._batch = largest, largest
        self.pace = self._of(_FIRST_KEYS)

    def adapt(self, done: Done, budget_ms: float) -> None:
        quarter = done.asked // 4 + 1
        keys = min(done.asked, _within_a_call(done))
        if done.took_ms > budget_ms:
            if done.asked == 1:
                self._batch = max(self._batch // 2, _LEAST)
            keys = min(keys, int(done.asked * budget_ms / done.took_ms))
        elif done.more * 2 > done.asked and self.pace.batch < self._batch:
            keys = min(keys, done.asked - quarter)
        elif done.took_ms < budget_ms / 2:
            self._batch = min(self._batch * 2, self._largest)
            whole = self._largest * _BATCHES // max(done.typical, 1)
            keys = min(done.asked + quarter, _within_a_call(done), whole)
        self.pace = self._of(max(keys, 1))

    def _of(self, keys: int) -> Pace:
        return Pace(min(self._batch, max(self._largest * _BATCHES // keys, _LEAST)), keys)


def _within_a_call(done: Done) -> int:
    """How many keys the next request is for, going by how many a call gets to.

    A key that is not reached costs the proxy as much as one that is.
    """
    if done.reached == done.asked:
        return min(done.asked * 2, KEYS_PER_CALL)
    return min(done.reached + done.reached // 4 + 1, KEYS_PER_CALL)


def rest_ms(took_ms: float, budget_ms: float, keys: int) -> float:
    """How long to leave the server to others, in ms, after a call that took too long.

    The script finds what is due in a long list by one walk, which no smaller batch makes shorter.
    If the call was for many keys, a smaller batch is enough.
    """
    return took_ms if keys == 1 and took_ms > budget_ms else 0


def sweep_after_ms(took_ms: float) -> int:
    """How long after a request its keys are swept, in ms, if a sweep took `took_ms`: a long list
    whose consumers never pause is swept for a tenth of the time at most."""
    return max(SWEEP_AFTER_MS, 10 * round(took_ms))
