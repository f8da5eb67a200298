"""The catalogue of metrics: a row for each. Does not know how they are shown.

/metrics and the table in docs/metrics.md are made from the rows. To add a metric, add a row.
Other threads call its `read` at any time, so it must read a single value once.
"""

from __future__ import annotations

import math
import platform
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Final, TypeVar, cast

from ttlproxy import __version__
from ttlproxy.core.counters import (
    ACTIONS,
    DIALS_FAILED,
    ERRORS,
    FAMILIES,
    GONE,
    HANDLED,
    HELD,
    KINDS,
    LEFT_SHARING,
    LOADS,
    PARKED,
    SIGNED,
    CommandCounts,
    Counters,
    Handled,
)
from ttlproxy.core.histogram import Histogram
from ttlproxy.telemetry.memory import MEMORY, container_memory, own_memory
from ttlproxy.telemetry.metric_spec import (
    BY_CERTIFICATE,
    BY_NODE,
    BY_SCRIPT,
    BY_WORKER,
    Buckets,
    MetricSpec,
    Report,
    Source,
    Value,
)
from ttlproxy.telemetry.node_metrics import NODE_METRICS, oldest_overdue_s

CERTIFICATES: Final = (
    "listener_certificate",
    "listener_ca",
    "upstream_certificate",
    "upstream_ca",
)


def _by(counts: Mapping[str, int], values: Iterable[str]) -> dict[str, float]:
    """A number for each value of a label, so that each series exists from the start."""
    return {value: counts.get(value, 0) for value in values}


def _requests(counts: Handled) -> dict[str, float]:
    return {kind: getattr(counts, kind) for kind in HANDLED}


def _sent(counters: Counters) -> dict[str, float]:
    return {"clients": counters.to_clients.bytes, "redis": counters.to_redis.bytes}


def _of_commands(read: Callable[[CommandCounts], float]) -> Callable[[Source], Value]:
    """A number for each family of commands, of all servers."""

    def value(source: Source) -> Value:
        counts = [link.context.node_counts.commands for link in source.link.all]
        none = CommandCounts()
        return {family: sum(read(each.get(family, none)) for each in counts) for family in FAMILIES}

    return value


def _errors(source: Source) -> dict[str, float]:
    counts = [link.context.node_counts.errors for link in source.link.all]
    return {code: sum(each.get(code, 0) for each in counts) for code in ERRORS}


def _called(counters: Counters) -> dict[str, float]:
    return {name: calls for name, calls in counters.script_calls.items() if calls}


def _parked(source: Source) -> dict[str, float]:
    reasons = [link.context.node_counts.parked for link in source.link.all]
    return {why: sum(each[why] for each in reasons) for why in PARKED}


def _in_seconds(of_ms: Histogram) -> Buckets:
    return [bound / 1000 for bound in of_ms.bounds], list(of_ms.counts), of_ms.total / 1000


def _each_in_seconds(of_ms: Mapping[str, float]) -> dict[str, float]:
    return {name: ms / 1000 for name, ms in dict(of_ms).items()}


def _by_in_seconds(of_ms: Mapping[str, Histogram]) -> dict[str, Buckets]:
    return {value: _in_seconds(histogram) for value, histogram in of_ms.items()}


def _buffers_used(source: Source) -> float:
    limit = source.settings.max_buffer_bytes
    return sum(source.server.buffered_bytes().values()) / limit if limit else 0


def _build(source: Source) -> dict[str, str]:
    return {
        "version": __version__,
        "python": platform.python_version(),
        "event_loop": type(source.loop).__module__.partition(".")[0],
    }


METRICS: Final = (
    MetricSpec(
        "ttlproxy_build_info", "info", "version of ttlproxy and Python, and the event loop", _build
    ),
    MetricSpec(
        "ttlproxy_connections",
        "gauge",
        "connected clients",
        lambda source: source.counters.clients,
    ),
    MetricSpec(
        "ttlproxy_max_clients",
        "gauge",
        "how many clients may be connected: --max-clients, or fewer if files are limited",
        lambda source: source.settings.max_clients,
        of_many="largest",
    ),
    MetricSpec(
        "ttlproxy_connections_accepted_total",
        "counter",
        "clients that connected",
        lambda source: source.counters.accepted,
    ),
    MetricSpec(
        "ttlproxy_connections_refused_total",
        "counter",
        "clients refused because Redis was unavailable, by max_clients or by protected mode",
        lambda source: source.counters.refused,
    ),
    MetricSpec(
        "ttlproxy_connections_closed_total",
        "counter",
        "client connections that ended, by reason",
        lambda source: _by(source.counters.gone, GONE),
        "reason",
        GONE,
    ),
    MetricSpec(
        "ttlproxy_tls_handshakes_failed_total",
        "counter",
        "TLS handshakes that clients began and that failed or took too long",
        lambda source: source.counters.tls_failures,
    ),
    MetricSpec(
        "ttlproxy_certificate_expires_timestamp_seconds",
        "gauge",
        "when certificates of the settings end, as they were at the last new connection: the first"
        " of those that are shown, the last of each file of CA certificates",
        lambda source: source.server.certificates_expire_s(),
        BY_CERTIFICATE,
        CERTIFICATES,
        of_many="least",
    ),
    MetricSpec(
        "ttlproxy_upstream_connections_opened_total",
        "counter",
        "connections to Redis that were opened: for clients, and by the link and the reaper",
        lambda source: source.counters.dials.opened,
    ),
    MetricSpec(
        "ttlproxy_upstream_connections_failed_total",
        "counter",
        "attempts to open one that failed, by reason",
        lambda source: _by(source.counters.dials.failed, DIALS_FAILED),
        "reason",
        DIALS_FAILED,
    ),
    MetricSpec(
        "ttlproxy_requests_total",
        "counter",
        "requests sent to Redis: unchanged, native commands as a script call, virtual commands",
        lambda source: _requests(source.counters.requests),
        "kind",
        HANDLED,
    ),
    MetricSpec(
        "ttlproxy_script_calls_total",
        "counter",
        "requests of clients that the proxy's scripts carry out, and its own calls of them",
        lambda source: _called(source.counters),
        BY_SCRIPT,
    ),
    MetricSpec(
        "ttlproxy_round_trip_seconds",
        "histogram",
        "from sending requests of a client to Redis until their last reply: a sample, of at most"
        " five in a second",
        lambda source: _in_seconds(source.counters.round_trip_ms),
    ),
    MetricSpec(
        "ttlproxy_script_round_trips_total",
        "counter",
        "how many of these were a call of a script of the proxy alone",
        lambda source: dict[str, float](source.counters.script_trips),
        BY_SCRIPT,
    ),
    MetricSpec(
        "ttlproxy_script_round_trips_failed_total",
        "counter",
        "how many of those got an error",
        lambda source: dict[str, float](source.counters.script_trips_failed),
        BY_SCRIPT,
    ),
    MetricSpec(
        "ttlproxy_script_round_trip_seconds_total",
        "counter",
        "the sum of how long they took",
        lambda source: _each_in_seconds(source.counters.script_trips_ms),
        BY_SCRIPT,
    ),
    MetricSpec(
        "ttlproxy_writes_by_rule_total",
        "counter",
        "native writes that became a script call by a rule of ONWRITE, which dates their elements",
        lambda source: source.counters.requests.by_rule,
    ),
    MetricSpec(
        "ttlproxy_dated_elements_total",
        "counter",
        "elements that got the deadline of a rule of ONWRITE soon after their write, by a sweep",
        lambda source: source.counters.dated_elements,
    ),
    MetricSpec(
        "ttlproxy_sent_bytes_total",
        "counter",
        "bytes of replies sent to clients, and of requests sent to Redis",
        lambda source: _sent(source.counters),
        "to",
        ("clients", "redis"),
    ),
    MetricSpec(
        "ttlproxy_buffered_bytes",
        "gauge",
        "bytes that wait in the proxy for clients that do not read, and for a Redis that does not"
        " keep up or is waited for, as of the last second; clients with less than 64 KiB are not"
        " counted",
        lambda source: source.server.buffered_bytes(),
        "to",
        ("clients", "redis"),
    ),
    MetricSpec(
        "ttlproxy_buffer_limit_bytes",
        "gauge",
        "how many bytes may wait: --max-buffer-bytes of each process; +Inf without a limit",
        lambda source: source.settings.max_buffer_bytes or math.inf,
    ),
    MetricSpec(
        "ttlproxy_buffers_used_ratio",
        "gauge",
        "the part of the limit that waits, from 0 to 1; at 1 the client with the most is closed",
        _buffers_used,
        of_many="largest",
    ),
    MetricSpec(
        "ttlproxy_shared_connections",
        "gauge",
        "connections to Redis that clients share (--share-upstream)",
        lambda source: source.counters.sharing.connections,
    ),
    MetricSpec(
        "ttlproxy_sharing_clients",
        "gauge",
        "clients that share a connection to Redis",
        lambda source: source.counters.sharing.clients,
    ),
    MetricSpec(
        "ttlproxy_sharing_left_total",
        "counter",
        "how often a client got or kept a connection to Redis of its own where clients share, by"
        " why: AUTH, HELLO or SELECT, after which it may share again; a command that may not be"
        " shared; the form of a request; replies that it does not read; no shared connection",
        lambda source: _by(source.counters.sharing.left, LEFT_SHARING),
        "reason",
        LEFT_SHARING,
    ),
    MetricSpec(
        "ttlproxy_held_connections",
        "gauge",
        "clients whose requests wait for a reap, for Redis, or for an item (LEASE ... BLOCK)",
        lambda source: source.counters.holding,
    ),
    MetricSpec(
        "ttlproxy_holds_total",
        "counter",
        "how often a client's requests waited until expired elements were removed",
        lambda source: source.counters.held,
    ),
    MetricSpec(
        "ttlproxy_hold_seconds",
        "histogram",
        "how long requests waited in the proxy each time before they went to Redis, by what for:"
        " expired elements, a new family of keys, an index, rules that are read, Redis"
        " that is away",
        lambda source: _by_in_seconds(source.counters.hold_ms),
        "reason",
        HELD,
    ),
    MetricSpec(
        "ttlproxy_managed_keys",
        "gauge",
        "keys that have elements with a deadline",
        lambda source: sum(link.context.managed_keys for link in source.link.all),
        of_many="largest",
    ),
    MetricSpec(
        "ttlproxy_reaped_elements_total",
        "counter",
        "elements removed at their deadline, by the key's type",
        lambda source: _by(source.counters.reaped_elements, KINDS),
        "type",
        KINDS,
    ),
    MetricSpec(
        "ttlproxy_fired_elements_total",
        "counter",
        "elements delivered at their deadline, by the action of the ONEXPIRE rule",
        lambda source: _by(source.counters.fired_elements, ACTIONS),
        "action",
        ACTIONS,
    ),
    MetricSpec(
        "ttlproxy_registry_loads_total",
        "counter",
        "how often all managed keys of a server were learnt, while its clients wait: read from it,"
        " or inherited from the master whose replica it was",
        lambda source: _by(source.counters.loads, LOADS),
        "how",
        LOADS,
    ),
    MetricSpec(
        "ttlproxy_unsigned_total",
        "counter",
        "how often a rule or deferred command was not carried out, because no proxy had signed it",
        lambda source: _by(source.counters.unsigned, SIGNED),
        "kind",
        SIGNED,
    ),
    MetricSpec(
        "ttlproxy_dead_letters_total",
        "counter",
        "elements that were delivered too often, and went to the ELSE destination",
        lambda source: source.counters.dead_lettered_elements,
    ),
    MetricSpec(
        "ttlproxy_outbox_carried_total",
        "counter",
        "entries of outboxes that were carried to their slot, for rules of ONEXPIRE with OUTBOX",
        lambda source: source.counters.carried_entries,
    ),
    MetricSpec(
        "ttlproxy_outbox_waiting_entries",
        "gauge",
        "entries that wait in outboxes, as far as this proxy carries them",
        lambda source: source.counters.waiting_entries,
    ),
    MetricSpec(
        "ttlproxy_reap_lag_seconds",
        "histogram",
        "how late elements were removed",
        lambda source: _in_seconds(source.counters.lag_ms),
    ),
    MetricSpec(
        "ttlproxy_reap_call_seconds",
        "histogram",
        "time that a call of the reap script took in Redis",
        lambda source: _in_seconds(source.counters.reap_call_ms),
    ),
    MetricSpec(
        "ttlproxy_overdue_keys",
        "gauge",
        "keys that still have expired elements, as seen at the last heartbeat",
        lambda source: sum(link.context.overdue.keys for link in source.link.all),
        of_many="largest",
    ),
    MetricSpec(
        "ttlproxy_oldest_overdue_seconds",
        "gauge",
        "how long the oldest of them has been due",
        lambda source: max(map(oldest_overdue_s, source.link.all), default=0.0),
        of_many="largest",
    ),
    MetricSpec(
        "ttlproxy_parked_keys",
        "gauge",
        "keys that are not reaped for a while, because Redis refuses it",
        _parked,
        "reason",
        PARKED,
    ),
    MetricSpec(
        "ttlproxy_swept_entries_total",
        "counter",
        "deadlines dropped because their element no longer existed",
        lambda source: source.counters.swept_entries,
    ),
    MetricSpec(
        "ttlproxy_lost_indexes_total",
        "counter",
        "keys whose deadlines Redis had evicted, found when the first of them was due",
        lambda source: source.counters.lost_indexes,
    ),
    MetricSpec(
        "ttlproxy_refusals_total",
        "counter",
        "the proxy's own requests that Redis answered with an error",
        lambda source: source.counters.refusals,
    ),
    MetricSpec(
        "ttlproxy_link_up",
        "gauge",
        "1 while the proxy's own connections to Redis are up, else 0",
        lambda source: int(source.link.serving.now),
        of_many="least",
    ),
    MetricSpec(
        "ttlproxy_upstream_info",
        "info",
        "the address of the server that is served now, or was last",
        lambda source: {"address": source.link.shown},
    ),
    MetricSpec(
        "ttlproxy_upstream_changes_total",
        "counter",
        "how often clients were closed because the server, or its role, was another one",
        lambda source: sum(link.server.changes for link in source.link.all),
    ),
    MetricSpec(
        "ttlproxy_link_round_trip_seconds",
        "gauge",
        "how long Redis took to answer the proxy's heartbeat, which is sent once a second, or less"
        " often if there are many proxies",
        lambda source: (
            max((each.heartbeat.round_trip_ms for each in source.link.all), default=0) / 1000
        ),
        of_many="largest",
    ),
    MetricSpec(
        "ttlproxy_redis_calls_total",
        "counter",
        "commands that Redis has carried out for all its clients, those that scripts call included;"
        " read every ten seconds, of many proxies by one",
        _of_commands(lambda counts: counts.calls),
        "family",
        FAMILIES,
        of_many="largest",
    ),
    MetricSpec(
        "ttlproxy_redis_call_seconds_total",
        "counter",
        "the time that these have taken in Redis",
        _of_commands(lambda counts: counts.seconds),
        "family",
        FAMILIES,
        of_many="largest",
    ),
    MetricSpec(
        "ttlproxy_redis_failed_calls_total",
        "counter",
        "commands that Redis has answered with an error, or has not carried out",
        _of_commands(lambda counts: counts.failed + counts.rejected),
        "family",
        FAMILIES,
        of_many="largest",
    ),
    MetricSpec(
        "ttlproxy_redis_errors_total",
        "counter",
        "errors that Redis has returned to all its clients, by their first word",
        _errors,
        "error",
        ERRORS,
        of_many="largest",
    ),
    *NODE_METRICS,
    MetricSpec(
        "ttlproxy_event_loop_lag_seconds",
        "histogram",
        "how late the event loop ran a timer, measured four times a second",
        lambda source: _in_seconds(source.heartbeat.lag_ms),
    ),
    MetricSpec(
        "ttlproxy_heartbeat_age_seconds",
        "gauge",
        "how long ago the event loop last ran",
        lambda source: source.heartbeat.age_s(),
        of_many="largest",
    ),
    MetricSpec(
        "ttlproxy_workers",
        "gauge",
        "worker processes that serve clients",
        lambda source: 1,
    ),
    MetricSpec(
        "ttlproxy_workers_replaced_total",
        "counter",
        "workers that ended unexpectedly and were replaced",
        lambda source: 0,
    ),
    MetricSpec(
        "ttlproxy_workers_cpu_seconds_total",
        "counter",
        "CPU time of the workers, user and system",
        lambda source: time.process_time(),
    ),
    MetricSpec(
        MEMORY,
        "gauge",
        "memory of each worker (RSS); where there is one process, it is worker 1; Linux only",
        lambda source: own_memory(),
        BY_WORKER,
    ),
    MetricSpec(
        "ttlproxy_memory_limit_bytes",
        "gauge",
        "memory that all processes of the container may use together (cgroup); +Inf without a"
        " limit, and where there are no cgroups",
        lambda source: container_memory().limit,
        of_many="least",
    ),
    MetricSpec(
        "ttlproxy_memory_used_bytes",
        "gauge",
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
    """A metric of a report by the value of its label, such as the server; empty if it has none."""
    return cast(dict[str, float], of.get(name, {}))


def without_nodes(of: Report, gone: Collection[str]) -> Report:
    """The report without these servers."""
    kept = dict(of)
    for metric in METRICS:
        if metric.label == BY_NODE and metric.name in kept:
            numbers = by_label(of, metric.name)
            kept[metric.name] = {name: numbers[name] for name in numbers if name not in gone}
    return kept


def report(source: Source) -> Report:
    """All metrics of one process, as of now."""
    return {metric.name: metric.read(source) for metric in METRICS}


def total(reports: Sequence[Report]) -> Report:
    """The reports of several processes, combined into one."""
    found: Report = {}
    for metric in METRICS:
        values = [each[metric.name] for each in reports if metric.name in each]
        if values:
            found[metric.name] = _total(metric, values)
    return found


def lasting(of: Report) -> Report:
    """The part of a report that stays true when its process has ended."""
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
