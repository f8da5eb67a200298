"""Checks of rules and deferred commands: whether a proxy has signed them, so that they are in
force, and whether the destinations of rules take elements. Of deferred commands it looks at a
sample."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Final

from ttlproxy.commands import Call
from ttlproxy.core.expiry_actions import VERBS, Actions, listed, verified
from ttlproxy.core.write_rules import parted, rule_of
from ttlproxy.operations.doctor.finding import Finding, error
from ttlproxy.operations.doctor.target import Target

_SHOWN: Final = 3


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
