"""Parts of the status page other than figures: clients, parked keys, masters, rules, and the
doctor's findings.

Names of keys and clients' addresses are what users have written, so they are left out if the
inspector is off.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from heapq import nlargest
from typing import Any, Final

from ttlproxy.addresses import Upstream
from ttlproxy.admin.redis_queries import Answer, Inquiry
from ttlproxy.config import Settings
from ttlproxy.core.text import shown
from ttlproxy.net.progress import Progress
from ttlproxy.operations.doctor import Severity, examined
from ttlproxy.telemetry.health import Details
from ttlproxy.telemetry.metrics_catalogue import by_label
from ttlproxy.telemetry.worker_totals import Subject

# The number of clients with the largest buffers that are shown, and of the oldest ones.
_EACH: Final = 25
_SAID_BY_CLIENTS: Final = ("name", "user", "library")


def clients(found: Sequence[Details], *, names: bool) -> dict[str, Any]:
    """Returns all clients as a JSON object; empty before the first look."""
    if not found:
        return {}
    tables = [each["clients"] for each in found]
    states = sum((Counter(table["states"]) for table in tables), Counter[str]())
    rows = [
        {"worker": each.get("worker"), **row} for each in found for row in each["clients"]["rows"]
    ]
    # The clients with the largest buffers, then the oldest.
    loaded = nlargest(
        _EACH, (row for row in rows if row["buffered"]), key=lambda row: int(row["buffered"])
    )
    rest = (row for row in rows if row not in loaded)
    chosen = loaded + nlargest(_EACH, rest, key=lambda row: int(row["age_s"]))
    return {
        "all": sum(table["all"] for table in tables),
        "states": dict(states.most_common()),
        "buffered": sum(table["buffered"] for table in tables),
        "rows": [
            {**row, **{what: shown(bytes.fromhex(row[what])) for what in _SAID_BY_CLIENTS}}
            for row in chosen
            if names
        ],
    }


def parked(found: Sequence[Details], *, names: bool) -> dict[str, Any]:
    """Returns all parked keys as a JSON object; empty before the first look. Without names, only
    how many keys there are for each of Redis's reasons."""
    if not found:
        return {}
    tables = [each["parked"] for each in found]
    return {
        "all": sum(table["all"] for table in tables),
        "leads": any(table["leads"] for table in tables),
        "groups": [_group(group, names) for table in tables for group in table["groups"]],
    }


def _group(group: Mapping[str, Any], names: bool) -> dict[str, Any]:
    keys = [{**key, "name": shown(bytes.fromhex(key["name"]))} for key in group["keys"]]
    about = {"why": group["why"], "count": len(keys)}
    if not names:
        return {**about, "said": "", "fix": "", "keys": []}
    return {**about, "said": group["said"], "fix": group["fix"], "keys": keys}


# A figure of the page -> the metric, and the factor of its values.
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
    """Returns a JSON object for each master; none in front of one server. A figure that is unknown
    is null."""
    nodes, report = subject.nodes(), subject.report()
    if len(nodes) < 2:
        return []
    found: dict[str, dict[str, object]] = {
        address: {"address": address, "why_not": why_not, **dict.fromkeys(_FIGURES)}
        for address, why_not in sorted(nodes.items())
    }
    for name, (metric, factor) in _FIGURES.items():
        for address, number in by_label(report, metric).items():
            if address in found:
                found[address][name] = round(number * factor, 3)
    return list(found.values())


_MOST = 100


async def rules(inquiry: Inquiry) -> Answer:
    """Returns the rules of all databases, those that win first. Raises Unanswered."""
    found = [
        {"db": db, "pattern": shown(pattern), "action": f"{before}{' '.join(map(shown, words))}"}
        for db in ([0] if await inquiry.is_clustered() else await inquiry.databases())
        for before, script in (("", "rule_list"), ("ONWRITE ", "write_rule_list"))
        for pattern, *words in await inquiry.call(db, script, ())
    ]
    return {"rules": found[:_MOST], "all": len(found)}


# Fewer deadlines are examined than by `ttlproxy doctor`, because this runs again and again.
_SAMPLE: Final = 50


_NAMED: Final = "ttlproxy doctor names the key"


async def findings(settings: Settings, upstream: Upstream, *, names: bool) -> Answer:
    """Returns warnings and errors, the worst first; `names`: with names of keys, if they have
    some."""
    found = await examined(settings, upstream, _SAMPLE, Progress.silent(), fixes=False)
    return {
        "findings": [
            {
                "level": str(finding.severity),
                "what": finding.what if names or not finding.nameless else finding.nameless,
                "why": finding.why,
                "fix": finding.fix if names or not finding.nameless else _NAMED,
            }
            for finding in found
            if finding.severity >= Severity.WARNING
        ]
    }
