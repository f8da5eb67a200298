"""The result of a chunk: the actions that a session asks for, and their order."""

from __future__ import annotations

from collections.abc import Sequence, Set
from typing import NamedTuple

from ttlproxy.core.registry import Place
from ttlproxy.session.state import Wait
from ttlproxy.session.told import HeldReply, Stopping, Told


class Step(NamedTuple):
    """First what must be gone, then the bytes, then what follows from them.

    reap_places: places whose due elements must be gone before the bytes go on
    reap_databases: databases in which all due elements must be gone before the bytes go on
    sweep_before: places that must be swept before the bytes go on
    unsure: places of which all proxies must know the family before the bytes go on
    modifies: whether a request may write when it is carried out
    to_redis: the bytes
    sweep_after: keys to sweep afterwards: a request may have changed them without their index
    date_after: places where elements then get deadlines by rules of ONWRITE
    requests: how many requests the bytes are; told: those of them whose replies matter
    uncounted: these or later requests may have no reply, or several
    awaits: what was sent must have been answered before more is read
    look: the link must look at what the last request did
    asks: it must be known of these places whether they have an index before more is read
    settles: the client gets this reply to the last request when that counts for all proxies
    wait: the last request waits for an item
    pauses: the session has read nothing behind the last request, because of one of these five
    withheld: the bytes that have not been read; the session gets them again when that is over
    stopping: what the bytes are if they may be carried out in part; the session gets the rest again
    """

    to_redis: bytes
    reap_places: Set[Place]
    reap_databases: Set[int]
    sweep_before: Set[Place]
    unsure: Set[Place]
    modifies: bool
    sweep_after: Set[bytes]
    date_after: Set[Place]
    requests: int
    told: Sequence[Told]
    uncounted: bool
    awaits: bool
    look: bool
    asks: Sequence[Place]
    settles: HeldReply | None
    wait: Wait | None
    pauses: bool
    withheld: bytes
    stopping: Stopping | None

    @property
    def is_held(self) -> bool:
        """Whether the bytes cannot go on at once."""
        return bool(self.unsure) or self.must_reap

    @property
    def must_reap(self) -> bool:
        """Whether something must be gone, or swept, before the bytes go on."""
        return bool(self.reap_places or self.reap_databases or self.sweep_before)
