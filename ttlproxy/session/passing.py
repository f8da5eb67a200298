"""Tells which chunks of a client pass to Redis as they are, and which may go over a shared
connection."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from typing import Any, Final, TypeVar

from ttlproxy.commands import ANY_KEY, KEPT_KEY, NO_KEY, READ_KEY, Router
from ttlproxy.core.cluster_view import Reached
from ttlproxy.core.counters import Handled
from ttlproxy.core.permissions import Rights
from ttlproxy.core.registry import RegistryView
from ttlproxy.scripts.script_calls import ScriptCalls
from ttlproxy.session.state import SessionState
from ttlproxy.wire import NOTHING_DUE, Requests, Table, whole

# Requests count as long from this average number of bytes on.
LONG: Final = 1024
_NO_BOUNDS: Final[Mapping[bytes, int]] = {}
Read = TypeVar("Read")


def nothing_sent() -> tuple[int, int]:
    """Stands for a session that has no connection to Redis: nothing was sent, and nothing is
    owed."""
    return 0, 0


class Passing(SessionState):
    """The common case of a session: a chunk needs no more than a look at its keys."""

    __slots__ = (
        "__weakref__",
        "_counts",
        "_first_blocked",
        "_hidden",
        "_hidden_begin",
        "_hidden_names",
        "_limit",
        "_must_parse",
        "_names_hidden",
        "_now_ms",
        "_passing",
        "_passthrough",
        "_read",
        "_requests",
        "_router",
        "in_flight",
        "may_stop",
    )

    def __init__(
        self,
        router: Router,
        script_calls: ScriptCalls,
        registry: RegistryView,
        rights: Rights,
        now_ms: Callable[[], int],
        max_request_bytes: int,
        counts: Handled,
        owes: Callable[[], bool],
        reached: Reached | None = None,
    ) -> None:
        """`owes`: whether Redis owes replies on its connection; `reached`: the address to which a
        Cluster's client has connected, None if it must not learn of nodes."""
        super().__init__(script_calls, registry, rights, owes, reached)
        self.may_stop = False
        self.in_flight: Callable[[], tuple[int, int]] = nothing_sent
        self._first_blocked = -1  # the number of requests sent before a blocking one
        script_calls.families.senders.add(self)
        self._router = router
        self._passthrough = router.passthrough
        self._now_ms = now_ms
        self._requests = Requests(max_request_bytes)
        self._limit = max_request_bytes
        self._counts = counts
        # The prefix of internal keys, which no client may name. A search for its first byte, an
        # int, takes a tenth of the time.
        self._hidden = script_calls.keys.prefix
        self._hidden_begin = self._hidden[0]
        keys = script_calls.keys
        self._hidden_names = (keys.prefix, keys.state, keys.outbox)
        # Whether the next chunk must be parsed in full.
        self._must_parse = self.unauthenticated
        # The key of a passing request whose rest has not come yet.
        self._passing: Sequence[bytes] = ()
        # The requests of a chunk that does not pass, if these are complete.
        self._read: list[list[bytes]] | None = None
        self._names_hidden = False  # whether one of these may name an internal key

    def passes_unheard(self, data: bytes) -> int:
        """Returns the number of requests of a chunk that passes unchanged and without effects, even
        if announcements have not been read yet; 0 for any other chunk.

        This is the common case, and this method does all that it needs.
        """
        if self._must_parse or self.registry.rules.in_doubt:
            return 0
        # Without bounds: an earlier deadline may have been announced.
        count = self._plain(self._router.known.all, data, _NO_BOUNDS)
        self._counts.forwarded += count
        return count

    def shares(self, data: bytes, read: Callable[[bytes, Set[bytes]], Read]) -> Read | None:
        """Returns what `read`, a function of session/sharing.py, finds in a chunk for a connection
        that clients share; None if the client has not logged in. The session must never have had
        any other chunk."""
        return None if self.unauthenticated else read(data, self._router.shareable)

    def _plainly(self, data: bytes, *, shareable: bool = False) -> int:
        """Returns the number of requests of a chunk if all of them certainly pass; else 0.
        `shareable`: over a connection that clients share."""
        if self.registry.rules.in_doubt:
            return 0
        return self._plain(self._table(shareable=shareable), data, self.registry.bounds)

    def _table(self, *, shareable: bool) -> Table:
        """Returns the commands that need only a look at their keys; `shareable`: only those that
        may go over a connection that clients share."""
        registry, tables = self.registry, self._router.plain
        if registry.rules.literal_prefixes and registry.until_ms < self._now_ms():
            tables = self._router.known
        return tables.shareable if shareable else tables.all

    def _plain(self, table: Table, data: bytes, bounds: Mapping[bytes, int]) -> int:
        rules = self.registry.rules
        count, first = table.plain(
            data,
            self._hidden_names,
            bounds,
            rules.first_bytes,
            rules.literal_prefixes,
            rules.own_prefixes,
        )
        return count if count and (first == NOTHING_DUE or first >= self._now_ms()) else 0

    def passes_read(self, data: bytes, requests: list[list[bytes]]) -> bool:
        """Whether a chunk passes unchanged though `at_once` found it not certain; `requests`: its
        words, all complete. If it does not pass, it goes to `from_client`."""
        if self._must_parse:
            return False
        named = self._hidden_begin in data and self._may_name_hidden(data, requests)
        if named or not self._pass_through(requests):
            if self.skips_replies:
                self._read, self._names_hidden = requests, named
            return False
        self._counts.forwarded += len(requests)
        return True

    def needs_nothing(self, data: bytes) -> int:
        """Returns the number of requests of a chunk that may pass unchanged while nothing is known
        of managed keys; 0 for others.

        Examples are INFO and PING, which Redis answers in every state.
        """
        requests = None if self._must_parse else whole(data)
        find = self._router.find
        if requests is None or not all(find(args[0]).is_indifferent for args in requests):
            return 0
        return len(requests)

    def reads(self, data: bytes) -> tuple[list[bytes], int] | None:
        """Returns the keys of a chunk that may have something due, and its number of requests. The
        chunk did not pass; it must only read, and nothing may be known to be due in it, else the
        result is None."""
        requests, rights, registry = self._read, self.rights, self.registry
        if requests is None or self._names_hidden or self._must_parse:
            return None
        if not (rights.trusts_schedules and rights.have_all(self.users)):
            return None
        passthrough, bounds, managed = self._passthrough, registry.bounds, registry.managed
        keys, now_ms = [], self._now_ms()
        try:
            for args in requests:
                if passthrough[args[0]] != READ_KEY:
                    return None
                if managed.get(key := args[1], now_ms) < now_ms:
                    if key in bounds:
                        return None
                    keys.append(key)
        except (KeyError, IndexError):
            return None  # not in the table, or no key
        return (keys, len(requests)) if keys else None

    def put_back(self) -> None:
        """Forgets the chunk that does not pass: it will be given again."""
        self._read = None

    def _pass_through(self, requests: Sequence[list[bytes]]) -> bool:
        """Whether these requests need only a look at their keys, and none of the keys is managed.

        A key may be managed if the request only reads it or keeps its deadlines, and nothing is due
        in it.
        """
        names, kinds, rules = self.registry.names, self._passthrough, self.registry.rules
        looks = bool(names)
        try:
            for args in requests:
                kind = kinds[args[0]]
                if kind == NO_KEY or not looks:
                    continue
                key = args[1]
                if kind == ANY_KEY:
                    if not names.keys().isdisjoint(args):
                        return False
                elif key in names and (
                    names[key] < self._now_ms()
                    or (kind != READ_KEY and (kind != KEPT_KEY or rules))
                ):
                    return False
        except (KeyError, IndexError):
            return False  # not in the table, or no key
        return True

    def _may_name_hidden(self, raw: bytes, requests: list[list[bytes]]) -> bool:
        """Whether these requests, whose bytes are `raw`, may name an internal key.

        Looking at the beginning of each word is faster for long words, and searching the bytes for
        short ones. An inline request may quote and escape the name, so only its words count.
        """
        hidden = self._hidden
        if len(raw) < LONG * len(requests) and not self._requests.has_lines:
            return self._hidden_begin in raw and hidden in raw
        return any(word.startswith(self._hidden_names) for words in requests for word in words)

    def mark(self) -> object:
        """Implements `WritingClient` of core/families.py."""
        return self.in_flight, self.in_flight()[0]

    def has_landed(self, mark: Any) -> bool:
        """Implements `WritingClient`. The writes in question never stand behind a blocking request
        (`waits_in_redis`), and their values are complete (`_may_pass`). A client leaves a
        connection only when nothing is owed there."""
        in_flight, last = mark
        if self.in_flight != in_flight:
            return True
        sent, owed = self.in_flight()
        came = sent - owed
        if came <= self._first_blocked:
            last = min(last, self._first_blocked)
        return bool(came >= last - self.streams)

    def has_sent(self, requests: int) -> None:
        """Notes that this number of requests of the last step was sent."""
        sent, owed = self.in_flight()
        if self.blocks_at is not None and sent - owed > self._first_blocked:
            self._first_blocked = sent - requests + self.blocks_at

    @property
    def streams(self) -> bool:
        """Whether Redis has got a part of a request, and the rest has not come yet."""
        return self._requests.streams
