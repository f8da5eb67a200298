"""What a session says of a chunk: what is to be done with it, in this order."""

from __future__ import annotations

from collections.abc import Set
from typing import NamedTuple

from ttlproxy.core.registry import Place
from ttlproxy.session.state import Wait


class Step(NamedTuple):
    """First what must be gone, then the bytes, then what follows from them.

    reap: places whose due elements must be gone before the bytes go on
    reap_in: databases all of whose due elements must be gone before that
    unswept: places that must be swept before that
    modifies: whether a request may write when it is carried out
    to_redis: the bytes
    sweep: keys to sweep afterwards: a request may have changed them without their index
    owed: how many replies must have come before what is withheld, an AUTH or HELLO, is sent
    login: how many replies come before that to an AUTH or HELLO, which says who the client is
    look: the link has to look at what the last request did
    wait: the last request waits for an item
    withheld: what waits for `owed`, or came behind the request that `login`, `look` or `wait` is
      about; it is to come again when that is over
    """

    to_redis: bytes
    reap: Set[Place]
    reap_in: Set[int]
    unswept: Set[Place]
    modifies: bool
    sweep: Set[bytes]
    owed: int | None
    login: int | None
    look: bool
    wait: Wait | None
    withheld: bytes

    @property
    def must_reap(self) -> bool:
        """Whether something must be gone, or swept, before the bytes go on."""
        return bool(self.reap or self.reap_in or self.unswept)

    @property
    def pauses(self) -> bool:
        """Whether nothing behind the last request has been looked at."""
        kept = self.owed is not None or self.login is not None
        return kept or self.look or self.wait is not None
