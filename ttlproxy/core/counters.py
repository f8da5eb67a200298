"""Counters. Does not know how they are shown."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from typing import NamedTuple

from ttlproxy.core.element_types import TYPES

# Bounds in ms: a reap for a session is as late as its request, the reaper minutes under load.
_LAGS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 30_000, 60_000, 300_000)
# A hold ends after hold_max at the latest, 10 s by default; pauses of Redis do not count there.
_HOLDS = (0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 30_000)
_TRIPS = (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000)
_CALLS = (0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)

KINDS = ("deferred", *sorted(type_.name for type_ in TYPES.values()))
ACTIONS = ("lpush", "rpush", "xadd", "publish", "spublish", "keep")
SIGNED = ("deferred", "rule")
HANDLED = ("forwarded", "rewritten", "virtual")
HELD = ("reap", "family", "index", "rules", "redis")
LEFT_SHARING = ("handshake", "command", "form", "unread", "refused")
LOADS = ("read", "known")
DIALS_FAILED = ("refused", "timeout", "tls", "dns", "other")
PARKED = ("wrongtype", "noperm", "oom", "unreachable", "other")
OTHER = "other"
FAMILIES = (
    *("string", "hash", "list", "set", "zset", "stream", "geo", "bitmap", "hyperloglog"),
    *("keyspace", "pubsub", "scripting", "transaction", "connection", OTHER),
)
# The first words of Redis's errors, and of ours that are counted there.
ERRORS = (
    *("ERR", "WRONGTYPE", "NOAUTH", "WRONGPASS", "NOPERM", "OOM", "READONLY", "MISCONF"),
    *("LOADING", "BUSY", "MASTERDOWN", "NOREPLICAS", "NOSCRIPT", "EXECABORT", "BUSYGROUP"),
    *("NOGROUP", "NOPROTO", "MOVED", "ASK", "TRYAGAIN", "CROSSSLOT", "CLUSTERDOWN"),
    *("UNBLOCKED", "TTLMAXLEN", OTHER),
)
GONE = (
    "client",
    "redis",
    "refused",
    "held",
    "drained",
    "cut_off",
    "moved",
    "error",
    "idle",
    "stalled",
    "buffers",
)


class Histogram:
    """Counts by a fixed list of upper bounds, as in Prometheus.

    counts: for each bound, the values up to it and above the bound before; the last count is of
    values above all bounds; total: the sum of all values; most: the largest value
    """

    __slots__ = ("bounds", "counts", "most", "total")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0
        self.most = 0.0

    def observe(self, value: float, times: int = 1) -> None:
        self.counts[bisect_left(self.bounds, value)] += times
        self.total += value * times
        self.most = max(self.most, value)

    def at(self, percent: float) -> float:
        """The percentile: a bound, or the largest value; 0 if there are no values."""
        left = sum(self.counts) * percent / 100
        for bound, count in zip(self.bounds, self.counts, strict=False):
            left -= count
            if left <= 0:
                return min(bound, self.most)
        return self.most


class Tally:
    """Bytes sent in one direction."""

    __slots__ = ("bytes",)

    def __init__(self) -> None:
        self.bytes = 0


class Dials:
    """Connections to Redis: those that were opened, and failed attempts by reason."""

    __slots__ = ("failed", "opened")

    def __init__(self) -> None:
        self.opened = 0
        self.failed: Counter[str] = Counter()


class CommandCounts(NamedTuple):
    """Redis's counts of some commands. rejected: not carried out at all; failed: others
    that have returned an error."""

    calls: int = 0
    seconds: float = 0.0
    failed: int = 0
    rejected: int = 0


class Waiting(NamedTuple):
    """Deferred commands, and elements kept for TAKE, at one instant; estimates if there are
    many: see link/reaper/walks.py.

    until_next_ms: from then until the first command is due; since_oldest_ms: since the first
    element was due; both None if there is none
    """

    deferred: int
    until_next_ms: int | None
    kept: int
    since_oldest_ms: int | None


class NodeCounts:
    """Counts about one server, in front of which there may be others.

    parked: keys now that it refuses to let us reap, by reason; replaced, never changed
    reaped_elements: how many; late_ms: the sum of how late each was; refusals: the proxy's own
    requests that it answered with an error; connection_waits: how often a client had to wait for a
    connection, because there may be no more of them; connections_refused: clients' connections that
    it has refused, as it had too many; maxlen_refusals: writes that it has refused because of a
    rule's MAXLEN, as it counts them, for all proxies
    commands, errors: what it has counted of commands, by family, and of errors, of all its clients;
    replaced, never changed
    waiting: what waits there, for all proxies; None while another proxy counts that
    """

    __slots__ = (
        "commands",
        "connection_waits",
        "connections_refused",
        "errors",
        "late_ms",
        "maxlen_refusals",
        "parked",
        "reaped_elements",
        "refusals",
        "waiting",
    )

    def __init__(self) -> None:
        self.start_anew()

    def start_anew(self) -> None:
        """Counts anew, for another server."""
        self.parked: Counter[str] = Counter()
        self.reaped_elements = 0
        self.late_ms = 0
        self.refusals = 0
        self.connection_waits = 0
        self.connections_refused = 0
        self.maxlen_refusals = 0
        self.commands: dict[str, CommandCounts] = {}
        self.errors: dict[str, int] = {}
        self.waiting: Waiting | None = None

    def count_reaped(self, count: int, late_ms: int) -> None:
        """`count` elements of a key were reaped, the oldest `late_ms` late."""
        self.reaped_elements += count
        self.late_ms += count * late_ms


class Connections:
    """Clients' connections to one server.

    now: those that are there; waiting: requests that wait for one
    """

    __slots__ = ("now", "waiting")

    def __init__(self) -> None:
        self.now = 0
        self.waiting = 0


class Sharing:
    """Connections to Redis that clients share.

    connections: those that are open; clients: those that share one; left: how often a client got or
    kept a connection of its own, by why: handshake (AUTH, HELLO or SELECT, after which it may share
    again), command (one that may not be shared), form (inline, too large, cut), unread (it does not
    take its replies), refused (there was no shared connection for it)
    """

    __slots__ = ("clients", "connections", "left")

    def __init__(self) -> None:
        self.connections = 0
        self.clients = 0
        self.left: Counter[str] = Counter()


class Handled:
    """Counts the clients' requests by the way in which they were handled.

    forwarded: unchanged; rewritten: native commands that became a script call; virtual: ours
    by_rule: those of the rewritten ones that write by a rule of ONWRITE
    """

    __slots__ = ("by_rule", "forwarded", "rewritten", "virtual")

    def __init__(self) -> None:
        self.by_rule = 0
        self.forwarded = 0
        self.rewritten = 0
        self.virtual = 0


class Counters:
    """Counts of the proxy's work since its start.

    clients: connected now; accepted, refused: clients; held: chunks that waited for a reap;
    hold_ms: how long requests waited each time, by what for: a reap, a family of keys, whether
    there is an index, rules to be read, Redis to be there; holding: clients whose requests wait
    now; requests: of clients; script_calls: sent to Redis, for clients and by the proxy itself,
    by the script's name; round_trip_ms: from sending requests to Redis until the last of their
    replies, of some that were measured; script_trips: how many of these were a call of a script,
    script_trips_failed: how many of those got an error, and script_trips_ms: the sum, all by
    script; to_clients, to_redis: bytes; reaped_elements: by type; fired_elements: elements handed
    on by rules of ONEXPIRE, by action; dead_lettered_elements: those of them that had been handed
    on too often; lag_ms: for each reaped element, the lateness of the oldest element of its key
    that was reaped with it; reap_call_ms: Redis's time for each call of the reap script;
    swept_entries: index entries whose element was gone; lost_indexes: those that were gone though
    their key was there, as Redis had evicted them; dated_elements: those that got the deadline of a
    rule of ONWRITE after their write, by a sweep; waiting_entries: those in outboxes, as far as
    this proxy carries them; carried_entries: those carried to other slots; refusals: the proxy's
    own requests that Redis answered with an error; unsigned: items not carried out because no proxy
    signed them, by kind; gone: closed clients, by who closed them: client, redis, or the proxy:
    refused, held (longer than hold_max), drained, cut_off (the drain took too long), moved (other
    server, or its role changed), error, idle, stalled (read nothing for too long), buffers (all
    clients together took too much memory); sharing: connections that clients share; nodes: counts
    about each server; dials: connections to Redis, of clients, the link and the reaper;
    tls_failures: TLS handshakes of clients that failed, not those that the client left.
    """

    __slots__ = (
        "accepted",
        "carried_entries",
        "clients",
        "dated_elements",
        "dead_lettered_elements",
        "dials",
        "fired_elements",
        "gone",
        "held",
        "hold_ms",
        "holding",
        "lag_ms",
        "loads",
        "lost_indexes",
        "nodes",
        "reap_call_ms",
        "reaped_elements",
        "refusals",
        "refused",
        "requests",
        "round_trip_ms",
        "script_calls",
        "script_trips",
        "script_trips_failed",
        "script_trips_ms",
        "sharing",
        "swept_entries",
        "tls_failures",
        "to_clients",
        "to_redis",
        "unsigned",
        "waiting_entries",
    )

    def __init__(self) -> None:
        self.clients = 0
        self.accepted = 0
        self.refused = 0
        self.held = 0
        self.hold_ms = {why: Histogram(_HOLDS) for why in HELD}
        self.holding = 0
        self.tls_failures = 0
        self.dials = Dials()
        self.requests = Handled()
        self.round_trip_ms = Histogram(_TRIPS)
        self.script_calls: dict[str, int] = {}
        self.script_trips: Counter[str] = Counter()
        self.script_trips_failed: Counter[str] = Counter()
        self.script_trips_ms: dict[str, float] = {}
        self.sharing = Sharing()
        self.to_clients = Tally()
        self.to_redis = Tally()
        self.swept_entries = 0
        self.lost_indexes = 0
        self.dated_elements = 0
        self.refusals = 0
        self.reaped_elements: Counter[str] = Counter()
        self.lag_ms = Histogram(_LAGS)
        self.reap_call_ms = Histogram(_CALLS)
        self.fired_elements: Counter[str] = Counter()
        self.dead_lettered_elements = 0
        self.waiting_entries = 0
        self.carried_entries = 0
        self.loads: Counter[str] = Counter()
        self.gone: Counter[str] = Counter()
        self.unsigned: Counter[str] = Counter()
        self.nodes: set[NodeCounts] = set()

    @property
    def parked(self) -> Counter[str]:
        """Keys now that Redis refuses to let us reap, by reason."""
        return sum((node.parked for node in self.nodes), Counter[str]())

    def count_reaped(self, kind: str, count: int, late_ms: int) -> None:
        """`count` elements of a key of type `kind` were reaped, the oldest `late_ms` late."""
        if count:
            self.reaped_elements[kind] += count
            self.lag_ms.observe(late_ms, count)

    def count_fired(self, verb: str, count: int, dead_lettered: int) -> None:
        """`count` elements were handed on, `dead_lettered` of them as dead letters."""
        self.fired_elements[verb.lower()] += count
        self.dead_lettered_elements += dead_lettered

    def count_script_trip(self, script: str, took_ms: float, *, failed: bool) -> None:
        """The round trip of a call of this script was measured; it `failed` if it got an error."""
        self.script_trips[script] += 1
        self.script_trips_failed[script] += failed
        self.script_trips_ms[script] = self.script_trips_ms.get(script, 0) + took_ms
