"""The section of INFO about the proxy. Knows counters and their names; does no I/O."""

from __future__ import annotations

import os
from collections.abc import Callable

from ttlproxy import __version__
from ttlproxy.core.counters import Counters
from ttlproxy.link.connecting.known_server import ServerClock
from ttlproxy.link.shared.schedule_queries import Overdue


class InfoSection:
    """The section of INFO about a proxy that starts now."""

    def __init__(
        self,
        clock: ServerClock,
        managed_keys: Callable[[], int],
        counters: Counters,
        overdue: Overdue,
    ) -> None:
        """`managed_keys()` returns how many there are."""
        self._clock = clock
        self._managed_keys = managed_keys
        self._counters = counters
        self._overdue = overdue
        self._began_ms = clock.reading()

    def section(self) -> bytes:
        """Returns the section as of now."""
        uptime_ms = self._clock.reading() - self._began_ms
        now_ms = self._clock.now_ms()
        return _section(uptime_ms, self._managed_keys(), self._counters, self._overdue, now_ms)


def _section(
    uptime_ms: float, managed_keys: int, counters: Counters, overdue: Overdue, now_ms: int
) -> bytes:
    """Returns the section in INFO's format; fields that Redis has, too, have its names.

    `now_ms`: by the server's clock
    """
    fields: dict[str, object] = {
        "ttlproxy_version": __version__,
        "process_id": os.getpid(),
        "uptime_in_seconds": int(uptime_ms // 1000),
        "connected_clients": counters.clients,
        "total_connections_received": counters.accepted,
        "rejected_connections": counters.refused,
        "managed_keys": managed_keys,
        "overdue_keys": overdue.keys,
        "oldest_overdue_ms": round(1000 * overdue.oldest_s(now_ms)),
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
