"""Effects of a client's requests: actions besides sending them to Redis. Knows the registry.

They are gathered from the requests of a chunk, and a step returns them with the bytes. Effects of
requests that Redis queues after MULTI are kept until EXEC.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence, Set
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, TypeVar

from ttlproxy.commands import Call
from ttlproxy.core.registry import DbKey, RegistryView
from ttlproxy.scripts.unconfirmed import UnconfirmedChange
from ttlproxy.session.replies import Declared, HeldReply, Stopping, Told

# The initial value of all effects: an empty set of its own takes 216 bytes, and most clients need
# none.
_NOTHING: Final[frozenset[Any]] = frozenset()
Element = TypeVar("Element")


def _with(gathered: Set[Element], more: Iterable[Element]) -> Set[Element]:
    """Returns `gathered` with `more` added to it, or a new set if nothing was gathered."""
    if not isinstance(gathered, set):
        return set(more)
    gathered.update(more)
    return gathered


@dataclass(slots=True)
class Step:
    """A chunk's bytes for Redis, what must be done before they are sent, and what afterwards.

    to_redis: the bytes
    reap_places: keys whose due elements must be removed before the bytes are sent
    reap_databases: databases in which all due elements must be removed before the bytes are sent
    sweep_before: keys that must be swept before the bytes are sent
    unsure: keys whose families all proxies must know before the bytes are sent
    modifies: whether a request may write when it is carried out
    sweep_after: keys that a forwarded request may have changed without their index
    apply_ttl_after: keys whose elements then get deadlines by rules of ONWRITE
    requests: the number of requests in the bytes; told: those whose replies change the state
    uncounted: whether these or later requests may have no reply, or several
    awaits: all replies so far must come before more is read; is_unsent: also before the last
    request is sent
    look: the link must look at once at what the last request did
    asks: keys of which it must be looked up whether they have an index before more is read
    settles: the reply to the last request, which the client gets once all proxies know the change
    wait: the last request, if it waits for an item
    withheld: the bytes that have not been read, those after the last request or with it; the
    session gets them again after the pause
    stopping: the script call that these bytes are, if it may end early; the session then gets the
    rest again
    """

    to_redis: bytes = b""
    reap_places: Set[DbKey] = _NOTHING
    reap_databases: Set[int] = _NOTHING
    sweep_before: Set[DbKey] = _NOTHING
    unsure: Set[DbKey] = _NOTHING
    modifies: bool = False
    sweep_after: Set[bytes] = _NOTHING
    apply_ttl_after: Set[DbKey] = _NOTHING
    requests: int = 0
    told: list[Told] = field(default_factory=list)
    uncounted: bool = False
    awaits: bool = False
    is_unsent: bool = False
    look: bool = False
    asks: Sequence[DbKey] = ()
    settles: HeldReply | None = None
    wait: Wait | None = None
    withheld: bytes = b""
    stopping: Stopping | None = None

    @property
    def pauses(self) -> bool:
        """Whether nothing behind the last request may be read yet."""
        waits = self.settles is not None or self.wait is not None
        return waits or self.awaits or self.look or bool(self.asks)

    @property
    def is_held(self) -> bool:
        """Whether the bytes cannot be sent at once."""
        return bool(self.unsure) or self.must_reap

    @property
    def must_reap(self) -> bool:
        """Whether something must be reaped or swept before the bytes are sent."""
        return bool(self.reap_places or self.reap_databases or self.sweep_before)


class Effects:
    """Gathers the effects of a chunk in `step`; inside MULTI they are noted for EXEC.

    Effects of a queued request are applied again when EXEC comes. They are also applied at once,
    because Redis may have refused MULTI.

    step: what the session returns for the present chunk
    transaction: the one that MULTI began; None outside
    """

    __slots__ = ("_blocked", "_blocked_ttls", "registry", "step", "transaction")

    def __init__(self, registry: RegistryView) -> None:
        self.registry = registry
        self.step = Step()
        self.transaction: Transaction | None = None
        # Keys that the last blocking commands may have changed by the time the next request comes.
        self._blocked: Set[bytes] = _NOTHING
        self._blocked_ttls: Set[DbKey] = _NOTHING

    def note_named(self, keys: Collection[bytes], now_ms: int) -> None:
        """Notes the keys that a request names: what is due in them must be removed first."""
        if self.transaction is not None:
            self.transaction.named.update(keys)
        bounds, step = self.registry.names, self.step
        for key in keys:
            if bounds.get(key, now_ms) < now_ms:
                step.reap_places = _with(step.reap_places, self.registry.places(key))

    def sees_all(self) -> None:
        """Notes that a request may see any key of its client's database."""
        if self.transaction is not None:
            self.transaction.sees_all = True
        self.sees(self.registry.databases())

    def sees(self, databases: Collection[int]) -> None:
        """Notes that a request may show any key of these databases."""
        if self.transaction is not None:
            self.transaction.seen.update(databases)
        self.step.reap_databases = _with(self.step.reap_databases, databases)

    def writes(self, keys: Collection[bytes]) -> None:
        """Notes keys that a request may change without changing their index."""
        if self.transaction is not None:
            self.transaction.written.update(keys)
        managed = self.registry.names
        changed = (key for key in keys if key in managed)
        self.step.sweep_after = _with(self.step.sweep_after, changed)

    def fills(self, keys: Collection[bytes]) -> None:
        """Notes keys that get elements: these must not keep the deadlines of equal elements that
        are gone."""
        if self.transaction is not None:
            self.transaction.filled.update(keys)
        for key in keys:
            self.step.sweep_before = _with(self.step.sweep_before, self.registry.places(key))

    def must_be_sure(self, places: Iterable[DbKey]) -> None:
        """Notes keys whose families all proxies must know before the bytes are sent."""
        self.step.unsure = _with(self.step.unsure, places)

    def apply_ttl(self, places: Collection[DbKey]) -> None:
        """Notes keys whose new elements must get deadlines by rules of ONWRITE afterwards."""
        if self.transaction is not None:
            self.transaction.awaiting_ttl.update(places)
        matches = self.registry.rules.matches_in
        ruled = (place for place in places if matches(*place))
        self.step.apply_ttl_after = _with(self.step.apply_ttl_after, ruled)

    def blocks_on(self, keys: Iterable[bytes], filled: Iterable[DbKey]) -> None:
        """Notes keys that a blocking request may change later; it puts elements into those of
        `filled`."""
        self._blocked = _with(self._blocked, keys)
        self._blocked_ttls = _with(self._blocked_ttls, filled)

    def unblock(self) -> None:
        """Has the keys swept on which the client has blocked: when it sends again, it has usually
        got its element."""
        if self._blocked:
            blocked, self._blocked = self._blocked, _NOTHING
            blocked_ttls, self._blocked_ttls = self._blocked_ttls, _NOTHING
            transaction, self.transaction = self.transaction, None  # they are none of its writes
            self.writes(blocked)
            self.apply_ttl(blocked_ttls)
            self.transaction = transaction


@dataclass(slots=True)
class Transaction:
    """A transaction: MULTI begins it, EXEC carries it out, DISCARD and RESET drop it.

    It notes what its requests may do. Whether a key is managed, or has something due, is looked up
    when EXEC comes.

      managed: keys that they may make managed
      modifies: whether one of them may write
      named: keys that they name
      sees_all: whether one of them may see any key
      seen: databases of which they may show any key
      written: keys that they may change without their index
      filled: keys that they may put elements into
      read: keys that they read, if the client caches what it reads
      awaiting_ttl: keys where rules of ONWRITE give deadlines afterwards
      unconfirmed: changes that they may make to what all sessions share
      declared: the proxy's commands that declare what its queued scripts need; None without one
      passed: keys to which queued writes go unchanged
      tells_all: whether one of them sets a rule, which all proxies must then follow
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

    source: the list of the items; target: the list that gets them; call: the script call that takes
    an item; limit_ms: how long it waits at most, 0 means without limit; number: counts the waiting
    requests in the order in which they came. A later one may be served first if an earlier one
    waits for something that it does not need.
    """

    source: DbKey
    target: DbKey
    call: Call
    limit_ms: int
    number: int
