"""The calls of scripts: how many, and the slowest. Shows names of scripts, never keys.

Redis counts the calls of all scripts of the server together, including those of other programs, and
its SLOWLOG has the slowest ones. The proxy counts its own calls by script, and the time of its
reaps; for others it has a sample of round trips.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, cast

from ttlproxy.admin.redis_queries import Answer, Inquiry
from ttlproxy.errors import Unanswered
from ttlproxy.telemetry.metric_spec import Buckets, Report

_ENTRIES: Final = 128
_REAPS: Final = "ttlproxy_reap_call_seconds"
_BY_SCRIPT: Final = (
    "ttlproxy_script_calls_total",
    "ttlproxy_script_round_trips_total",
    "ttlproxy_script_round_trip_seconds_total",
)
_EVALS: Final = re.compile(
    rb"^cmdstat_(?:eval|evalsha|evalsha_ro|eval_ro):calls=(\d+),usec=(\d+)"
    rb"(?:.*?,failed_calls=(\d+))?",
    re.MULTILINE,
)
_SHOWN: Final = 8
# The names of the proxy's own connections -> words for people.
_CALLERS: Final = {
    b"ttlproxy:reaper": "the reaper",
    b"ttlproxy:reaps": "a reap before a read",
    b"ttlproxy:link": "the link",
    b"ttlproxy:admin": "this page",
}


async def slowest(inquiry: Inquiry, names: Mapping[bytes, str]) -> Answer:
    """Returns the slowest calls, the slowest first. `names`: SHA -> script. Raises Unanswered."""
    now, entries = await inquiry.ask([(0, (b"TIME",)), (0, (b"SLOWLOG", b"GET", _ENTRIES))])
    calls: list[dict[str, Any]] = [
        {
            "script": names.get(words[1], f"script {words[1][:8].decode(errors='replace')}"),
            "took_ms": took_us / 1000,
            "by": _CALLERS.get(name, "a client"),
            "ago_s": max(int(now[0]) - at_s, 0),
        }
        for _, at_s, took_us, words, _, name in entries
        if words[0].upper() == b"EVALSHA" and len(words) > 1
    ]
    calls.sort(key=lambda call: -call["took_ms"])
    (said,) = await inquiry.ask([(0, (b"INFO", b"commandstats"))])
    rows = [[int(number or 0) for number in row] for row in _EVALS.findall(said)]
    try:
        (limit,) = await inquiry.ask([(0, (b"CONFIG", b"GET", b"slowlog-log-slower-than"))])
    except Unanswered:
        limit = ()
    return {
        "calls": calls[:_SHOWN],
        # The time above which Redis logs calls: negative if it logs none, None if it is unknown.
        "from_ms": int(limit[1]) / 1000 if limit else None,
        "evals": _calls(*map(sum, zip(*rows, strict=True))) if rows else None,
    }


def _calls(calls: int, took_us: float, failed: int = 0) -> dict[str, float | None]:
    mean_ms = took_us / 1000 / calls if calls else None
    return {"calls": calls, "mean_ms": mean_ms, "failed": failed}


def reaps(report: Report) -> dict[str, float | None] | None:
    """Returns the numbers that the proxy has counted of its calls of the reap script."""
    if _REAPS not in report:
        return None
    _, counts, seconds = cast(Buckets, report[_REAPS])
    return _calls(sum(counts), seconds * 1_000_000)


def scripts(report: Report) -> list[dict[str, object]]:
    """Returns the numbers that the proxy has counted of its calls of each script, the most frequent
    first; the mean of their round trips is null if none was measured."""
    calls, trips, seconds = (cast(dict[str, float], report.get(name, {})) for name in _BY_SCRIPT)
    return [
        {
            "script": script,
            "calls": count,
            "mean_ms": 1000 * seconds[script] / trips[script] if trips.get(script) else None,
        }
        for script, count in sorted(calls.items(), key=lambda each: (-each[1], each[0]))
    ]
