"""Checks of rules: whether those of ONEXPIRE can deliver, and which of ONWRITE have no effect.

It looks at some of the keys only, so what it says of a rule holds for these.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from ttlproxy.core.counted import counted
from ttlproxy.core.expiry_actions import VERBS, Actions, listed, verified
from ttlproxy.core.glob import Glob
from ttlproxy.core.write_rules import TYPES, WriteRules, name_of, parted, rule_of
from ttlproxy.link import NodeOfSeveral, run, valid
from ttlproxy.operations.doctor.finding import ERROR, INFO, OK, WARNING, Finding
from ttlproxy.operations.doctor.target import Target

_SHOWN: Final = 3
_PAGE: Final = 1000
# More names are not looked at: it takes Redis some 0.1 s, in pieces.
_MOST_PAGES: Final = 100


class _Rows(NamedTuple):
    """Name of a rule -> its row, of one database. unsigned, unreadable: names of rules that are not
    in force."""

    of_expiry: Mapping[bytes, bytes]
    of_writes: Mapping[bytes, bytes]
    unsigned: Sequence[bytes]
    unreadable: Sequence[bytes]


async def rules(target: Target) -> AsyncIterator[Finding]:
    """A finding for each database with rules that are not in force or have no effect, and for each
    destination of the wrong type."""
    if target.keys.clustered and not target.keys.are_home:
        yield Finding(OK, "the rules are at another master")
        return
    count, count_of_writes, is_sound = 0, 0, True
    for db in target.databases:
        rows = await _rows(target, db)
        count += len(rows.of_expiry)
        count_of_writes += len(rows.of_writes)
        faults = [*_not_in_force(db, rows), *await _undeliverable(target, db, rows.of_expiry)]
        is_sound = is_sound and not faults
        faults += await _without_effect(target, db, rows.of_writes) if rows.of_writes else ()
        for fault in faults:
            yield fault
    if is_sound:
        of_writes = f", {count_of_writes} of ONWRITE" if count_of_writes else ""
        yield Finding(OK, f"{counted(count, 'rule')} of ONEXPIRE{of_writes}, no fault found")


async def _rows(target: Target, db: int) -> _Rows:
    keys, signer = target.keys, await target.signer()
    names = sorted(listed(await target.ask(b"HGETALL", keys.home(keys.rules), db=db))[1])
    values = await target.ask(b"MGET", *map(keys.rule, names), db=db) if names else []
    there = {name: value for name, value in zip(names, values, strict=True) if value}
    rows = {name: verified(value, name, signer) for name, value in there.items()}
    signed = {name: row for name, row in rows.items() if row is not None}
    of_writes = {name: row for name, row in signed.items() if parted(name) is not None}
    of_expiry = {name: row for name, row in signed.items() if name not in of_writes}
    readable = {name: row for name, row in of_writes.items() if rule_of(row) is not None}
    actions = Actions(of_expiry)
    unreadable = [
        name
        for name in of_expiry
        if (action := actions.of(name)) is None or action.verb not in VERBS
    ]
    return _Rows(
        of_expiry,
        readable,
        [name for name, row in rows.items() if row is None],
        [*(name for name in of_writes if name not in readable), *unreadable],
    )


def _not_in_force(db: int, rows: _Rows) -> Iterable[Finding]:
    for names, what, why, fix in (
        (
            rows.unsigned,
            "are not signed by a proxy",
            "They were written without a proxy, or signed with another key. They have no effect:"
            " expired elements are deleted.",
            "set them again with ONEXPIRE, through a proxy",
        ),
        (
            rows.unreadable,
            "cannot be read",
            "A newer ttlproxy may have written them. In keys that they match, expired elements are"
            " not being removed.",
            "upgrade ttlproxy, or set them again with ONEXPIRE, through a proxy",
        ),
    ):
        if names:
            text = f"rules of ONEXPIRE in database {db} that {what}: {len(names)}"
            yield Finding(ERROR, text, why, fix, tuple(names[:_SHOWN]))


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
    """Rules of ONWRITE that are for no key, by whether a key matches."""
    rules = WriteRules(rows)
    keys, is_whole = await _matching(target, db, rules)
    kinds = await run(target.redis, [(db, (b"TYPE", key)) for key in keys])
    typed = {key: kind for key, kind in zip(keys, kinds, strict=True) if kind in TYPES}
    names = [(rules.pattern_of(key, kind), kind) for key, kind in typed.items()]
    used = {
        own if (own := name_of(pattern, kind)) in rows else name_of(pattern)
        for pattern, kind in names
        if pattern is not None
    }
    hidden = [name for name in rows if name not in used and _matches_any(name, typed)]
    idle = [name for name in rows if name not in used and name not in hidden]
    found = list[Finding]()
    for severity, those, what, why, fix in (
        (
            INFO,
            idle if is_whole else [],
            "match no key",
            "They have no effect yet: is the pattern that of the keys?",
            "DEL in place of the time removes a rule",
        ),
        (
            WARNING,
            hidden,
            "are hidden by others",
            "For each key that was looked at, a longer pattern, or the same with TYPE, wins.",
            "remove the rule, or make its pattern longer",
        ),
    ):
        shown = tuple((parted(name) or (b"", name))[1] for name in those[:_SHOWN])
        text = f"rules of ONWRITE in database {db} that {what}: {len(those)}"
        if those:
            found.append(Finding(severity, text, why, fix, shown, check="write-rules"))
    return found


async def _matching(target: Target, db: int, rules: WriteRules) -> tuple[Sequence[bytes], bool]:
    """(some keys that a rule matches, whether all names were looked at)."""
    redis, found, is_whole = target.redis, list[bytes](), True
    nodes = [each.plain for each in redis.masters] if isinstance(redis, NodeOfSeveral) else [redis]
    for node in nodes:
        cursor = b"0"
        for _ in range(_MOST_PAGES // len(nodes) + 1):
            words = (b"SCAN", cursor, b"COUNT", _PAGE)
            cursor, names = valid((await run(node, [(db, words)]))[0])
            found += (
                name
                for name in names
                if rules.matches(name) and not name.startswith(target.keys.prefix)
            )
            if cursor == b"0" or len(found) >= target.sample:
                break
        is_whole = is_whole and cursor == b"0"
    return found[: target.sample], is_whole and len(found) <= target.sample


def _matches_any(name: bytes, typed: Mapping[bytes, bytes]) -> bool:
    kind, pattern = parted(name) or (b"", b"")
    glob = Glob(pattern)
    return any(
        kind in (b"", its) and (key == pattern or glob.match(key) is not None)
        for key, its in typed.items()
    )
