"""Caches how a request begins, so that options that come again are not read again.

Nearly all requests of a command have the same options, for another key and other elements. To read
the options takes four times as long as to find them in the cache.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Final

from ttlproxy.commands.model.spec import Call, Plan

# The most entries; then all are forgotten. A new instant in each request makes a new entry.
_MOST = 1024
# The entries of all plans. The proxy does not need this list. tests/core/test_repeats.py does, to
# compare each plan with and without entries: it cannot reach plans that are wrapped in others.
CACHES: Final[list[dict[tuple[object, ...], tuple[str, bytes, bytes]]]] = []


def repeating(plan: Plan, begin: Callable[[Sequence[bytes]], int]) -> Plan:
    """The plan, called once for each way to begin a request; its errors are raised each time.

    The plan must make calls as of `calls.set_deadlines`, on the request's first key; other calls
    are not cached. It must read from left to right, and depend on the number of the elements only,
    not on the elements: tests/core/test_repeats.py checks that for every command.

    begin: a guess at where the elements begin; they end the request. Raises ValueError if it cannot
    guess. The result is cached only if a full parse agrees with the guess.
    """
    known: dict[tuple[object, ...], tuple[str, bytes, bytes]] = {}
    CACHES.append(known)

    @wraps(plan)
    def planned(args: Sequence[bytes]) -> Call:
        try:
            at = begin(args)
        except ValueError:
            return plan(args)
        head, elements = (len(args), *args[2:at]), args[at:]
        found = known.get(head)
        if found is None:
            call = plan(args)
            name, how, *rest = call.argv
            if rest == elements and call.keys == (args[1],):
                if len(known) >= _MOST:
                    known.clear()
                known[head] = call.script, name, how
            return call
        script, name, how = found
        return Call(script, args[1:2], (name, how, *elements))

    return planned
