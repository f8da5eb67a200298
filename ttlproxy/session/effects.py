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


class Effects:
    """The effects of the requests of a chunk; a `Step` returns them with the bytes.

    reap_places: keys whose due elements must be removed before the bytes are sent
    reap_databases: databases in which all due elements must be removed before the bytes are sent
    sweep_before: keys that must be swept before the bytes are sent
    sweep_after: keys that a forwarded request may have changed without their index
    apply_ttl_after: keys whose elements then get deadlines by rules of ONWRITE
    unsure: keys whose families all proxies must know before the bytes are sent
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

    def __init__(self, registry: RegistryView) -> None:
        self.registry = registry
        self.begin_step()
        # Keys that the last blocking commands may have changed by the time the next request comes.
        self._blocked: Set[bytes] = _NOTHING
        self._blocked_ttls: Set[DbKey] = _NOTHING

    def begin_step(self) -> None:
        """Starts empty, because what was gathered so far has been handed over."""
        self.reap_places: Set[DbKey] = _NOTHING
        self.reap_databases: Set[int] = _NOTHING
        self.unsure: Set[DbKey] = _NOTHING
        self.sweep_after: Set[bytes] = _NOTHING
        self.sweep_before: Set[DbKey] = _NOTHING
        self.apply_ttl_after: Set[DbKey] = _NOTHING

    def note_named(self, keys: Collection[bytes], now_ms: int) -> None:
        """Notes the keys that a request names: what is due in them must be removed first."""
        bounds = self.registry.names
        for key in keys:
            if bounds.get(key, now_ms) < now_ms:
                self.reap_places = _with(self.reap_places, self.registry.places(key))

    def sees_all(self) -> None:
        """Notes that a request may see any key of its client's database."""
        self.sees(self.registry.databases())

    def sees(self, databases: Iterable[int]) -> None:
        """Notes that a request may show any key of these databases."""
        self.reap_databases = _with(self.reap_databases, databases)

    def writes(self, keys: Iterable[bytes]) -> None:
        """Notes keys that a request may change without changing their index."""
        managed = self.registry.names
        self.sweep_after = _with(self.sweep_after, (key for key in keys if key in managed))

    def fills(self, keys: Iterable[bytes]) -> None:
        """Notes keys that get elements: these must not keep the deadlines of equal elements that
        are gone."""
        for key in keys:
            self.sweep_before = _with(self.sweep_before, self.registry.places(key))

    def must_be_sure(self, places: Iterable[DbKey]) -> None:
        """Notes keys whose families all proxies must know before the bytes are sent."""
        self.unsure = _with(self.unsure, places)

    def apply_ttl(self, places: Iterable[DbKey]) -> None:
        """Notes keys whose new elements must get deadlines by rules of ONWRITE afterwards."""
        matches = self.registry.rules.matches_in
        ruled = (place for place in places if matches(*place))
        self.apply_ttl_after = _with(self.apply_ttl_after, ruled)

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
            Effects.writes(self, blocked)  # SessionState.writes would note them for EXEC
            Effects.apply_ttl(self, self._blocked_ttls)
            self._blocked_ttls = _NOTHING


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


class Step(NamedTuple):
    """A chunk's bytes for Redis, what must be done before they are sent, and what afterwards.

    reap_places, reap_databases, sweep_before, unsure, sweep_after, apply_ttl_after: see Effects
    modifies: whether a request may write when it is carried out
    to_redis: the bytes
    requests: the number of requests in the bytes; told: those whose replies change the state
    uncounted: whether these or later requests may have no reply, or several
    awaits: all replies so far must come before more is read
    look: the link must look at once at what the last request did
    asks: keys of which it must be looked up whether they have an index before more is read
    settles: the reply to the last request, which the client gets once all proxies know the change
    wait: the last request, if it waits for an item
    pauses: whether the session has stopped after the last request, for one of these five reasons
    withheld: the bytes that have not been read; the session gets them again after the pause
    stopping: the script call that these bytes are, if it may end early; the session then gets the
    rest again
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
        """Whether the bytes cannot be sent at once."""
        return bool(self.unsure) or self.must_reap

    @property
    def must_reap(self) -> bool:
        """Whether something must be reaped or swept before the bytes are sent."""
        return bool(self.reap_places or self.reap_databases or self.sweep_before)
