"""Checks the rules of ONWRITE against keys that are there: which rules have no effect.

Looks at some of the keys only, so what it says of a rule holds for these.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from ttlproxy.core.counted import counted
from ttlproxy.core.expiry_actions import listed, verified
from ttlproxy.core.glob import Glob
from ttlproxy.core.write_rules import TYPES, WriteRule, WriteRules, name_of, parted, rule_of
from ttlproxy.link import NodeOfSeveral, run, valid
from ttlproxy.operations.doctor.finding import INFO, OK, WARNING, Finding, Severity
from ttlproxy.operations.doctor.target import Target

_PAGE: Final = 1000
# More names are not looked at: it takes Redis some 0.1 s, in pieces.
_MOST_PAGES: Final = 100
_SHOWN: Final = 3
# So many keys must agree before their own expiry says something about a rule.
_ENOUGH: Final = 3


async def write_rules(target: Target) -> list[Finding]:
    """A finding for each database and each way in which rules have no effect."""
    if target.keys.clustered and not target.keys.are_home:
        return [Finding("write-rules", OK, "the rules of ONWRITE are at another master")]
    found, count = list[Finding](), 0
    for db in target.databases:
        rows = await _rows(target, db)
        count += len(rows)
        if rows:
            found += await _of_database(target, db, rows)
    words = f"{counted(count, 'rule')} of ONWRITE; all may have effect"
    return found or [Finding("write-rules", OK, words)]


async def _rows(target: Target, db: int) -> dict[bytes, bytes]:
    """Name -> row, of those that are in force."""
    reply = await target.ask(b"HGETALL", target.keys.home(target.keys.rules), db=db)
    names = sorted(name for name in listed(reply)[1] if parted(name))
    signer = await target.signer()
    values = await target.ask(b"MGET", *map(target.keys.rule, names), db=db) if names else []
    pairs = zip(names, values, strict=True)
    rows = {name: value and verified(value, name, signer) for name, value in pairs}
    return {name: row for name, row in rows.items() if row and rule_of(row)}


async def _of_database(target: Target, db: int, rows: Mapping[bytes, bytes]) -> list[Finding]:
    rules = WriteRules(rows)
    keys, is_whole = await _matching(target, db, rules)
    kinds = await _replies(target, db, b"TYPE", keys)
    typed = {key: kind for key, kind in zip(keys, kinds, strict=True) if kind in TYPES}
    won = _won(rules, rows, typed)
    lost = _lost(rows, typed, won)
    found = list[Finding]()
    idle = [name for name in rows if name not in won and name not in lost]
    if idle and is_whole:
        found.append(
            _finding(
                db,
                idle,
                "match no key",
                "They have no effect yet: is the pattern that of the keys?",
                "DEL in place of the time removes a rule",
            )
        )
    if lost:
        found.append(
            _finding(
                db,
                lost,
                "are hidden by others",
                "For each key that was looked at, a longer pattern, or the same with TYPE, wins.",
                "remove the rule, or make its pattern longer",
                WARNING,
            )
        )
    if late := await _later_than_keys(target, db, rows, won):
        found.append(
            _finding(
                db,
                late,
                "give elements more time than their keys have",
                "Each key that was looked at expires as a whole before such a deadline.",
                "give the rule a shorter time, or do not let the keys expire",
            )
        )
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


async def _replies(target: Target, db: int, name: bytes, keys: Iterable[bytes]) -> list[object]:
    return await run(target.redis, [(db, (name, key)) for key in keys])


def _won(
    rules: WriteRules, rows: Mapping[bytes, bytes], typed: Mapping[bytes, bytes]
) -> dict[bytes, list[bytes]]:
    """Name of a rule -> the keys that it is for."""
    won = defaultdict[bytes, list[bytes]](list)
    for key, kind in typed.items():
        pattern = rules.pattern_of(key, kind)
        if pattern is not None:
            own = name_of(pattern, kind)
            won[own if own in rows else name_of(pattern)].append(key)
    return won


def _lost(
    rows: Iterable[bytes], typed: Mapping[bytes, bytes], won: Mapping[bytes, object]
) -> list[bytes]:
    """The rules that match a key, but are for none."""
    return [name for name in rows if name not in won and _matches_any(name, typed)]


def _matches_any(name: bytes, typed: Mapping[bytes, bytes]) -> bool:
    kind, pattern = parted(name) or (b"", b"")
    glob = Glob(pattern)
    return any(
        kind in (b"", its) and (key == pattern or glob.match(key) is not None)
        for key, its in typed.items()
    )


async def _later_than_keys(
    target: Target, db: int, rows: Mapping[bytes, bytes], won: Mapping[bytes, Sequence[bytes]]
) -> list[bytes]:
    """The rules whose keys all expire sooner."""
    found = list[bytes]()
    for name, keys in won.items():
        rule: WriteRule | None = rule_of(rows[name])
        left = [ms for ms in await _replies(target, db, b"PTTL", keys) if isinstance(ms, int)]
        times = [ms for ms in left if ms != -2]
        if rule and len(times) >= _ENOUGH and all(0 <= ms < rule.ttl_ms for ms in times):
            found.append(name)
    return found


def _finding(
    db: int, names: Sequence[bytes], what: str, why: str, fix: str, severity: Severity = INFO
) -> Finding:
    shown = tuple((parted(name) or (b"", name))[1] for name in names[:_SHOWN])
    text = f"rules of ONWRITE in database {db} that {what}: {len(names)}"
    return Finding("write-rules", severity, text, why, fix, shown)
