"""Effects of a client's requests: actions besides sending them to Redis. Knows the registry.

They are gathered from the requests of a chunk. Effects of requests that Redis queues from MULTI
until EXEC are kept until then. A step returns them with the bytes, in their order.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence, Set
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, TypeVar

from ttlproxy.commands import Call
from ttlproxy.core.registry import Asker, DbKey
from ttlproxy.scripts.unconfirmed import UnconfirmedChange
from ttlproxy.session.replies import Declared, HeldReply, Stopping, Told

# The effects begin as this: an empty set of its own takes 216 bytes, and most clients need
# none.
_NOTHING: Final[frozenset[Any]] = frozenset()
Element = TypeVar("Element")


def _with(gathered: Set[Element], more: Iterable[Element]) -> Set[Element]:
    """`more` is added to what was gathered; in a new set only if that was nothing."""
    if not isinstance(gathered, set):
        return set(more)
    gathered.update(more)
    return gathered


class Effects:
    """Gathered from the requests of a chunk, and returned with the bytes as a `Step`.

    reap_places: places whose due elements must be gone before the bytes go on
    reap_databases: databases in which all due elements must be gone before the bytes go on
    sweep_before: places that must be swept before the bytes go on
    sweep_after: keys that a forwarded request may have changed without their index
    apply_ttl_after: places where elements then get deadlines by rules of ONWRITE
    unsure: places of which all proxies must know the family before the bytes go on
    """

    __slots__ = (
        "_blocked",
        "_blocked_ttls",
        "apply_ttl_after",
        "reap_databases",
        "reap_places",
        "registry",
        "sweep_after",
        "sweep_before",
        "unsure",
    )

    def __init__(self, registry: Asker) -> None:
        self.registry = registry
        self.begin_step()
        # Keys that the last blocking commands may have changed by the time the next request comes.
        self._blocked: Set[bytes] = _NOTHING
        self._blocked_ttls: Set[DbKey] = _NOTHING

    def begin_step(self) -> None:
        """Starts empty: what was gathered so far has been handed over."""
        self.reap_places: Set[DbKey] = _NOTHING
        self.reap_databases: Set[int] = _NOTHING
        self.unsure: Set[DbKey] = _NOTHING
        self.sweep_after: Set[bytes] = _NOTHING
        self.sweep_before: Set[DbKey] = _NOTHING
        self.apply_ttl_after: Set[DbKey] = _NOTHING

    def names(self, keys: Collection[bytes], now_ms: int) -> None:
        """A request names these keys: what is due there must be gone."""
        bounds = self.registry.names
        for key in keys:
            if bounds.get(key, now_ms) < now_ms:
                self.reap_places = _with(self.reap_places, self.registry.places(key))

    def sees_all(self) -> None:
        """A request may see any key of its client's database."""
        self.sees(self.registry.databases())

    def sees(self, databases: Iterable[int]) -> None:
        """A request may show any key of these databases."""
        self.reap_databases = _with(self.reap_databases, databases)

    def writes(self, keys: Iterable[bytes]) -> None:
        """A request may change these keys without their index."""
        managed = self.registry.names
        self.sweep_after = _with(self.sweep_after, (key for key in keys if key in managed))

    def fills(self, keys: Iterable[bytes]) -> None:
        """A new element must not get the deadline of an equal element that is gone."""
        for key in keys:
            self.sweep_before = _with(self.sweep_before, self.registry.places(key))

    def must_be_sure(self, places: Iterable[DbKey]) -> None:
        """All proxies must know the families of these before the bytes go on."""
        self.unsure = _with(self.unsure, places)

    def apply_ttl(self, places: Iterable[DbKey]) -> None:
        """A request puts elements there to which it gives no deadlines by rules of ONWRITE."""
        matches = self.registry.rules.matches_in
        ruled = (place for place in places if matches(*place))
        self.apply_ttl_after = _with(self.apply_ttl_after, ruled)

    def blocks_on(self, keys: Iterable[bytes], filled: Iterable[DbKey]) -> None:
        """A request may wait before it changes these keys, and puts elements into some."""
        self._blocked = _with(self._blocked, keys)
        self._blocked_ttls = _with(self._blocked_ttls, filled)

    def unblock(self) -> None:
        """A client that sends again usually has its element: the keys it blocked on are swept."""
        if self._blocked:
            blocked, self._blocked = self._blocked, _NOTHING
            Effects.writes(self, blocked)  # not SessionState.writes, which notes for EXEC
            Effects.apply_ttl(self, self._blocked_ttls)
            self._blocked_ttls = _NOTHING


@dataclass(slots=True)
class Transaction:
    """Begins with MULTI; EXEC carries it out, DISCARD and RESET drop it.

    It notes what its requests may do; which keys are managed, or due, is asked when EXEC comes.

      managed: places that they may make managed
      modifies: whether one of them may write
      named: keys that they name
      sees_all: whether one of them may see any key
      seen: databases of which they may show any key
      written: keys that they may change without their index
      filled: keys that they may put elements into
      read: keys that they read, if the client caches what it reads
      awaiting_ttl: places where rules of ONWRITE give deadlines afterwards
      unconfirmed: what they may change of what all sessions share
      declared: the commands of ours that say what its scripts need; None without one
      passed: keys to which writes are queued as they came
      tells_all: whether one of them sets a rule, which is to count for all proxies
    """

    managed: set[DbKey] = field(default_factory=set)
    modifies: bool = False
    named: set[bytes] = field(default_factory=set)
    sees_all: bool = False
    seen: set[int] = field(default_factory=set)
    written: set[bytes] = field(default_factory=set)
    filled: set[bytes] = field(default_factory=set)
    read: set[bytes] = field(default_factory=set)
    awaiting_ttl: set[DbKey] = field(default_factory=set)
    unconfirmed: list[UnconfirmedChange] = field(default_factory=list)
    declared: Declared | None = None
    passed: set[bytes] = field(default_factory=set)
    tells_all: bool = False


class Wait(NamedTuple):
    """A request that waits until there is an item for it.

    source: the list of the items; target: the list that gets them; call: the script call that
    takes an item; limit_ms: how long it waits at most, 0 means without limit; number: those that
    came earlier have lower ones, because one may be held up by what the next need not wait for
    """

    source: DbKey
    target: DbKey
    call: Call
    limit_ms: int
    number: int


class Step(NamedTuple):
    """First what must be gone, then the bytes, then what follows from them.

    reap_places, reap_databases, sweep_before, unsure, sweep_after, apply_ttl_after: see Effects
    modifies: whether a request may write when it is carried out
    to_redis: the bytes
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
    reap_places: Set[DbKey]
    reap_databases: Set[int]
    sweep_before: Set[DbKey]
    unsure: Set[DbKey]
    modifies: bool
    sweep_after: Set[bytes]
    apply_ttl_after: Set[DbKey]
    requests: int
    told: Sequence[Told]
    uncounted: bool
    awaits: bool
    look: bool
    asks: Sequence[DbKey]
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
