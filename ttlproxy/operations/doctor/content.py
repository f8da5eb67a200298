"""Checks a sample of what proxies keep in Redis against the data that it belongs to, and whether
keys are overdue.

One script call examines a key, so that nothing changes during it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from typing import NamedTuple

from ttlproxy.commands import Call
from ttlproxy.core.element_types import TYPES
from ttlproxy.core.registry import DbKey
from ttlproxy.core.text import counted
from ttlproxy.link import run, valid
from ttlproxy.operations.doctor.finding import (
    ERROR,
    WARNING,
    Finding,
    Severity,
    error,
    info,
    ok,
    warning,
)
from ttlproxy.operations.doctor.target import Target
from ttlproxy.operations.key_walk import scan
from ttlproxy.scripts.script_calls import ScriptCalls

_PAGES_FOR_ONE = 0.1  # of SCAN, for each key of the sample
_LEAST_PAGES = 10
_TOGETHER = 100
_EACH = 10
_SHOWN = 3
_SLACK_MS = 1000
_LATE_MS = 5000


class KeyState(NamedTuple):
    """The reply of key_examine.lua for one key; -1 means none."""

    kind: bytes
    place: bytes
    left_ms: int
    index_left_ms: int
    scheduled_ms: int
    first_ms: int
    looked: int
    gone: int


class Fault(NamedTuple):
    """One way in which the content can be wrong.

    many: how the finding describes several keys with this fault; holds: whether a key has this
    fault
    """

    check: str
    severity: Severity
    many: str
    holds: Callable[[KeyState], bool]
    why: str


def _indexed(key: KeyState) -> bool:
    return key.place == b"zset" and key.kind in TYPES


_FAULTS = (
    Fault(
        "leftover",
        WARNING,
        "have deadlines for elements that no longer exist",
        lambda key: key.gone > 0,
        "A client writes to Redis without a proxy. A new element of the same name may be removed"
        " at the old deadline.",
    ),
    Fault(
        "replaced",
        WARNING,
        "have deadlines but no elements: they were deleted, or have another type now",
        lambda key: key.place == b"zset" and key.kind not in TYPES,
        "A client has deleted or replaced them without a proxy. New elements under these names"
        " may be removed at the old deadlines.",
    ),
    Fault(
        "misplaced",
        ERROR,
        "have something else where their deadlines should be",
        lambda key: key.place not in (b"zset", b"none"),
        "A client has written to an internal key. Commands with deadlines fail on these keys.",
    ),
    Fault(
        "schedule",
        ERROR,
        "have deadlines but are missing from the schedule, or are too late in it",
        lambda key: _indexed(key) and not 0 <= key.scheduled_ms <= key.first_ms,
        "The proxies do not know when they are due: expired elements are not being removed.",
    ),
    Fault(
        "stale",
        WARNING,
        "are in the schedule, but their deadlines are lost",
        lambda key: key.place == b"none" and key.scheduled_ms >= 0 and key.kind != b"none",
        "Redis may have evicted the deadlines. The elements that had them never expire.",
    ),
    Fault(
        "lifetime",
        ERROR,
        "have deadlines that will be lost before their elements",
        lambda key: (
            _indexed(key)
            and key.index_left_ms >= 0
            and (key.left_ms < 0 or key.left_ms > key.index_left_ms + _SLACK_MS)
        ),
        "A client has changed the expiry of the key without a proxy.",
    ),
)


async def content(target: Target) -> AsyncIterator[Finding]:
    """Yields a finding for each fault in the sample."""
    states = await _sample_states(target)
    deadlines, is_sound = sum(state.looked for state in states.values()), True
    fix = f"ttlproxy doctor --apply --upstream {target.shown}"
    for fault in _FAULTS:
        keys = [key for (_, key), state in states.items() if fault.holds(state)]
        if not keys:
            continue
        is_sound = False
        what = f"keys that {fault.many}: {len(keys)} of {len(states)}"
        if fault.check == "leftover":
            gone = sum(state.gone for state in states.values())
            what += f" (deadlines: {gone} of {deadlines})"
        shown = tuple(keys[:_SHOWN])
        yield Finding(fault.severity, what, fault.why, fix, shown, check=fault.check)
    if is_sound:
        said = f"{counted(len(states), 'key')} and {counted(deadlines, 'deadline')}, no fault found"
        yield ok(said)


async def _sample_states(target: Target) -> dict[DbKey, KeyState]:
    places = await _sampled(target)
    script_calls = await target.script_calls("key_examine")
    each = max(1, min(_EACH, target.sample // max(1, len(places))))
    states: dict[DbKey, KeyState] = {}

    def how_far() -> str:
        return f"examined {len(states)} of {counted(len(places), 'key')}"

    for at in range(0, len(places), _TOGETHER):
        states.update(await examine_keys(target, script_calls, places[at : at + _TOGETHER], each))
        target.progress.at(how_far)
    return states


async def examine_keys(
    target: Target, script_calls: ScriptCalls, places: Sequence[DbKey], each: int
) -> dict[DbKey, KeyState]:
    """Examines these keys, and at most `each` deadlines of every key."""
    words = (b"%d" % each,)
    calls = [
        (db, script_calls.words(Call("key_examine", (key,), words), b"")) for db, key in places
    ]
    replies = await run(target.redis, calls)
    return {place: KeyState(*valid(reply)) for place, reply in zip(places, replies, strict=True)}


async def _sampled(target: Target) -> list[DbKey]:
    """Returns keys from the schedules, and keys with an index; at most `sample` of each per
    database."""
    places: dict[DbKey, None] = {}
    pages = max(_LEAST_PAGES, int(target.sample * _PAGES_FOR_ONE))

    def how_far() -> str:
        return f"looking for deadlines: found {counted(len(places), 'key')}"

    for db in target.databases:
        keys = await target.schedules.sample(target.redis, db, target.sample)
        places |= dict.fromkeys((db, key) for key in keys)
        room = target.sample
        async for names, _ in scan(target.redis, db, target.keys.pattern, pages):
            keys = [key for name in names if (key := target.keys.data(name)) is not None][:room]
            places |= dict.fromkeys((db, key) for key in keys)
            room -= len(keys)
            target.progress.at(how_far)
            if not room:
                break
    # An outbox has a time in the schedule, but its elements have no deadlines there.
    return [place for place in places if target.keys.destination(place[1]) is None]


async def overdue(target: Target) -> AsyncIterator[Finding]:
    """Finds keys that were due seconds ago, so that the reaper has had time for them."""
    count, now_ms = await target.attached(), await target.now_ms()
    late = await target.schedules.late(target.redis, target.databases, now_ms - _LATE_MS)
    for refusal in late.refused.values():
        raise refusal
    keys, oldest_s = late.keys, (now_ms - (late.first_ms or now_ms)) / 1000
    what = f"{counted(keys, 'key is', 'keys are')} overdue, the oldest for {oldest_s:.0f} s"
    if not keys and count:
        yield ok(f"{counted(count, 'proxy is', 'proxies are')} connected")
    elif not keys:
        yield info("no proxy is connected", "Expired elements are not being removed.")
    elif count:
        yield error(
            f"{what}, although proxies are connected",
            "Either more elements expire than the reaper may remove, or Redis refuses its"
            " requests.",
            "see the proxies' logs and the other findings; a larger --reap-budget-ms lets a reap"
            " take longer",
        )
    else:
        yield warning(
            f"{what}, and no proxy is connected",
            "Clients that read without a proxy see expired elements.",
            f"ttlproxy --upstream {target.shown}",
        )
