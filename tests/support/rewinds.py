"""What a failover may take away, and what it must not. Knows no I/O.

Redis replicates asynchronously: what the old master had acknowledged last may not be at the new
one. A replica has what its master did up to some point, and nothing after it: so of each session
such writes are the last ones. Whatever else is missing was lost by the proxy.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import NamedTuple


class Write(NamedTuple):
    """An element with a deadline, and then its number in a plain list, both acknowledged.

    session: the number of the connection, which leads to one server only
    at_s: when it was acknowledged, by the monotonic clock
    """

    session: int
    number: int
    key: bytes
    element: bytes
    deadline_ms: int
    at_s: float = 0.0


class Outcome(NamedTuple):
    """
    arrived: the acknowledged writes that the server has, or had
    rewound: how many Redis itself has lost
    checked: how many elements must be there, and were compared
    faults: what is not explained by that, in words
    """

    arrived: list[Write]
    rewound: int
    checked: int
    faults: list[str]


def judged(
    acknowledged: Sequence[Write],
    arrived: AbstractSet[int],
    elements: Mapping[bytes, AbstractSet[bytes]],
    deadlines: Mapping[bytes, Mapping[bytes, int]],
    at_ms: int,
) -> Outcome:
    """
    acknowledged: in the order of their numbers
    arrived: the numbers in the plain list of the server that is examined
    elements, deadlines: of each key there, read together
    at_ms: a time by the servers' clock, when they had been read
    """
    faults = [*_unpaired(elements, deadlines)]
    rewound = [write for write in acknowledged if write.number not in arrived]
    there = [write for write in acknowledged if write.number in arrived]
    last = {write.session: write.number for write in there}
    faults += [
        f"write {write.number} is missing, and a later one of its session is there"
        for write in rewound
        if write.number < last.get(write.session, -1)
    ]
    lasting = [write for write in there if write.deadline_ms > at_ms]
    for write in lasting:
        found_ms = deadlines[write.key].get(write.element)
        if write.element not in elements[write.key]:
            faults.append(f"{write.element!r} of {write.key!r} went early")
        elif found_ms != write.deadline_ms:
            faults.append(f"{write.element!r} of {write.key!r} has the deadline {found_ms}")
    return Outcome(there, len(rewound), len(lasting), faults)


def _unpaired(
    elements: Mapping[bytes, AbstractSet[bytes]], deadlines: Mapping[bytes, Mapping[bytes, int]]
) -> list[str]:
    """Elements without a deadline, and deadlines without an element."""
    found = []
    for key, names in elements.items():
        found += [f"{each!r} of {key!r} has no deadline" for each in names - deadlines[key].keys()]
        found += [f"{each!r} of {key!r} has no element" for each in deadlines[key].keys() - names]
    return found
