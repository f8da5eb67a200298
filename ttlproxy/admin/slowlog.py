"""The slowest calls of our scripts in Redis's SLOWLOG; shows names of scripts, never keys."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ttlproxy.admin.cached_answers import Answer
from ttlproxy.admin.redis_queries import Inquiry
from ttlproxy.errors import Unanswered

_ENTRIES: Final = 128
_SHOWN: Final = 8
# The names of the proxy's own connections -> words for people.
_CALLERS: Final = {
    b"ttlproxy:reaper": "the reaper",
    b"ttlproxy:reaps": "a reap before a read",
    b"ttlproxy:link": "the link",
    b"ttlproxy:admin": "this page",
}


async def slowest(inquiry: Inquiry, names: Mapping[bytes, str]) -> Answer:
    """The slowest calls, the slowest first. `names`: SHA -> script. Raises Unanswered."""
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
    return {"calls": calls[:_SHOWN], "from_ms": await _from_ms(inquiry)}


async def _from_ms(inquiry: Inquiry) -> float | None:
    """Redis logs calls that take longer than this; None if it is off or unknown."""
    try:
        (setting,) = await inquiry.ask([(0, (b"CONFIG", b"GET", b"slowlog-log-slower-than"))])
    except Unanswered:
        return None
    limit_us = int(setting[1]) if setting else -1
    return limit_us / 1000 if limit_us >= 0 else None
