"""The masters of a Cluster for the status page, from the metrics by node and their troubles."""

from __future__ import annotations

from typing import Final

from ttlproxy.admin.process_state import Subject
from ttlproxy.telemetry.metrics_catalogue import by_label

# A figure of the page -> the metric, and what its values are multiplied by.
_FIGURES: Final = {
    "slots": ("ttlproxy_node_slots", 1),
    "managed_keys": ("ttlproxy_node_managed_keys", 1),
    "overdue_keys": ("ttlproxy_node_overdue_keys", 1),
    "oldest_overdue_ms": ("ttlproxy_node_oldest_overdue_seconds", 1000),
    "clock_ahead_ms": ("ttlproxy_node_clock_ahead_seconds", 1000),
    "round_trip_ms": ("ttlproxy_node_round_trip_seconds", 1000),
    "connections": ("ttlproxy_node_connections", 1),
    "waiting": ("ttlproxy_node_connections_waiting", 1),
}


def masters(subject: Subject) -> list[dict[str, object]]:
    """A JSON object for each; none in front of one server. A figure that is unknown is null."""
    nodes, report = subject.nodes(), subject.report()
    if len(nodes) < 2:
        return []
    figures = {name: (by_label(report, metric), by) for name, (metric, by) in _FIGURES.items()}
    return [
        {
            "address": address,
            "why_not": why_not,
            **{name: _times(numbers.get(address), by) for name, (numbers, by) in figures.items()},
        }
        for address, why_not in sorted(nodes.items())
    ]


def _times(number: float | None, factor: int) -> float | None:
    return None if number is None else round(number * factor, 3)
