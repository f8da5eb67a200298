"""Requests that say what one before them said, of another key and other elements: read only once.

Nearly all requests of a command have the same options. To read those takes four times as long as
to know them again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps

from ttlproxy.commands.model.spec import Call, Plan

# Beyond that many all are forgotten: instants, of which no two are the same, are among them.
_MOST = 1024


def repeating(plan: Plan, begin: Callable[[Sequence[bytes]], int]) -> Plan:
    """The plan, asked once for each way to begin a request; what it raises is raised each time.

    Its calls are those of `calls.set_deadlines`, on the request's first key. It reads from left to
    right: what it makes of a request does not depend on the elements, only on their number.

    begin: where the elements begin that end a request. Raises ValueError where it cannot tell; what
    it tells is believed once a call has had those elements.
    """
    known: dict[tuple[object, ...], tuple[str, bytes, bytes]] = {}

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
            if rest == elements:
                if len(known) >= _MOST:
                    known.clear()
                known[head] = call.script, name, how
            return call
        script, name, how = found
        return Call(script, args[1:2], (name, how, *elements))

    return planned
