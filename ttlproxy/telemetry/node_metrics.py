"""The metrics about each server by its address: a row for each, as in the catalogue.

In front of one server they exist, too, so that what is drawn does not depend on the kind of
upstream.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from ttlproxy.core.counters import Waiting
from ttlproxy.link import Link, ServerStatus
from ttlproxy.link.reaper.walks import SAMPLE
from ttlproxy.telemetry.metric_spec import BY_NODE, MetricSource, MetricSpec, Value


def oldest_overdue_s(link: Link) -> float:
    return link.context.overdue.oldest_s(link.context.clock.now_ms())


def _by_node(read: Callable[[ServerStatus], float]) -> Callable[[MetricSource], Value]:
    """Returns what reads a number for each server."""
    return lambda source: {name: read(node) for name, node in source.link.nodes.items()}


def _waiting(read: Callable[[Waiting], float | None]) -> Callable[[MetricSource], Value]:
    """Returns what reads a number for each server where this proxy counts what waits."""

    def value(source: MetricSource) -> Value:
        nodes = source.link.nodes.items()
        counts = {name: node.link.context.node_counts.waiting for name, node in nodes}
        found = {name: read(each) for name, each in counts.items() if each is not None}
        return {name: number for name, number in found.items() if number is not None}

    return value


def _seconds(ms: int | None) -> float | None:
    return None if ms is None else ms / 1000


def _clocks_ahead(source: MetricSource) -> dict[str, float]:
    """Returns the seconds that each clock is ahead of the one that is the furthest behind."""
    nodes = source.link.nodes.items()
    clocks = {name: node.link.context.clock.now_ms() for name, node in nodes if not node.why_not}
    behind_ms = min(clocks.values(), default=0)
    return {name: (now_ms - behind_ms) / 1000 for name, now_ms in clocks.items()}


_counter = partial(MetricSpec, kind="counter", label=BY_NODE)
_gauge = partial(MetricSpec, kind="gauge", label=BY_NODE)

NODE_METRICS: Final = (
    _gauge(
        "ttlproxy_node_up",
        "1 while this server's link is up and its deadlines are known, else 0",
        _by_node(lambda node: 0 if node.why_not else 1),
        of_many="least",
    ),
    _gauge(
        "ttlproxy_node_slots",
        "slots that it owns as one of several masters of a Cluster, else 0",
        _by_node(lambda node: node.slots),
        of_many="largest",
    ),
    _gauge(
        "ttlproxy_node_managed_keys",
        "its known keys that have elements with a deadline",
        _by_node(lambda node: node.link.context.managed_keys),
        of_many="largest",
    ),
    _gauge(
        "ttlproxy_node_overdue_keys",
        "its keys that still have expired elements, as seen at the last heartbeat",
        _by_node(lambda node: node.link.context.overdue.keys),
        of_many="largest",
    ),
    _gauge(
        "ttlproxy_node_oldest_overdue_seconds",
        "how long the oldest of them has been due",
        _by_node(lambda node: oldest_overdue_s(node.link)),
        of_many="largest",
    ),
    _gauge(
        "ttlproxy_node_parked_keys",
        "its keys that are not reaped for a while, because it refuses it",
        _by_node(lambda node: node.link.context.node_counts.parked.total()),
    ),
    _gauge(
        "ttlproxy_node_deferred_commands",
        "commands that wait there for their time (DEFER), counted every ten seconds by one of the"
        f" proxies: exact if there are up to {SAMPLE} internal keys beside those of deadlines, else"
        f" an estimate from {SAMPLE} of them",
        _waiting(lambda counts: counts.deferred),
        of_many="largest",
    ),
    _gauge(
        "ttlproxy_node_next_deferred_seconds",
        "from that count until the first of the commands that were looked at is due, below 0 if it"
        " was late; absent if there was none",
        _waiting(lambda counts: _seconds(counts.until_next_ms)),
        of_many="least",
    ),
    _gauge(
        "ttlproxy_node_kept_elements",
        "expired elements that wait there for TAKE (ONEXPIRE ... KEEP), counted in the same way",
        _waiting(lambda counts: counts.kept),
        of_many="largest",
    ),
    _gauge(
        "ttlproxy_node_oldest_kept_seconds",
        "from when the first of the elements that were looked at was due until that count; absent"
        " if there was none",
        _waiting(lambda counts: _seconds(counts.since_oldest_ms)),
        of_many="largest",
    ),
    _counter(
        "ttlproxy_node_reaped_elements_total",
        "elements removed there at their deadline",
        _by_node(lambda node: node.link.context.node_counts.reaped_elements),
    ),
    _counter(
        "ttlproxy_node_reap_lag_seconds_total",
        "the sum of how late each of them was removed",
        _by_node(lambda node: node.link.context.node_counts.late_ms / 1000),
    ),
    _counter(
        "ttlproxy_node_refusals_total",
        "the proxy's own requests that it answered with an error",
        _by_node(lambda node: node.link.context.node_counts.refusals),
    ),
    _counter(
        "ttlproxy_node_maxlen_refusals_total",
        "writes of all proxies that it refused because of a rule's MAXLEN, by its own count",
        _by_node(lambda node: node.link.context.node_counts.maxlen_refusals),
        of_many="largest",
    ),
    _gauge(
        "ttlproxy_node_round_trip_seconds",
        "how long it took to answer the proxy's heartbeat",
        _by_node(lambda node: node.link.heartbeat.round_trip_ms / 1000),
        of_many="largest",
    ),
    _gauge(
        "ttlproxy_node_clock_ahead_seconds",
        "by how much its clock is ahead of that of the master whose clock is the furthest behind",
        _clocks_ahead,
        of_many="largest",
    ),
    _gauge(
        "ttlproxy_node_connections",
        "clients' connections to it",
        _by_node(lambda node: node.link.context.connections.now),
    ),
    _gauge(
        "ttlproxy_node_connections_waiting",
        "clients' connections to it that wait until there may be another one",
        _by_node(lambda node: node.link.context.connections.waiting),
    ),
    _counter(
        "ttlproxy_node_connection_waits_total",
        "how often a client's connection to it had to wait for that",
        _by_node(lambda node: node.link.context.node_counts.connection_waits),
    ),
    _counter(
        "ttlproxy_node_connections_refused_total",
        "clients' connections that it refused because of its own maxclients",
        _by_node(lambda node: node.link.context.node_counts.connections_refused),
    ),
)
