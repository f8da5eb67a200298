"""What the processes gathered at the last look, as one: clients, and parked keys.

Names of keys and clients' addresses are what users have written, so they are left out where the
inspector is off.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from heapq import nlargest
from typing import Any, Final

from ttlproxy.admin.text import shown
from ttlproxy.telemetry.details import Details

# Rows of clients with the largest buffers, and of the oldest ones.
_EACH: Final = 25


def clients(found: Sequence[Details], *, names: bool) -> dict[str, Any]:
    """All clients as a JSON object; empty before the first look."""
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
    """Those with the largest buffers, then the oldest."""
    rows = list(rows)
    loaded = nlargest(_EACH, (row for row in rows if row["buffered"]), key=_buffered)
    rest = [row for row in rows if row not in loaded]
    return loaded + nlargest(_EACH, rest, key=lambda row: row["age_s"])


def _named(row: Mapping[str, Any]) -> dict[str, Any]:
    return {
        **row,
        **{what: shown(bytes.fromhex(row[what])) for what in ("name", "user", "library")},
    }


def _buffered(row: Mapping[str, Any]) -> int:
    return int(row["buffered"])


def parked(found: Sequence[Details], *, names: bool) -> dict[str, Any]:
    """All parked keys as a JSON object; empty before the first look. Without names, only how many
    keys there are for each of Redis's reasons."""
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
