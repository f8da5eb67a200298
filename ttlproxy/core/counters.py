"""Counters. Knows no way to show them."""

from __future__ import annotations

from collections import Counter

from ttlproxy.core.histogram import Histogram

# In ms. What a session asks for is no later than its request; a storm may be late by minutes.
_LAGS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 30_000, 60_000, 300_000)
_CALLS = (0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)

KINDS = ("deferred", "hash", "list", "set", "zset")
ACTIONS = ("lpush", "rpush", "xadd", "publish", "spublish", "keep")
SIGNED = ("deferred", "rule")
PARKED = ("wrongtype", "noperm", "oom", "other")
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


class Tally:
    """Bytes that have gone one way."""

    __slots__ = ("bytes",)

    def __init__(self) -> None:
        self.bytes = 0


class Handled:
    """Clients' requests, by how they were handled.

    forwarded: gone on as they came; rewritten: native ones, to a script call; virtual: ours
    """

    __slots__ = ("forwarded", "rewritten", "virtual")

    def __init__(self) -> None:
        self.forwarded = 0
        self.rewritten = 0
        self.virtual = 0


class Metrics:
    """What the proxy has done since it was started.

    clients: now connected; accepted, refused: clients; held: chunks that waited for a reap;
    holding: clients whose requests wait, now; requests: of theirs; to_clients, to_redis: bytes;
    reaped_elements: by type; fired_elements: handed on, as rules of ONEXPIRE say, by action;
    dead_lettered_elements: those of them that had been too often; lag_ms: of each of the reaped,
    how late the earliest of its key went that went with it; reap_call_ms: how long each call of
    the reap script took Redis; swept_entries: index entries whose element was gone; parked: keys
    that Redis refuses to let be reaped, now, by reason; refusals: requests of the proxy's own to
    which Redis has answered an error; unsigned: what no proxy has signed, so that it is not done,
    by kind; gone: clients, by who ended it: client, redis, or we: refused, held (for
    longer than hold_max), drained, cut_off (as the drain took too long), moved (to
    another server, or its role changed), error, idle, stalled (it
    took nothing for too long), buffers (all clients together took too much memory).
    """

    __slots__ = (
        "accepted",
        "clients",
        "dead_lettered_elements",
        "fired_elements",
        "gone",
        "held",
        "holding",
        "lag_ms",
        "parked",
        "reap_call_ms",
        "reaped_elements",
        "refusals",
        "refused",
        "requests",
        "swept_entries",
        "to_clients",
        "to_redis",
        "unsigned",
    )

    def __init__(self) -> None:
        self.clients = 0
        self.accepted = 0
        self.refused = 0
        self.held = 0
        self.holding = 0
        self.requests = Handled()
        self.to_clients = Tally()
        self.to_redis = Tally()
        self.swept_entries = 0
        self.refusals = 0
        self.parked: Counter[str] = Counter()
        self.reaped_elements: Counter[str] = Counter()
        self.lag_ms = Histogram(_LAGS)
        self.reap_call_ms = Histogram(_CALLS)
        self.fired_elements: Counter[str] = Counter()
        self.dead_lettered_elements = 0
        self.gone: Counter[str] = Counter()
        self.unsigned: Counter[str] = Counter()

    def reaped(self, kind: str, count: int, late_ms: int) -> None:
        """`count` elements of a key of type `kind` are gone, the earliest `late_ms` late."""
        if count:
            self.reaped_elements[kind] += count
            self.lag_ms.observe(late_ms, count)

    def fired(self, verb: str, count: int, dead_lettered: int) -> None:
        """`count` elements were handed on, `dead_lettered` of them as they had been too often."""
        self.fired_elements[verb.lower()] += count
        self.dead_lettered_elements += dead_lettered
