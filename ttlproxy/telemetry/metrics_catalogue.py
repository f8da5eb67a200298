"""The catalogue of metrics: a row for each. Does not know how they are shown.

/metrics and the table in docs/metrics.md are made from the rows. To add a metric, add a row. Other
threads call its `read` at any time, so it must read a single value once.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Final, TypeVar, cast

from ttlproxy.core.counters import (
    ACTIONS,
    ERRORS,
    FAMILIES,
    KINDS,
    LOADS,
    PARKED,
    SIGNED,
    CommandCounts,
)
from ttlproxy.telemetry.client_metrics import CLIENT_METRICS
from ttlproxy.telemetry.memory import MEMORY, container_memory, own_memory
from ttlproxy.telemetry.metric_spec import (
    BY_NODE,
    BY_WORKER,
    Buckets,
    MetricSource,
    MetricSpec,
    Report,
    Value,
    by_value,
    counter,
    gauge,
    histogram,
    in_seconds,
    info,
)
from ttlproxy.telemetry.node_metrics import NODE_METRICS, oldest_overdue_s


def _of_commands(read: Callable[[CommandCounts], float]) -> Callable[[MetricSource], Value]:
    """Returns what reads a number for each family of commands, of all servers."""

    def value(source: MetricSource) -> Value:
        counts = [link.context.node_counts.commands for link in source.link.all]
        none = CommandCounts()
        return {family: sum(read(each.get(family, none)) for each in counts) for family in FAMILIES}

    return value


def _errors(source: MetricSource) -> dict[str, float]:
    counts = [link.context.node_counts.errors for link in source.link.all]
    return {code: sum(each.get(code, 0) for each in counts) for code in ERRORS}


def _parked(source: MetricSource) -> dict[str, float]:
    reasons = [link.context.node_counts.parked for link in source.link.all]
    return {why: sum(each[why] for each in reasons) for why in PARKED}


METRICS: Final = (
    *CLIENT_METRICS,
    gauge(
        "ttlproxy_managed_keys",
        "keys that have elements with a deadline",
        lambda source: sum(link.context.managed_keys for link in source.link.all),
        of_many="largest",
    ),
    counter(
        "ttlproxy_reaped_elements_total",
        "elements removed at their deadline, by the key's type",
        lambda source: by_value(source.counters.reaped_elements, KINDS),
        "type",
        KINDS,
    ),
    counter(
        "ttlproxy_fired_elements_total",
        "elements delivered at their deadline, by the action of the ONEXPIRE rule",
        lambda source: by_value(source.counters.fired_elements, ACTIONS),
        "action",
        ACTIONS,
    ),
    counter(
        "ttlproxy_registry_loads_total",
        "how often the families of a server's managed keys were learnt, while its clients wait:"
        " read from it, or known because it was a replica that was promoted",
        lambda source: by_value(source.counters.loads, LOADS),
        "how",
        LOADS,
    ),
    counter(
        "ttlproxy_unsigned_total",
        "how often a rule or deferred command was not carried out, because no proxy had signed it",
        lambda source: by_value(source.counters.unsigned, SIGNED),
        "kind",
        SIGNED,
    ),
    counter(
        "ttlproxy_dead_letters_total",
        "elements that were delivered too often, and went to the ELSE destination",
        lambda source: source.counters.dead_lettered_elements,
    ),
    counter(
        "ttlproxy_outbox_carried_total",
        "entries of outboxes that were carried to their slot, for rules of ONEXPIRE with OUTBOX",
        lambda source: source.counters.carried_entries,
    ),
    gauge(
        "ttlproxy_outbox_waiting_entries",
        "entries that wait in outboxes, as far as this proxy carries them",
        lambda source: source.counters.waiting_entries,
    ),
    histogram(
        "ttlproxy_reap_lag_seconds",
        "how late elements were removed",
        lambda source: in_seconds(source.counters.lag_ms),
    ),
    histogram(
        "ttlproxy_reap_call_seconds",
        "time that a call of the reap script took in Redis",
        lambda source: in_seconds(source.counters.reap_call_ms),
    ),
    gauge(
        "ttlproxy_overdue_keys",
        "keys that still have expired elements, as seen at the last heartbeat",
        lambda source: sum(link.context.overdue.keys for link in source.link.all),
        of_many="largest",
    ),
    gauge(
        "ttlproxy_oldest_overdue_seconds",
        "how long the oldest of them has been due",
        lambda source: max(map(oldest_overdue_s, source.link.all), default=0.0),
        of_many="largest",
    ),
    gauge(
        "ttlproxy_parked_keys",
        "keys that are not reaped for a while, because Redis refuses it",
        _parked,
        "reason",
        PARKED,
    ),
    counter(
        "ttlproxy_swept_entries_total",
        "deadlines dropped because their element no longer existed",
        lambda source: source.counters.swept_entries,
    ),
    counter(
        "ttlproxy_lost_indexes_total",
        "keys whose deadlines Redis had evicted, found when the first of them was due",
        lambda source: source.counters.lost_indexes,
    ),
    counter(
        "ttlproxy_refusals_total",
        "the proxy's own requests that Redis answered with an error",
        lambda source: source.counters.refusals,
    ),
    gauge(
        "ttlproxy_link_up",
        "1 while the proxy's own connections to Redis are up, else 0",
        lambda source: int(source.link.serving.now),
        of_many="least",
    ),
    info(
        "ttlproxy_upstream_info",
        "the address of the server that is served now, or was last",
        lambda source: {"address": source.link.shown},
    ),
    counter(
        "ttlproxy_upstream_changes_total",
        "how often clients were closed because the server, or its role, was another one",
        lambda source: sum(link.server.changes for link in source.link.all),
    ),
    gauge(
        "ttlproxy_link_round_trip_seconds",
        "how long Redis took to answer the proxy's heartbeat, which is sent once a second, or less"
        " often if there are many proxies",
        lambda source: (
            max((each.heartbeat.round_trip_ms for each in source.link.all), default=0) / 1000
        ),
        of_many="largest",
    ),
    counter(
        "ttlproxy_redis_calls_total",
        "commands that Redis has carried out for all its clients, those that scripts call included;"
        " read every ten seconds, of many proxies by one",
        _of_commands(lambda counts: counts.calls),
        "family",
        FAMILIES,
        of_many="largest",
    ),
    counter(
        "ttlproxy_redis_call_seconds_total",
        "the time that these have taken in Redis",
        _of_commands(lambda counts: counts.seconds),
        "family",
        FAMILIES,
        of_many="largest",
    ),
    counter(
        "ttlproxy_redis_failed_calls_total",
        "commands that Redis has answered with an error, or has not carried out",
        _of_commands(lambda counts: counts.failed + counts.rejected),
        "family",
        FAMILIES,
        of_many="largest",
    ),
    counter(
        "ttlproxy_redis_errors_total",
        "errors that Redis has returned to all its clients, by their first word",
        _errors,
        "error",
        ERRORS,
        of_many="largest",
    ),
    *NODE_METRICS,
    histogram(
        "ttlproxy_event_loop_lag_seconds",
        "how late the event loop ran a timer, measured four times a second",
        lambda source: in_seconds(source.heartbeat.lag_ms),
    ),
    gauge(
        "ttlproxy_heartbeat_age_seconds",
        "how long ago the event loop last ran",
        lambda source: source.heartbeat.age_s(),
        of_many="largest",
    ),
    gauge("ttlproxy_workers", "worker processes that serve clients", lambda source: 1),
    counter(
        "ttlproxy_workers_replaced_total",
        "workers that ended unexpectedly and were replaced",
        lambda source: 0,
    ),
    counter(
        "ttlproxy_workers_cpu_seconds_total",
        "CPU time of the workers, user and system",
        lambda source: time.process_time(),
    ),
    gauge(
        MEMORY,
        "memory of each worker (RSS); where there is one process, it is worker 1; Linux only",
        lambda source: own_memory(),
        BY_WORKER,
    ),
    gauge(
        "ttlproxy_memory_limit_bytes",
        "memory that all processes of the container may use together (cgroup); +Inf without a"
        " limit, and where there are no cgroups",
        lambda source: container_memory().limit,
        of_many="least",
    ),
    gauge(
        "ttlproxy_memory_used_bytes",
        "memory that they use, without file cache that may be dropped; NaN if not known",
        lambda source: container_memory().used,
        of_many="largest",
    ),
)

_One = TypeVar("_One")
_OF_MANY: Final[dict[str, Callable[[Iterable[float]], float]]] = {
    "sum": sum,
    "largest": max,
    "least": min,
}


def by_label(of: Report, name: str) -> dict[str, float]:
    """Returns a metric by the value of its label, such as the server; empty if the report has
    none."""
    return cast(dict[str, float], of.get(name, {}))


def without_nodes(of: Report, gone: Collection[str]) -> Report:
    """Returns the report without these servers."""
    kept = dict(of)
    for metric in METRICS:
        if metric.label == BY_NODE and metric.name in kept:
            numbers = by_label(of, metric.name)
            kept[metric.name] = {name: numbers[name] for name in numbers if name not in gone}
    return kept


def report(source: MetricSource) -> Report:
    """Returns all metrics of one process, as of now."""
    return {metric.name: metric.read(source) for metric in METRICS}


def total(reports: Sequence[Report]) -> Report:
    """Returns the reports of several processes, combined into one."""
    found: Report = {}
    for metric in METRICS:
        values = [each[metric.name] for each in reports if metric.name in each]
        if values:
            found[metric.name] = _total(metric, values)
    return found


def lasting(of: Report) -> Report:
    """Returns the part of a report that stays true when its process has ended."""
    kinds = ("counter", "histogram")
    return {each.name: of[each.name] for each in METRICS if each.kind in kinds and each.name in of}


def _total(metric: MetricSpec, values: Sequence[Value]) -> Value:
    if metric.kind == "info":
        return values[-1]
    if metric.kind == "histogram" and metric.label:
        return _by_label(cast(Sequence[dict[str, Buckets]], values), _all_buckets)
    if metric.kind == "histogram":
        return _all_buckets(cast(Sequence[Buckets], values))
    if metric.label:
        return _by_label(cast(Sequence[dict[str, float]], values), _OF_MANY[metric.of_many])
    return _OF_MANY[metric.of_many](cast(Sequence[float], values))


def _by_label(
    values: Sequence[Mapping[str, _One]], one: Callable[[Sequence[_One]], _One]
) -> dict[str, _One]:
    names = dict.fromkeys(name for each in values for name in each)
    return {name: one([each[name] for each in values if name in each]) for name in names}


def _all_buckets(values: Sequence[Buckets]) -> Buckets:
    bounds, counts, sums = zip(*values, strict=True)
    return bounds[0], [sum(each) for each in zip(*counts, strict=True)], sum(sums)
