"""Checks whether what rules of ONEXPIRE send to other slots gets there."""

from __future__ import annotations

from ttlproxy.commands import Call
from ttlproxy.core.counted import counted
from ttlproxy.link import run, valid
from ttlproxy.operations.doctor.content import looked_at, script_calls_of
from ttlproxy.operations.doctor.finding import OK, WARNING, Finding
from ttlproxy.operations.doctor.target import Target

_LONG_MS = 5000
_SHOWN = 3
_NONE = Finding("outboxes", OK, "nothing waits for long for other slots")


async def outboxes(target: Target) -> list[Finding]:
    """A finding if entries have waited for long, among a sample of the outboxes."""
    sample = await target.schedules.sample(target.redis, 0, target.sample)
    names = [name for name in sample if target.keys.destination(name) is not None]
    if not names:
        return [_NONE]
    script_calls = await script_calls_of(target, "key_examine", "outbox_read")
    looks = await looked_at(target, script_calls, [(0, name) for name in names], 1)
    now_ms = await target.now_ms()
    waiting = {key: now_ms - look.first_ms for (_, key), look in looks.items() if look.first_ms > 0}
    late = [name for name, age_ms in waiting.items() if age_ms > _LONG_MS]
    if not late:
        return [_NONE]
    reads = [Call("outbox_read", (name,), (b"0", b"0")) for name in late]
    replies = await run(target.redis, [(0, script_calls.words(call, b"0")) for call in reads])
    count = sum(valid(reply)[0] for reply in replies)
    slots = ", ".join(f"{target.keys.destination(name)}" for name in late[:_SHOWN])
    oldest_s = max(waiting.values()) // 1000
    return [
        Finding(
            "outboxes",
            WARNING,
            f"{counted(count, 'element')} in {counted(len(late), 'outbox', 'outboxes')} for other"
            f" slots ({slots}), the first for {oldest_s} s",
            "Their destinations take nothing: they have the wrong type, or their master is full or"
            " away, or no proxy is running. Nothing is lost.",
            "see the check `rules`, and the proxies' logs",
        )
    ]
