"""What replies tell: of which requests a client's state depends, and on what they have done."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from itertools import chain, islice
from typing import Final, Generic, NamedTuple, TypeAlias, TypeVar

# Values that one setting of a client may have, for all that is known.
_MOST: Final = 16
# How errors begin.
ERRORS: Final = b"-!"
_ERROR: Final = b"-"
# How the replies to a request begin that has been carried out, also to EXEC; but not this one.
_DONE: Final = (b"+", b":", b"*")
_NULL: Final = b"*-1"
QUEUED: Final = b"+QUEUED"

Change: TypeAlias = Callable[[bytes], bytes]
"""Gets a reply in pieces, the first with its whole first line; returns what the client gets."""
Tell: TypeAlias = Callable[[bytes | None], bool | Change]
"""Is told how a reply begins: its first line, with its line break; None: it will never be known.
Returns whether the client gets the reply, or what it gets of it."""


class Told(NamedTuple):
    """A request of a chunk whose reply matters.

    before: how many requests of the chunk come before it; tell: is told its reply; confirmations:
    of a subscription, how many it has if it is not refused
    """

    before: int
    tell: Tell | None = None
    confirmations: int = 0


def all_of(tells: Sequence[Tell]) -> Tell:
    """Tells all of them; the last one's answer counts."""

    def tell_all(line: bytes | None) -> bool | Change:
        goes: bool | Change = True
        for tell in tells:
            goes = tell(line)
        return goes

    return tell_all


V = TypeVar("V")


class Candidates(Generic[V]):
    """The values of which one holds: a request that sets another may be refused, or not have been
    carried out yet.

    It gives no more than _MOST, the newest, and the one that held last.
    """

    __slots__ = ("_holds", "_may_hold", "_tried")

    def __init__(self, value: V) -> None:
        self._holds = value  # for certain, unless one of the others does
        # By requests without replies so far, oldest first. Mostly none: a deque takes 600 bytes.
        self._tried: deque[V] | tuple[()] = ()
        self._may_hold: tuple[V, ...] = ()  # by requests whose replies will never be known

    @property
    def values(self) -> tuple[V, ...]:
        """The newest first."""
        newest = islice(chain(reversed(self._tried), reversed(self._may_hold)), _MOST)
        return tuple(dict.fromkeys((*newest, self._holds)))

    def tries(self, value: V) -> None:
        """A request sets it, if it is not refused."""
        if not self._tried:
            self._tried = deque()
        self._tried.append(value)

    def may_be(self, value: V) -> None:
        """A request may set it at any time, and nobody will know."""
        self._may_hold = (*self._may_hold[1 - _MOST :], value)

    def answered(self, line: bytes | None) -> None:
        """The reply to the first request that was not answered begins so; None: that will never be
        known. One that is queued is carried out later, if at all."""
        assert self._tried
        value = self._tried.popleft()
        if line is None or line.startswith(QUEUED):
            self.may_be(value)
        elif line[0] not in ERRORS:
            self._holds, self._may_hold = value, ()
        if not self._tried:
            self._tried = ()


class OneReply:
    """That to several requests which have become one script call (scripts/lib/several.lua). The
    client gets the elements of the reply, or so many times the error.

    stops: whether the call may end before some of them; carried_out: how many it has answered
    """

    def __init__(self, requests: int, *, stops: bool = False) -> None:
        self.stops = stops
        self.carried_out = requests
        self._requests = requests
        self._head = 0  # so many bytes of the reply are still no element

    def __call__(self, line: bytes | None) -> Change:
        requests = self._requests
        if line is None:
            raise RuntimeError("the client would get one reply to several requests")
        if line.startswith(_ERROR):
            return lambda piece: piece * requests
        elements = line[1:-2]
        if line[:1] != b"*" or not elements.isdigit():
            raise RuntimeError(f"Redis answers {requests} requests by {line[:64]!r}")
        self.carried_out, self._head = int(elements), len(line)
        if not (self.carried_out == requests or (self.stops and self.carried_out < requests)):
            raise RuntimeError(f"Redis answers {requests} requests by {line[:64]!r}")
        return self._without_head

    def _without_head(self, piece: bytes) -> bytes:
        piece, self._head = piece[self._head :], 0
        return piece


class Stopping(NamedTuple):
    """A script call that ends before a request with a key in which something is due.

    script: its name; by_rule: whether all native writes of these are by rules of ONWRITE, else none
    is; requests: those of the client's that it is for; reply: tells how many of them it has carried
    out
    """

    script: str
    by_rule: bool
    requests: Sequence[list[bytes]]
    reply: OneReply


class HeldReply:
    """The reply to a request that is to count for all proxies: the client gets it when it does.

    data: the reply, once it is whole; empty if there is nothing to wait for
    """

    __slots__ = ("_change", "_tell", "data")

    def __init__(self, tell: Tell = lambda line: True) -> None:
        """`tell` says what the client is to get of the reply."""
        self.data = b""
        self._tell = tell
        self._change: Change = bytes

    def __call__(self, line: bytes | None) -> bool | Change:
        goes = self._tell(line)
        if line is None or line[:1] not in _DONE or line.startswith(_NULL) or goes is False:
            return goes
        if goes is not True:
            self._change = goes
        return self._keep

    def _keep(self, piece: bytes) -> bytes:
        self.data += self._change(piece)
        return b""


def is_hidden(line: bytes | None) -> bool:
    """The reply to a request of ours begins so; the client does not get it."""
    if line is None:
        raise RuntimeError("the client would get a reply to a request of ours")
    return False
