"""The section of INFO about the proxy. Knows counters and their names; does no I/O."""

from __future__ import annotations

import os

from ttlproxy import __version__
from ttlproxy.core.counters import Counters
from ttlproxy.link.connecting.known_server import ServerClock
from ttlproxy.link.shared.schedule_queries import Overdue


def info_section(
    began_ms: float, clock: ServerClock, managed_keys: int, counters: Counters, overdue: Overdue
) -> bytes:
    """Returns the section as of now, in INFO's format; fields that Redis has, too, have its names.

    `began_ms`: when this proxy began, by the local clock
    """
    fields: dict[str, object] = {
        "ttlproxy_version": __version__,
        "process_id": os.getpid(),
        "uptime_in_seconds": int((clock.reading() - began_ms) // 1000),
        "connected_clients": counters.clients,
        "total_connections_received": counters.accepted,
        "rejected_connections": counters.refused,
        "managed_keys": managed_keys,
        "overdue_keys": overdue.keys,
        "oldest_overdue_ms": round(1000 * overdue.oldest_s(clock.now_ms())),
        "held_chunks": counters.held,
        "reaped_elements": sum(counters.reaped_elements.values()),
        "fired_elements": sum(counters.fired_elements.values()),
        "dead_letters": counters.dead_lettered_elements,
        "carried_entries": counters.carried_entries,
        "waiting_entries": counters.waiting_entries,
        "parked_keys": sum(counters.parked.values()),
        "swept_entries": counters.swept_entries,
        "lost_indexes": counters.lost_indexes,
        "writes_by_rule": counters.requests.by_rule,
        "dated_elements": counters.dated_elements,
        "maxlen_refusals": sum(node.maxlen_refusals for node in counters.nodes),
        "refusals": counters.refusals,
    }
    lines = [f"{name}:{value}" for name, value in fields.items()]
    lines += [f"gone_clients_{why}:{count}" for why, count in sorted(counters.gone.items())]
    for name, times in (("reap_lag_ms", counters.lag_ms), ("reap_call_ms", counters.reap_call_ms)):
        lines.append(f"{name}:p50={times.at(50):g},p99={times.at(99):g},max={times.most:g}")
    for kind, count in sorted(counters.reaped_elements.items()):
        lines.append(f"reaped_{kind}:elements={count}")
    for verb, count in sorted(counters.fired_elements.items()):
        lines.append(f"fired_{verb}:elements={count}")
    lines += [f"parked_{why}:keys={count}" for why, count in sorted(counters.parked.items())]
    return "".join(f"{line}\r\n" for line in ["# Ttlproxy", *lines]).encode()
