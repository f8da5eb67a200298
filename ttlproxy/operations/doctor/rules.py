"""Checks of rules: whether those of ONEXPIRE can deliver, and which of ONWRITE have no effect.

Only some of the keys are examined, so what is said of a rule holds for these.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from typing import Final

from ttlproxy.core.counted import counted
from ttlproxy.core.expiry_actions import VERBS, Actions, listed, verified
from ttlproxy.core.glob import Glob
from ttlproxy.core.write_rules import TYPES, WriteRules, name_of, parted, rule_of
from ttlproxy.link import NodeOfSeveral
from ttlproxy.operations.doctor.finding import ERROR, INFO, OK, WARNING, Finding
from ttlproxy.operations.doctor.target import Target
from ttlproxy.operations.key_walk import scan

_SHOWN: Final = 3
# Pages of names that are looked at: that takes Redis some 0.1 s, in pieces.
_MOST_PAGES: Final = 100


async def rules(target: Target) -> AsyncIterator[Finding]:
    """Yields a finding for each database with rules that are not in force or have no effect, and
    for each destination of the wrong type."""
    if target.keys.clustered and not target.keys.are_home:
        yield Finding(OK, "the rules are at another master")
        return
    count, count_of_writes, is_sound = 0, 0, True
    for db in target.databases:
        rows = await _rows(target, db)
        unsigned = [name for name, row in rows.items() if row is None]
        signed = {name: row for name, row in rows.items() if row is not None}
        of_writes = {name: row for name, row in signed.items() if parted(name) is not None}
        of_expiry = {name: row for name, row in signed.items() if name not in of_writes}
        unreadable = [name for name, row in of_writes.items() if rule_of(row) is None]
        readable = {name: of_writes[name] for name in of_writes if name not in unreadable}
        actions = Actions(of_expiry)
        for name in of_expiry:
            action = actions.of(name)
            if action is None or action.verb not in VERBS:
                unreadable.append(name)
        count += len(of_expiry)
        count_of_writes += len(readable)
        faults = [*_not_in_force(db, unsigned, unreadable)]
        faults += await _undeliverable(target, db, of_expiry)
        is_sound = is_sound and not faults
        faults += await _without_effect(target, db, readable) if readable else ()
        for fault in faults:
            yield fault
    if is_sound:
        said = f", {count_of_writes} of ONWRITE" if count_of_writes else ""
        yield Finding(OK, f"{counted(count, 'rule')} of ONEXPIRE{said}, no fault found")


async def _rows(target: Target, db: int) -> dict[bytes, bytes | None]:
    """Returns the row of each rule by its name; None if no proxy has signed it."""
    keys, signer = target.keys, await target.signer()
    names = sorted(listed(await target.ask(b"HGETALL", keys.home(keys.rules), db=db))[1])
    values = await target.ask(b"MGET", *map(keys.rule, names), db=db) if names else []
    found = zip(names, values, strict=True)
    return {name: verified(value, name, signer) for name, value in found if value}


def _not_in_force(
    db: int, unsigned: Sequence[bytes], unreadable: Sequence[bytes]
) -> Iterator[Finding]:
    said = f"rules of ONEXPIRE in database {db} that"
    if unsigned:
        yield Finding(
            ERROR,
            f"{said} are not signed by a proxy: {len(unsigned)}",
            "They were written without a proxy, or signed with another key. They have no effect:"
            " expired elements are deleted.",
            "set them again with ONEXPIRE, through a proxy",
            tuple(unsigned[:_SHOWN]),
        )
    if unreadable:
        yield Finding(
            ERROR,
            f"{said} cannot be read: {len(unreadable)}",
            "A newer ttlproxy may have written them. In keys that they match, expired elements are"
            " not being removed.",
            "upgrade ttlproxy, or set them again with ONEXPIRE, through a proxy",
            tuple(unreadable[:_SHOWN]),
        )


async def _undeliverable(target: Target, db: int, rows: Mapping[bytes, bytes]) -> list[Finding]:
    """Examines the destinations for the patterns, taken as keys, and for some managed keys."""
    managed = await target.schedules.sample(target.redis, db, target.sample) if rows else []
    actions, found = Actions(rows), list[Finding]()
    sources: dict[bytes, tuple[str, list[bytes]]] = {}
    for key in [*rows, *managed]:
        action = actions.of(key)
        for dest in action.keys if action else ():
            wanted = "stream" if action and action.verb == b"XADD" else "list"
            sources.setdefault(dest, (wanted, []))[1].append(key)
    for dest, (wanted, keys) in sources.items():
        kind = (await target.ask(b"TYPE", dest, db=db)).decode()
        if kind not in ("none", wanted):
            shown = dest.decode(errors="backslashreplace")
            what = f"in database {db} is a {kind}, but a rule of ONEXPIRE needs a {wanted}"
            found.append(
                Finding(
                    ERROR,
                    f"{shown} {what}",
                    "Expired elements stay in their keys until they can be delivered.",
                    f"RENAMENX {shown} {shown}:aside",
                    tuple(dict.fromkeys(keys))[:_SHOWN],
                    f"a key {what}",
                )
            )
    return found


async def _without_effect(target: Target, db: int, rows: Mapping[bytes, bytes]) -> list[Finding]:
    """Returns findings about rules of ONWRITE that apply to no key, by whether a key matches."""
    rules = WriteRules(rows)
    keys, is_whole = await _matching(target, db, rules)
    kinds = await target.ask_each(db, [(b"TYPE", key) for key in keys])
    typed = {key: kind for key, kind in zip(keys, kinds, strict=True) if kind in TYPES}
    names = [(rules.pattern_of(key, kind), kind) for key, kind in typed.items()]
    used = {
        own if (own := name_of(pattern, kind)) in rows else name_of(pattern)
        for pattern, kind in names
        if pattern is not None
    }
    unused = [name for name in rows if name not in used]
    hidden = [name for name in unused if _matches_any(name, typed)]
    idle = [name for name in unused if is_whole and name not in hidden]
    said, found = f"rules of ONWRITE in database {db} that", list[Finding]()
    if idle:
        found.append(
            Finding(
                INFO,
                f"{said} match no key: {len(idle)}",
                "They have no effect yet: is the pattern that of the keys?",
                "DEL in place of the time removes a rule",
                _patterns(idle),
                check="write-rules",
            )
        )
    if hidden:
        found.append(
            Finding(
                WARNING,
                f"{said} are hidden by others: {len(hidden)}",
                "For each key that was looked at, a longer pattern, or the same with TYPE, wins.",
                "remove the rule, or make its pattern longer",
                _patterns(hidden),
                check="write-rules",
            )
        )
    return found


def _patterns(names: Sequence[bytes]) -> tuple[bytes, ...]:
    """Returns the patterns of some rules of ONWRITE."""
    return tuple((parted(name) or (b"", name))[1] for name in names[:_SHOWN])


async def _matching(target: Target, db: int, rules: WriteRules) -> tuple[Sequence[bytes], bool]:
    """Returns (some keys that a rule matches, whether all names were looked at)."""
    redis, found, ended, internal = target.redis, list[bytes](), 0, target.keys.prefix
    nodes = [each.plain for each in redis.masters] if isinstance(redis, NodeOfSeveral) else [redis]
    for node in nodes:
        async for names, is_last in scan(node, db, pages=_MOST_PAGES // len(nodes) + 1):
            ended += is_last
            found += (
                name for name in names if rules.matches(name) and not name.startswith(internal)
            )
            if len(found) >= target.sample:
                break
    return found[: target.sample], ended == len(nodes) and len(found) <= target.sample


def _matches_any(name: bytes, typed: Mapping[bytes, bytes]) -> bool:
    kind, pattern = parted(name) or (b"", b"")
    glob = Glob(pattern)
    return any(
        kind in (b"", its) and (key == pattern or glob.match(key) is not None)
        for key, its in typed.items()
    )
