"""Counters. Knows no way to show them."""

from __future__ import annotations

from collections import Counter


class Metrics:
    """What the proxy has done since it was started.

    clients: now connected; accepted, refused: clients; held: chunks that waited for a reap;
    reaped_elements: by type; swept_entries: index entries whose element was gone;
    refusals: requests of the proxy's own to which Redis has answered an error; gone: clients, by
    who ended it: client, redis, or we: refused, held (for longer than hold_max), drained, cut_off
    (as the drain took too long), error.
    """

    __slots__ = (
        "accepted",
        "clients",
        "gone",
        "held",
        "reaped_elements",
        "refusals",
        "refused",
        "swept_entries",
    )

    def __init__(self) -> None:
        self.clients = 0
        self.accepted = 0
        self.refused = 0
        self.held = 0
        self.swept_entries = 0
        self.refusals = 0
        self.reaped_elements: Counter[str] = Counter()
        self.gone: Counter[str] = Counter()

    def reaped(self, kind: str, count: int) -> None:
        """`count` elements of a key of type `kind` were past their deadline."""
        if count:
            self.reaped_elements[kind] += count
