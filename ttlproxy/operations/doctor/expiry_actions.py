"""Checks the rules of ONEXPIRE: whether their elements can be delivered."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Final, NamedTuple

from ttlproxy.core.counted import counted
from ttlproxy.core.expiry_actions import VERBS, Action, Actions, listed, verified
from ttlproxy.core.write_rules import parted, rule_of
from ttlproxy.operations.doctor.finding import ERROR, OK, Finding
from ttlproxy.operations.doctor.target import Target

_SHOWN = 3


class _Fault(NamedTuple):
    """Why rules are not in force. what: of the rules; why: it matters; remedy: what to do."""

    what: str
    why: str
    remedy: str


_UNSIGNED: Final = _Fault(
    "are not signed by a proxy",
    "They were written without a proxy, or signed with another key. They have no effect: expired"
    " elements are deleted.",
    "set them again with ONEXPIRE, through a proxy",
)
_UNREADABLE: Final = _Fault(
    "cannot be read",
    "A newer ttlproxy may have written them. In keys that they match, expired elements are not"
    " being removed.",
    "upgrade ttlproxy, or set them again with ONEXPIRE, through a proxy",
)


async def rules(target: Target) -> list[Finding]:
    """A finding for each database with unsigned or unreadable rules, and for each destination of
    the wrong type."""
    if target.keys.clustered and not target.keys.are_home:
        return [Finding("rules", OK, "the rules of ONEXPIRE are at another master")]
    signer = await target.signer()
    count, count_of_writes, found = 0, 0, list[Finding]()
    for db in target.databases:
        _, listing = listed(
            await target.ask(b"HGETALL", target.keys.home(target.keys.rules), db=db)
        )
        patterns = sorted(listing)
        names = map(target.keys.rule, patterns)
        values = await target.ask(b"MGET", *names, db=db) if patterns else []
        there = {name: value for name, value in zip(patterns, values, strict=True) if value}
        rows = {name: verified(value, name, signer) for name, value in there.items()}
        unsigned = [name for name, row in rows.items() if row is None]
        found += _without_force(db, unsigned, _UNSIGNED)
        signed = {name: row for name, row in rows.items() if row is not None}
        of_writes = {name for name in signed if parted(name) is not None}
        unreadable = [name for name in of_writes if rule_of(signed[name]) is None]
        signed = {name: row for name, row in signed.items() if name not in of_writes}
        actions = Actions(signed)
        unreadable += [name for name in signed if not _is_readable(actions.of(name))]
        found += _without_force(db, unreadable, _UNREADABLE)
        count += len(signed)
        count_of_writes += len(of_writes)
        async for finding in _undeliverable(target, db, actions, list(signed)):
            found.append(finding)
    whole = f"{counted(count, 'rule')} of ONEXPIRE"
    if count_of_writes:
        whole += f", {count_of_writes} of ONWRITE"
    return found or [Finding("rules", OK, f"{whole}, no fault found")]


def _without_force(db: int, patterns: list[bytes], fault: _Fault) -> Iterator[Finding]:
    if patterns:
        what = f"rules of ONEXPIRE in database {db} that {fault.what}: {len(patterns)}"
        shown = tuple(patterns[:_SHOWN])
        yield Finding("rules", ERROR, what, fault.why, fault.remedy, shown)


def _is_readable(action: Action | None) -> bool:
    return action is not None and action.verb in VERBS


async def _undeliverable(
    target: Target, db: int, actions: Actions, patterns: list[bytes]
) -> AsyncIterator[Finding]:
    """Examines the destinations for the patterns, taken as keys, and for some managed keys."""
    managed = await target.schedules.sample(target.redis, db, target.sample) if patterns else []
    sources: dict[bytes, tuple[str, list[bytes]]] = {}
    for key in [*patterns, *managed]:
        action = actions.of(key)
        for dest in action.keys if action else ():
            wanted = "stream" if action and action.verb == b"XADD" else "list"
            sources.setdefault(dest, (wanted, []))[1].append(key)
    for dest, (wanted, keys) in sources.items():
        kind = (await target.ask(b"TYPE", dest, db=db)).decode()
        if kind not in ("none", wanted):
            shown = dest.decode(errors="backslashreplace")
            yield Finding(
                "rules",
                ERROR,
                f"{shown} in database {db} is a {kind}, but a rule of ONEXPIRE needs a {wanted}",
                "Expired elements stay in their keys until they can be delivered.",
                f"RENAMENX {shown} {shown}:aside",
                tuple(dict.fromkeys(keys))[:_SHOWN],
                f"a key in database {db} is a {kind}, but a rule of ONEXPIRE needs a {wanted}",
            )
