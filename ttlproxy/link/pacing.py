"""How much the reaper asks of Redis at a time: arithmetic, without Redis and without a clock."""

from __future__ import annotations

from collections import deque

from ttlproxy.core.registry import Place
from ttlproxy.link import TOGETHER
from ttlproxy.link.agenda import SWEEP_AFTER_MS

# The smallest batch.
_LEAST = 10


def plan(queue: deque[Place], batch: int, together: int) -> dict[Place, int]:
    """Takes from the front of `queue` the keys of the next call, with a limit of elements for each.

    None is long at it with that limit, and the script itself leaves out those that it has no time
    for: so keys with much due, and keys with little, take part alike.
    """
    return {queue.popleft(): batch for _ in range(min(len(queue), together))}


def keys_together(asked: int, reached: int) -> int:
    """For how many keys the next call is, after one for `asked` of which `reached` were reached.

    Each that is not reached costs as much here as one that is.
    """
    return min(asked * 2 if reached == asked else reached + reached // 4 + 1, TOGETHER)


def adapt(batch: int, took_ms: float, budget_ms: float, largest: int) -> int:
    """The next batch, after one of `batch` elements took `took_ms`."""
    if took_ms > budget_ms:
        return max(batch // 2, _LEAST)
    if took_ms < budget_ms / 2:
        return min(batch * 2, largest)
    return batch


def rest_ms(took_ms: float, budget_ms: float, keys: int) -> float:
    """How long to leave the server to others, after a call that took longer than it should.

    What is due in a long list is found in one walk along it, which no smaller batch makes shorter.
    Where the call was for many keys, a smaller batch is enough, and most of the time was our own.
    """
    return took_ms if keys == 1 and took_ms > budget_ms else 0


def sweep_after_ms(took_ms: float) -> int:
    """How long to let requests pass before what they left is swept, where one key's sweep took so
    long: a long list whose consumers never pause is swept for a tenth of the time at most."""
    return max(SWEEP_AFTER_MS, 10 * round(took_ms))
