"""Checks of proxies on the server: which run, which others have left keys, which keys are overdue,
and which commands wait for other slots."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Final

from ttlproxy.commands import Call
from ttlproxy.core.counted import counted
from ttlproxy.core.keys import STATE
from ttlproxy.link import other_prefixes
from ttlproxy.operations.doctor.content import examine_keys
from ttlproxy.operations.doctor.finding import ERROR, INFO, OK, WARNING, Finding
from ttlproxy.operations.doctor.target import Target
from ttlproxy.operations.key_walk import scan

_LATE_MS: Final = 5000
_PAGES: Final = 100
_SHOWN: Final = 3


async def proxies(target: Target) -> AsyncIterator[Finding]:
    if count := await target.attached():
        yield Finding(OK, f"{counted(count, 'proxy is', 'proxies are')} connected")
    else:
        yield Finding(INFO, "no proxy is connected", "Expired elements are not being removed.")


async def prefixes(target: Target) -> AsyncIterator[Finding]:
    """Finds proxies with another prefix: they do not know of deadlines under this one, nor this one
    of theirs."""
    running, left = await other_prefixes(target.redis, target.keys.prefix), set[bytes]()
    if not target.keys.clustered:
        async for names, _ in scan(target.redis, 0, STATE + b"*", _PAGES):
            left.update(name.removeprefix(STATE) for name in names)
    why = (
        "A write through a proxy with one prefix leaves the deadlines under the other, so that new"
        " elements are deleted at old deadlines."
    )
    for other in sorted((running | left) - {target.keys.prefix}):
        shown = other.decode(errors="backslashreplace")
        if other in running:
            yield Finding(ERROR, f"a proxy has the prefix {shown}", why, "stop it")
        else:
            fix = f"ttlproxy purge --prefix {shown}"
            yield Finding(WARNING, f"keys of the prefix {shown} are left", why, fix)


async def lease(target: Target) -> AsyncIterator[Finding]:
    name = target.keys.shared_by(target.keys.here, target.keys.lease)
    if await target.ask(b"PTTL", name) == -1:
        yield Finding(
            ERROR,
            f"{name.decode()} never expires",
            "Only the proxy that holds this lease removes expired elements. No other can take"
            " over.",
            f"DEL {name.decode()}",
        )


async def overdue(target: Target) -> AsyncIterator[Finding]:
    """Finds keys that were due seconds ago, so that the reaper has had time for them."""
    now_ms = await target.now_ms()
    late = await target.schedules.late(target.redis, target.databases, now_ms - _LATE_MS)
    for refusal in late.refused.values():
        raise refusal
    if late.first_ms is None or not late.keys:
        return
    oldest_s = (now_ms - late.first_ms) / 1000
    what = f"{counted(late.keys, 'key is', 'keys are')} overdue, the oldest for {oldest_s:.0f} s"
    if await target.attached():
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


async def outboxes(target: Target) -> AsyncIterator[Finding]:
    """Yields a finding if entries have waited for long, in a sample of the outboxes."""
    sample = await target.schedules.sample(target.redis, 0, target.sample)
    names = [name for name in sample if target.keys.destination(name) is not None]
    if not names:
        return
    script_calls = await target.script_calls("key_examine", "outbox_read")
    states = await examine_keys(target, script_calls, [(0, name) for name in names], 1)
    now_ms = await target.now_ms()
    ages_ms = {
        key: now_ms - state.first_ms for (_, key), state in states.items() if state.first_ms > 0
    }
    late = [name for name, age_ms in ages_ms.items() if age_ms > _LATE_MS]
    if not late:
        return
    reads = [Call("outbox_read", (name,), (b"0", b"0")) for name in late]
    replies = await target.ask_each(0, [script_calls.words(call, b"0") for call in reads])
    count = sum(waiting for waiting, *_ in replies)
    slots = ", ".join(f"{target.keys.destination(name)}" for name in late[:_SHOWN])
    yield Finding(
        WARNING,
        f"{counted(count, 'element')} in {counted(len(late), 'outbox', 'outboxes')} for other slots"
        f" ({slots}), the first for {max(ages_ms.values()) // 1000} s",
        "Their destinations take nothing: they have the wrong type, or their master is full or"
        " away, or no proxy is running. Nothing is lost.",
        "see the check `rules`, and the proxies' logs",
    )


async def deferred(target: Target) -> AsyncIterator[Finding]:
    """Yields a finding for each database with unsigned deferred commands; examines a sample."""
    script_calls = await target.script_calls("deferred_examine")
    pads = (await target.signer()).pads
    looked, is_sound = 0, True
    for db in target.databases:
        unsigned: dict[bytes, int] = {}
        for name in await target.others(db):
            if (key := target.keys.deferring(name)) is None:
                continue
            looked += 1
            words = script_calls.words(Call("deferred_examine", (key,), (*pads, b"100")), b"")
            if count := await target.ask(*words, db=db):
                unsigned[key] = count
        if unsigned:
            is_sound = False
            count = sum(unsigned.values())
            yield Finding(
                ERROR,
                f"deferred commands in database {db} that no proxy has signed: {count}",
                "They were written without a proxy, or signed with another key. They are not"
                " carried out.",
                "UNDEFER key id for each, through a proxy; then DEFER again what you need",
                tuple(unsigned)[:_SHOWN],
            )
    if is_sound:
        yield Finding(OK, f"the deferred commands of {counted(looked, 'key')} are signed")
