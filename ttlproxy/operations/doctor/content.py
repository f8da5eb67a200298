"""Checks a sample of what proxies keep in Redis against the data that it belongs to, whether keys
are overdue, whether a proxy has signed rules and deferred commands, so that they are in force, and
whether the destinations of rules take elements.

One script call examines a key, so that nothing changes during it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from typing import NamedTuple

from ttlproxy.commands import Call
from ttlproxy.core.element_types import TYPES
from ttlproxy.core.expiry_actions import VERBS, Actions, listed, verified
from ttlproxy.core.registry import DbKey
from ttlproxy.core.text import counted
from ttlproxy.core.write_rules import parted, rule_of
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


async def unsigned(target: Target) -> AsyncIterator[Finding]:
    """Yields findings for each database: deferred commands and rules that are not carried out."""
    script_calls = await target.script_calls("deferred_examine")
    pads = (await target.signer()).pads
    for db in target.databases:
        counts: dict[bytes, int] = {}
        for name in await target.others(db):
            if (key := target.keys.deferring(name)) is not None:
                words = script_calls.words(Call("deferred_examine", (key,), (*pads, b"100")), b"")
                counts[key] = await target.ask(*words, db=db)
        if keys := [key for key, count in counts.items() if count]:
            yield error(
                f"deferred commands in database {db} that no proxy has signed:"
                f" {sum(counts.values())}",
                "They were written without a proxy, or signed with another key. They are not"
                " carried out.",
                "UNDEFER key id for each, through a proxy; then DEFER again what you need",
                tuple(keys[:_SHOWN]),
            )
        rows = await _rules(target, db)
        if forged := [name for name, row in rows.items() if row is None]:
            yield error(
                f"rules in database {db} that are not signed by a proxy: {len(forged)}",
                "They were written without a proxy, or signed with another key. They have no"
                " effect: expired elements are deleted.",
                "set them again with ONEXPIRE or ONWRITE, through a proxy",
                tuple(forged[:_SHOWN]),
            )
        if unclear := [name for name, row in rows.items() if row and not _is_clear(name, row)]:
            yield error(
                f"rules in database {db} that cannot be read: {len(unclear)}",
                "A newer ttlproxy may have written them. In keys that those of ONEXPIRE match,"
                " expired elements are not being removed.",
                "upgrade ttlproxy, or set them again with ONEXPIRE or ONWRITE, through a proxy",
                tuple(unclear[:_SHOWN]),
            )


async def destinations(target: Target) -> AsyncIterator[Finding]:
    """Examines the destinations for the patterns, taken as keys, and for some managed keys."""
    for db in target.databases:
        signed = {name: row for name, row in (await _rules(target, db)).items() if row is not None}
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
                yield error(
                    f"{shown} {what}",
                    "Expired elements stay in their keys until they can be delivered.",
                    f"RENAMENX {shown} {shown}:aside",
                    tuple(dict.fromkeys(keys))[:_SHOWN],
                    f"a key {what}",
                )


async def _rules(target: Target, db: int) -> dict[bytes, bytes | None]:
    """Returns the row of each rule by its name; None if no proxy has signed it. All are at one
    master."""
    keys, signer = target.keys, await target.signer()
    if keys.clustered and not keys.are_home:
        return {}
    names = sorted(listed(await target.ask(b"HGETALL", keys.home(keys.rules), db=db))[1])
    values = await target.ask(b"MGET", *map(keys.rule, names), db=db) if names else []
    found = zip(names, values, strict=True)
    return {name: verified(value, name, signer) for name, value in found if value}


def _is_clear(name: bytes, row: bytes) -> bool:
    """Returns whether this version can read the rule."""
    if parted(name) is not None:
        return rule_of(row) is not None
    action = Actions({name: row}).of(name)
    return action is not None and action.verb in VERBS
