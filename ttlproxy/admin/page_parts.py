"""Parts of the status page other than figures: clients, parked keys, masters, rules, and the
doctor's findings.

Names of keys and clients' addresses are what users have written, so they are left out if the
inspector is off.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from heapq import nlargest
from typing import Any, Final

from ttlproxy.addresses import Upstream
from ttlproxy.admin.cached_answers import Answer
from ttlproxy.admin.process_state import Subject
from ttlproxy.admin.redis_queries import Inquiry
from ttlproxy.config import Settings
from ttlproxy.core.text import shown
from ttlproxy.net.progress import Progress
from ttlproxy.operations.doctor import Severity, examined
from ttlproxy.telemetry.health import Details
from ttlproxy.telemetry.metrics_catalogue import by_label

# The number of clients with the largest buffers that are shown, and of the oldest ones.
_EACH: Final = 25


def clients(found: Sequence[Details], *, names: bool) -> dict[str, Any]:
    """Returns all clients as a JSON object; empty before the first look."""
    if not found:
        return {}
    tables = [each["clients"] for each in found]
    states = sum((Counter(table["states"]) for table in tables), Counter[str]())
    rows = [
        {"worker": each.get("worker"), **row} for each in found for row in each["clients"]["rows"]
    ]
    return {
        "all": sum(table["all"] for table in tables),
        "states": dict(states.most_common()),
        "buffered": sum(table["buffered"] for table in tables),
        "rows": [_named(row) for row in _chosen(rows)] if names else [],
    }


def _chosen(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Returns the clients with the largest buffers, then the oldest."""
    rows = list(rows)
    loaded = nlargest(_EACH, (row for row in rows if row["buffered"]), key=_buffered)
    rest = [row for row in rows if row not in loaded]
    return loaded + nlargest(_EACH, rest, key=lambda row: row["age_s"])


def _named(row: Mapping[str, Any]) -> dict[str, Any]:
    said = ("name", "user", "library")
    return {**row, **{what: shown(bytes.fromhex(row[what])) for what in said}}


def _buffered(row: Mapping[str, Any]) -> int:
    return int(row["buffered"])


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


_MOST = 100


async def rules(inquiry: Inquiry) -> Answer:
    """Returns the rules of all databases, those that win first. Raises Unanswered."""
    found: list[dict[str, object]] = []
    for db in [0] if await inquiry.is_clustered() else await inquiry.databases():
        for pattern, *words in await inquiry.call(db, "rule_list", ()):
            action = " ".join(map(shown, words))
            found.append({"db": db, "pattern": shown(pattern), "action": action})
        for pattern, *words in await inquiry.call(db, "write_rule_list", ()):
            action = f"ONWRITE {' '.join(map(shown, words))}"
            found.append({"db": db, "pattern": shown(pattern), "action": action})
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
