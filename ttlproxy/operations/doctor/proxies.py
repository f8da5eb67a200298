"""Checks of what proxies do not get done: keys that are overdue, and destinations that take
nothing."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Final

from ttlproxy.core.expiry_actions import Actions
from ttlproxy.core.text import counted
from ttlproxy.core.write_rules import parted
from ttlproxy.operations.doctor.finding import ERROR, INFO, OK, WARNING, Finding
from ttlproxy.operations.doctor.signatures import rules
from ttlproxy.operations.doctor.target import Target

_LATE_MS: Final = 5000
_SHOWN: Final = 3


async def overdue(target: Target) -> AsyncIterator[Finding]:
    """Finds keys that were due seconds ago, so that the reaper has had time for them."""
    count, now_ms = await target.attached(), await target.now_ms()
    late = await target.schedules.late(target.redis, target.databases, now_ms - _LATE_MS)
    for refusal in late.refused.values():
        raise refusal
    keys, oldest_s = late.keys, (now_ms - (late.first_ms or now_ms)) / 1000
    what = f"{counted(keys, 'key is', 'keys are')} overdue, the oldest for {oldest_s:.0f} s"
    if not keys and count:
        yield Finding(OK, f"{counted(count, 'proxy is', 'proxies are')} connected")
    elif not keys:
        yield Finding(INFO, "no proxy is connected", "Expired elements are not being removed.")
    elif count:
        yield Finding(
            ERROR,
            f"{what}, although proxies are connected",
            "Either more elements expire than the reaper may remove, or Redis refuses its"
            " requests.",
            "see the proxies' logs and the other findings; a larger --reap-budget-ms lets a reap"
            " take longer",
        )
    else:
        yield Finding(
            WARNING,
            f"{what}, and no proxy is connected",
            "Clients that read without a proxy see expired elements.",
            f"ttlproxy --upstream {target.shown}",
        )


async def destinations(target: Target) -> AsyncIterator[Finding]:
    """Examines the destinations for the patterns, taken as keys, and for some managed keys."""
    for db in target.databases:
        signed = {name: row for name, row in (await rules(target, db)).items() if row is not None}
        rows = {name: row for name, row in signed.items() if parted(name) is None}
        managed = await target.schedules.sample(target.redis, db, target.sample) if rows else []
        actions = Actions(rows)
        sources: dict[tuple[bytes, str], list[bytes]] = {}
        for key in [*rows, *managed]:
            action = actions.of(key)
            for dest in action.keys if action else ():
                wanted = "stream" if action and action.verb == b"XADD" else "list"
                sources.setdefault((dest, wanted), []).append(key)
        for (dest, wanted), keys in sources.items():
            kind = (await target.ask(b"TYPE", dest, db=db)).decode()
            if kind not in ("none", wanted):
                shown = dest.decode(errors="backslashreplace")
                what = f"in database {db} is a {kind}, but a rule of ONEXPIRE needs a {wanted}"
                yield Finding(
                    ERROR,
                    f"{shown} {what}",
                    "Expired elements stay in their keys until they can be delivered.",
                    f"RENAMENX {shown} {shown}:aside",
                    tuple(dict.fromkeys(keys))[:_SHOWN],
                    f"a key {what}",
                )
