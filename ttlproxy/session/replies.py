"""Reads the replies on which a client's state depends, and decides what the client gets of them.

Redis tells clients that cache what they read (CLIENT TRACKING) which keys have changed. A deadline
changes an index, whose name is internal: the client is told the name of its data key.

Before Redis 7.0 a script cannot declare what it needs in a transaction. Commands without effect,
queued before it, do that, and the client does not see their replies in EXEC's. Redis looks at the
flags of the queued commands when EXEC comes, and does not count a script as a write.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence, Set
from itertools import chain, islice
from typing import Final, Generic, NamedTuple, TypeAlias, TypeVar

from ttlproxy.core.keys import Keys
from ttlproxy.wire import cut, encode
from ttlproxy.wire.reply_ends import PUSH, ReplyEnds

# The most values that one setting of a client may have while replies are outstanding.
_MOST: Final = 16
# The first bytes of errors.
ERRORS: Final = b"-!"
_ERROR: Final = b"-"
# The first bytes of replies to a request that was carried out, also to EXEC; QUEUED is none of
# them.
_DONE: Final = (b"+", b":", b"*")
_NULL: Final = b"*-1"
QUEUED: Final = b"+QUEUED"

Change: TypeAlias = Callable[[bytes], bytes]
"""Gets a reply in pieces, the first with its whole first line; returns what the client gets."""
Tell: TypeAlias = Callable[[bytes | None], bool | Change]
"""Is told how a reply begins: its first line, with its line break; None: it will never be known.
Returns whether the client gets the reply, or what it gets of it."""


class Told(NamedTuple):
    """A request of a chunk whose reply changes the state.

    before: how many requests of the chunk come before it; tell: takes the first line of its reply;
    confirmations: of a subscription, how many confirmations it has if it is not refused
    """

    before: int
    tell: Tell | None = None
    confirmations: int = 0


def all_of(tells: Sequence[Tell]) -> Tell:
    """Returns a function that calls all of `tells` and returns the last one's result."""

    def tell_all(line: bytes | None) -> bool | Change:
        goes: bool | Change = True
        for tell in tells:
            goes = tell(line)
        return goes

    return tell_all


V = TypeVar("V")


class Candidates(Generic[V]):
    """The values that a setting may have, because a request that sets another one may be refused,
    or has not been carried out yet.

    At most _MOST values are given: the newest, and the one that held last.
    """

    __slots__ = ("_holds", "_may_hold", "_tried")

    def __init__(self, value: V) -> None:
        self._holds = value  # holds for certain, unless one of the others does
        # Values of requests without replies so far, oldest first. Most clients need none: a deque
        # takes 600 bytes.
        self._tried: deque[V] | tuple[()] = ()
        self._may_hold: tuple[V, ...] = ()  # values of requests whose replies will never be known

    @property
    def values(self) -> tuple[V, ...]:
        """The values, newest first."""
        newest = islice(chain(reversed(self._tried), reversed(self._may_hold)), _MOST)
        return tuple(dict.fromkeys((*newest, self._holds)))

    def tries(self, value: V) -> None:
        """Notes that a request sets this value, if it is not refused."""
        if not self._tried:
            self._tried = deque()
        self._tried.append(value)

    def may_be(self, value: V) -> None:
        """Notes that a request may set this value at any time, and no reply tells."""
        self._may_hold = (*self._may_hold[1 - _MOST :], value)

    def answered(self, line: bytes | None) -> None:
        """Takes the first line of the reply to the oldest request without one; None if it will
        never be known. A request that is queued is carried out later, if at all."""
        assert self._tried
        value = self._tried.popleft()
        if line is None or line.startswith(QUEUED):
            self.may_be(value)
        elif line[0] not in ERRORS:
            self._holds, self._may_hold = value, ()
        if not self._tried:
            self._tried = ()


class OneReply:
    """The reply to several requests that have become one script call (scripts/lib/several.lua). The
    client gets the elements of the reply, or the error once for each request.

    stops: whether the call may end before some of the requests; carried_out: the number of requests
    that it has answered
    """

    def __init__(self, requests: int, *, stops: bool = False) -> None:
        self.stops = stops
        self.carried_out = requests
        self._requests = requests
        self._head = 0  # bytes of the reply before its first element that are still to be dropped

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

    script: its name; by_rule: whether its native writes get deadlines by rules of ONWRITE, all or
    none of them; requests: the client's requests in it; reply: tells how many of them it has
    carried out
    """

    script: str
    by_rule: bool
    requests: Sequence[list[bytes]]
    reply: OneReply


class HeldReply:
    """The reply to a request that changes all proxies: the client gets it when all know the change.

    data: the complete reply; empty if there is nothing to wait for
    """

    __slots__ = ("_change", "_tell", "data")

    def __init__(self, tell: Tell = lambda line: True) -> None:
        """`tell` decides what the client gets of the reply."""
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
    """Takes the first line of the reply to a request of ours, which the client does not get."""
    if line is None:
        raise RuntimeError("the client would get a reply to a request of ours")
    return False


# The first bytes of an invalidation in RESP3, and for a RESP2 client to which those of another
# client are redirected; the names follow.
_PUSH: Final = b">2\r\n$10\r\ninvalidate\r\n"
_MESSAGE: Final = b"*3\r\n$7\r\nmessage\r\n$20\r\n__redis__:invalidate\r\n"
_HEADS: Final = (_PUSH, _MESSAGE)
# Each of them contains this.
INVALIDATION: Final = b"invalidate\r\n"


def may_be_invalidation(piece: bytes) -> bool:
    """Whether this may be the beginning of an invalidation."""
    return any(piece.startswith(head) or head.startswith(piece) for head in _HEADS)


def invalidation_shown(invalidation: bytes, keys: Keys) -> bytes:
    """Returns the invalidation with data keys in place of their indexes, and without other internal
    keys; empty if nothing is left."""
    head = next(filter(invalidation.startswith, _HEADS), b"")
    requests, _ = cut(invalidation[len(head) :])
    if not head or not requests:
        return invalidation  # after a flush there are no names
    (names,) = requests
    if not any(map(keys.is_internal, names)):
        return invalidation
    found = [keys.data(name) if keys.is_internal(name) else name for name in names]
    left = [name for name in found if name is not None]
    return head + encode(tuple(left)) if left else b""


_ARRAY: Final = b"*"


class Declared:
    """The commands of ours in one transaction that declare what its scripts need.

    denies_oom: whether one of them has the flag `denyoom`; all have `write`
    """

    __slots__ = ("_ours", "_queued", "denies_oom")

    def __init__(self) -> None:
        self.denies_oom = False
        self._queued = 0  # commands that Redis has queued since the first of ours
        self._ours = set[int]()  # those of them that are ours

    def ours(self, line: bytes | None) -> bool:
        """Takes the first line of the reply to one of our commands. If Redis has refused MULTI,
        this is not QUEUED."""
        if _is_queued(line):
            self._ours.add(self._queued)
            self._queued += 1
        return False

    def theirs(self, line: bytes | None) -> bool:
        """Takes the first line of the reply to a client's command that came after the first of
        ours."""
        self._queued += _is_queued(line)
        return True

    def carried_out(self, line: bytes | None) -> bool | Change:
        """Takes the first line of the reply to EXEC."""
        if not self._ours or line is None or not line.startswith(_ARRAY):
            return True
        before = int(line[1:]) - self._queued
        if before < 0:
            return True  # null: a watched key has changed
        return Without({before + number for number in self._ours})


def _is_queued(line: bytes | None) -> bool:
    return line is not None and line.startswith(QUEUED)


class Without:
    """Removes elements from an array, wherever its bytes are cut; the first piece contains the
    whole header."""

    __slots__ = ("_dropped", "_ends", "_has_begun", "_is_push", "_number")

    def __init__(self, dropped: Set[int]) -> None:
        self._dropped = dropped  # their numbers
        self._ends: ReplyEnds | None = None
        self._number = 0  # of the next element, or of the one that is incomplete
        self._has_begun = False
        self._is_push = False

    def __call__(self, piece: bytes) -> bytes:
        out = []
        if self._ends is None:
            self._ends = ReplyEnds()
            head, _, piece = piece.partition(b"\r\n")
            out.append(b"*%d\r\n" % (int(head[1:]) - len(self._dropped)))
        begin = 0
        ends = self._ends.feed(piece)
        for end in ends:
            out.append(self._shown(piece[begin:end]))
            self._has_begun = False
            self._number += not self._is_push
            begin = end
        if begin < len(piece):
            out.append(self._shown(piece[begin:]))
        return b"".join(out)

    def _shown(self, part: bytes) -> bytes:
        """Returns what the client gets of a part of an element, or of a push between two."""
        if not self._has_begun:
            self._has_begun, self._is_push = True, part[0] == PUSH
        return b"" if self._number in self._dropped and not self._is_push else part
