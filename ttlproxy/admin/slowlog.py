"""The slowest of our scripts' calls, as Redis has written them down; names, never keys."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, Final

from redis.exceptions import NoPermissionError

from ttlproxy.admin.inquiry import Inquiry
from ttlproxy.errors import Unanswered

_EVERY_S: Final = 5.0
_ENTRIES: Final = 128
_SHOWN: Final = 8
_THRESHOLD: Final = b"slowlog-log-slower-than"
# What the proxy's own connections are called, for people.
_CALLERS: Final = {
    b"ttlproxy:reaper": "the reaper",
    b"ttlproxy:reaps": "a reap before a read",
    b"ttlproxy:link": "the link",
    b"ttlproxy:admin": "this page",
}


class Slowlog:
    """Looks into Redis's SLOWLOG when asked, at most every few seconds, while Redis lets it."""

    def __init__(self, inquiry: Inquiry) -> None:
        self._inquiry = inquiry
        self._looked_s = -_EVERY_S
        self._seen: dict[str, object] = {"calls": [], "note": ""}
        self._is_refused = False

    async def slowest(self, names: Mapping[bytes, str]) -> dict[str, object]:
        """What was seen last, as JSON has it; `names`: of the scripts by their SHA."""
        if self._is_refused or time.monotonic() - self._looked_s < _EVERY_S:
            return self._seen
        self._looked_s = time.monotonic()
        try:
            self._seen = await self._look(names)
        except Unanswered as trouble:
            # Redis logs each refusal, so one is enough.
            self._is_refused = isinstance(trouble.__cause__, NoPermissionError)
            self._seen = {"calls": [], "note": f"Cannot be read: {trouble}"}
        return self._seen

    async def _look(self, names: Mapping[bytes, str]) -> dict[str, object]:
        now, entries = await self._inquiry.ask(
            [(0, (b"TIME",)), (0, (b"SLOWLOG", b"GET", _ENTRIES))]
        )
        calls = [
            {
                "script": names.get(words[1], f"script {words[1][:8].decode(errors='replace')}"),
                "took_ms": took_us / 1000,
                "by": _CALLERS.get(name, "a client"),
                "ago_s": max(int(now[0]) - at_s, 0),
            }
            for _, at_s, took_us, words, _, name in entries
            if words[0].upper() == b"EVALSHA" and len(words) > 1
        ]
        slowest = sorted(calls, key=lambda call: -float(call["took_ms"]))[:_SHOWN]
        return {"calls": slowest, "note": await self._note()}

    async def _note(self) -> str:
        """From when on Redis writes a call down."""
        try:
            (setting,) = await self._inquiry.ask([(0, (b"CONFIG", b"GET", _THRESHOLD))])
        except Unanswered:
            return "Of Redis's SLOWLOG."
        limit_us = int(_value(setting))
        if limit_us < 0:
            return "Redis writes none down: slowlog-log-slower-than is negative."
        return f"Of Redis's SLOWLOG, which has calls from {limit_us / 1000:g} ms on."


def _value(setting: Any) -> bytes:
    return setting[1] if len(setting) > 1 else b"-1"
