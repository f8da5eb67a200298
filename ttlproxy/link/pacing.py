"""How much the reaper asks of Redis at a time: arithmetic, without Redis and without a clock."""

from __future__ import annotations

from collections import deque

from ttlproxy.core.registry import Place
from ttlproxy.link.agenda import SWEEP_AFTER_MS
from ttlproxy.link.pipeline import KEYS_PER_CALL

# The smallest batch.
_LEAST = 10


def plan(queue: deque[Place], batch: int, together: int) -> dict[Place, int]:
    """Takes the keys of the next call from the front of `queue`, with a limit of elements for each.

    With that limit no key takes long, and the script leaves out keys for which it has no time: so
    keys with much due and keys with little take part alike.
    """
    return {queue.popleft(): batch for _ in range(min(len(queue), together))}


def keys_together(asked: int, reached: int) -> int:
    """How many keys the next call is for, after one for `asked` keys that got to `reached`.

    A key that is not reached costs the proxy as much as one that is.
    """
    return min(asked * 2 if reached == asked else reached + reached // 4 + 1, KEYS_PER_CALL)


def adapt(batch: int, took_ms: float, budget_ms: float, largest: int) -> int:
    """The next batch, after one of `batch` elements took `took_ms`."""
    if took_ms > budget_ms:
        return max(batch // 2, _LEAST)
    if took_ms < budget_ms / 2:
        return min(batch * 2, largest)
    return batch


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
