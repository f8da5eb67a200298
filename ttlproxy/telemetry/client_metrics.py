"""The metrics about clients: their connections, requests, scripts and buffers. A row for each."""

from __future__ import annotations

import math
import sys
from typing import Final

from ttlproxy import __version__
from ttlproxy.core.counters import (
    DIALS_FAILED,
    GONE,
    HANDLED,
    HELD,
    LEFT_SHARING,
)
from ttlproxy.telemetry.metric_spec import (
    BY_CERTIFICATE,
    BY_SCRIPT,
    MetricSource,
    by_value,
    counter,
    gauge,
    histogram,
    in_seconds,
    info,
)

CERTIFICATES: Final = (
    "listener_certificate",
    "listener_ca",
    "upstream_certificate",
    "upstream_ca",
)


def _buffers_used(source: MetricSource) -> float:
    limit = source.settings.max_buffer_bytes
    return sum(source.server.buffered_bytes().values()) / limit if limit else 0


def _build(source: MetricSource) -> dict[str, str]:
    return {
        "version": __version__,
        "python": sys.version.split()[0],
        "event_loop": type(source.loop).__module__.partition(".")[0],
    }


CLIENT_METRICS: Final = (
    info("ttlproxy_build_info", "version of ttlproxy and Python, and the event loop", _build),
    gauge("ttlproxy_connections", "connected clients", lambda source: source.counters.clients),
    gauge(
        "ttlproxy_max_clients",
        "how many clients may be connected: --max-clients, or fewer if files are limited",
        lambda source: source.settings.max_clients,
        of_many="largest",
    ),
    counter(
        "ttlproxy_connections_accepted_total",
        "clients that connected",
        lambda source: source.counters.accepted,
    ),
    counter(
        "ttlproxy_connections_refused_total",
        "clients refused because Redis was unavailable, by max_clients or by protected mode",
        lambda source: source.counters.refused,
    ),
    counter(
        "ttlproxy_connections_closed_total",
        "client connections that ended, by reason",
        lambda source: by_value(source.counters.gone, GONE),
        "reason",
        GONE,
    ),
    counter(
        "ttlproxy_tls_handshakes_failed_total",
        "TLS handshakes that clients began and that failed or took too long",
        lambda source: source.counters.tls_failures,
    ),
    gauge(
        "ttlproxy_certificate_expires_timestamp_seconds",
        "when certificates of the settings end, as they were at the last new connection: the first"
        " of those that are shown, the last of each file of CA certificates",
        lambda source: source.server.certificates_expire_s(),
        BY_CERTIFICATE,
        CERTIFICATES,
        of_many="least",
    ),
    counter(
        "ttlproxy_upstream_connections_opened_total",
        "connections to Redis that were opened: for clients, and by the link and the reaper",
        lambda source: source.counters.dials.opened,
    ),
    counter(
        "ttlproxy_upstream_connections_failed_total",
        "attempts to open one that failed, by reason",
        lambda source: by_value(source.counters.dials.failed, DIALS_FAILED),
        "reason",
        DIALS_FAILED,
    ),
    counter(
        "ttlproxy_requests_total",
        "requests sent to Redis: unchanged, native commands as a script call, virtual commands",
        lambda source: {kind: getattr(source.counters.requests, kind) for kind in HANDLED},
        "kind",
        HANDLED,
    ),
    counter(
        "ttlproxy_script_calls_total",
        "requests of clients that the proxy's scripts carry out, and its own calls of them",
        lambda source: dict[str, float](
            each for each in source.counters.script_calls.items() if each[1]
        ),
        BY_SCRIPT,
    ),
    histogram(
        "ttlproxy_round_trip_seconds",
        "from sending requests of a client to Redis until their last reply: a sample, of at most"
        " five in a second",
        lambda source: in_seconds(source.counters.round_trip_ms),
    ),
    counter(
        "ttlproxy_script_round_trips_total",
        "how many of these were a call of a script of the proxy alone",
        lambda source: dict[str, float](source.counters.script_trips),
        BY_SCRIPT,
    ),
    counter(
        "ttlproxy_script_round_trips_failed_total",
        "how many of those got an error",
        lambda source: dict[str, float](source.counters.script_trips_failed),
        BY_SCRIPT,
    ),
    counter(
        "ttlproxy_script_round_trip_seconds_total",
        "the sum of how long they took",
        lambda source: {
            name: ms / 1000 for name, ms in dict(source.counters.script_trips_ms).items()
        },
        BY_SCRIPT,
    ),
    counter(
        "ttlproxy_writes_by_rule_total",
        "native writes that became a script call by a rule of ONWRITE, which dates their elements",
        lambda source: source.counters.requests.by_rule,
    ),
    counter(
        "ttlproxy_dated_elements_total",
        "elements that got the deadline of a rule of ONWRITE soon after their write, by a sweep",
        lambda source: source.counters.dated_elements,
    ),
    counter(
        "ttlproxy_sent_bytes_total",
        "bytes of replies sent to clients, and of requests sent to Redis",
        lambda source: dict[str, float](
            clients=source.counters.to_clients.bytes, redis=source.counters.to_redis.bytes
        ),
        "to",
        ("clients", "redis"),
    ),
    gauge(
        "ttlproxy_buffered_bytes",
        "bytes that wait in the proxy for clients that do not read, and for a Redis that does not"
        " keep up or is waited for, as of the last second; clients with less than 64 KiB are not"
        " counted",
        lambda source: source.server.buffered_bytes(),
        "to",
        ("clients", "redis"),
    ),
    gauge(
        "ttlproxy_buffer_limit_bytes",
        "how many bytes may wait: --max-buffer-bytes of each process; +Inf without a limit",
        lambda source: source.settings.max_buffer_bytes or math.inf,
    ),
    gauge(
        "ttlproxy_buffers_used_ratio",
        "the part of the limit that waits, from 0 to 1; at 1 the client with the most is closed",
        _buffers_used,
        of_many="largest",
    ),
    gauge(
        "ttlproxy_shared_connections",
        "connections to Redis that clients share (--share-upstream)",
        lambda source: source.counters.sharing.connections,
    ),
    gauge(
        "ttlproxy_sharing_clients",
        "clients that share a connection to Redis",
        lambda source: source.counters.sharing.clients,
    ),
    counter(
        "ttlproxy_sharing_left_total",
        "how often a client got or kept a connection to Redis of its own where clients share, by"
        " why: AUTH, HELLO or SELECT, after which it may share again; a command that may not be"
        " shared; the form of a request; replies that it does not read; no shared connection",
        lambda source: by_value(source.counters.sharing.left, LEFT_SHARING),
        "reason",
        LEFT_SHARING,
    ),
    gauge(
        "ttlproxy_held_connections",
        "clients whose requests wait for a reap, for Redis, or for an item (LEASE ... BLOCK)",
        lambda source: source.counters.holding,
    ),
    counter(
        "ttlproxy_holds_total",
        "how often a client's requests waited until expired elements were removed",
        lambda source: source.counters.held,
    ),
    histogram(
        "ttlproxy_hold_seconds",
        "how long requests waited in the proxy each time before they went to Redis, by what for:"
        " expired elements, a new family of keys, an index, rules that are read, Redis"
        " that is away",
        lambda source: {why: in_seconds(held) for why, held in source.counters.hold_ms.items()},
        "reason",
        HELD,
    ),
)
