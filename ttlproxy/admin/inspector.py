"""The inspector: keys with deadlines, by pattern, or one key's elements; the earliest first, in
pages.

It shows what users have written, so it is on only if the admin address is local to this machine, or
if a setting says so. It reads values only if another setting says so; `ttlproxy inspect` reads
none.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.resources import files
from typing import Any, Final

from ttlproxy.admin import slots
from ttlproxy.admin.redis_queries import Inquiry
from ttlproxy.admin.waiting import ITEMS
from ttlproxy.core.glob import matching
from ttlproxy.core.text import shown
from ttlproxy.errors import Unanswered

PAGE: Final = 50
# The most bytes of a name and of a value; the rest is cut off, by the script if possible.
_MOST: Final = 256
# Managed keys that are read in one call; the most that are compared with a pattern for one answer;
# and the most bytes of a name there.
_CHUNK: Final = 500
_COMPARED: Final = 10_000
_WHOLE: Final = 65_536
_WITH_VALUES: Final = (b"hash", b"zset")
_VALUE_HEADS: Final = files(__package__).joinpath("value_heads.lua").read_bytes()


async def elements(
    inquiry: Inquiry, db: int, key: bytes, offset: int, count: int = PAGE, *, values: bool = False
) -> dict[str, Any]:
    """Returns `count` deadlines of a key from `offset` on, as a JSON object; `values`: with the
    beginning of fields' values, and with scores. Raises Unanswered."""
    now_ms, kind, size, timed, key_ms, page = await inquiry.call(
        db, "key_inspect", (key,), offset, count, _MOST
    )
    rows = [_row(found, now_ms) for found in page]
    if values and kind in _WITH_VALUES and page:
        # Nothing for an element that is not there.
        words = (b"EVAL", _VALUE_HEADS, b"1", key, b"%d" % _MOST, *(name for name, *_ in page))
        select = [(db, (b"SELECT", db))] if db else []
        *_, found = await inquiry.ask([*select, (db, words)])
        heads = [
            {"value": shown(head[0]), "value_length": head[1]} if head else {} for head in found
        ]
        rows = [
            row if row["cut"] else {**row, **head} for row, head in zip(rows, heads, strict=True)
        ]
    return {
        "key": shown(key[:_MOST]),
        "type": kind.decode(),
        "size": size if size >= 0 else None,
        "timed": timed,
        "key_ms_left": key_ms if key_ms >= 0 else None,
        "elements": rows,
        "next": _next(offset, len(page), timed),
    }


async def due_keys(
    inquiry: Inquiry, db: int, offset: int, pattern: bytes | None = None
) -> dict[str, Any]:
    """Returns the keys of a database that need attention next, as a JSON object; with a pattern
    those that match, of up to _COMPARED keys from `offset` on. `next`: where the next page begins;
    null if there is none. Raises Unanswered."""
    if pattern is not None:
        return await _matching(inquiry, db, offset, pattern)
    now_ms, managed, page = await schedule_page(inquiry, db, offset, PAGE, _MOST)
    rows = []
    for name, length, deadline_ms in page:
        # Deferred commands are managed as keys are; they get the name of their key.
        key = inquiry.keys.deferring(name)
        shown_name = name if key is None else key
        about = (shown_name, length - (len(name) - len(shown_name)), deadline_ms)
        rows.append(_row(about, now_ms) | ({} if key is None else {"is_deferred": True}))
    return {"managed": managed, "keys": rows, "next": _next(offset, len(page), managed)}


async def _matching(inquiry: Inquiry, db: int, offset: int, pattern: bytes) -> dict[str, Any]:
    fits, rows, managed = matching(pattern), list[dict[str, object]](), 0
    for at in range(offset, offset + _COMPARED, _CHUNK):
        try:
            now_ms, managed, page = await schedule_page(inquiry, db, at, _CHUNK, _WHOLE)
        except Unanswered:
            if not rows:
                raise
            return {"managed": managed, "keys": rows, "next": at}
        for place, found in enumerate(page, at + 1):
            if fits.fullmatch(found[0]) and inquiry.keys.deferring(found[0]) is None:
                rows.append(_row((found[0][:_MOST], *found[1:]), now_ms))
            if len(rows) == PAGE:
                return {"managed": managed, "keys": rows, "next": _next(place, 0, managed)}
        if len(page) < _CHUNK:
            return {"managed": managed, "keys": rows, "next": None}
    return {"managed": managed, "keys": rows, "next": _next(at + _CHUNK, 0, managed)}


async def schedule_page(
    inquiry: Inquiry, db: int, offset: int, count: int, most: int
) -> tuple[int, int, Sequence[slots.Due]]:
    """Returns (now in ms, the number of managed keys, some of those that need attention next, each
    name cut after `most` bytes). Raises Unanswered."""
    if not await inquiry.is_clustered():
        now_ms, managed, page = await inquiry.call(db, "schedule_page", (), offset, count, most)
        return now_ms, managed, page
    if db:
        raise Unanswered("a Cluster has database 0 only")
    return await slots.due_keys(inquiry, offset, count, most)


def _next(offset: int, length: int, total: int) -> int | None:
    end = offset + length
    return end if end < total else None


def _row(found: slots.Due, now_ms: int) -> dict[str, object]:
    name, length, deadline_ms = found
    return {
        "name": shown(name),
        "cut": length > len(name),
        "length": length,
        "deadline_ms": deadline_ms,
        "ms_left": deadline_ms - now_ms,
    }


async def key_report(inquiry: Inquiry, db: int, key: bytes, limit: int) -> dict[str, Any]:
    """Returns a JSON object about one key, with at most `limit` elements and deferred commands, the
    earliest. Raises Unanswered."""
    found = await elements(inquiry, db, key, 0, limit)
    del found["next"]
    return {
        "db": db,
        **found,
        "rules": await _rules(inquiry, db, key, str(found["type"]).encode()),
        **await _waiting(inquiry, db, key, limit),
    }


async def managed_keys(inquiry: Inquiry, db: int, pattern: bytes, limit: int) -> list[bytes]:
    """Returns at most `limit` keys with deadlines whose names match, those that need attention
    first. Raises Unanswered."""
    fits, found, offset = matching(pattern), list[bytes](), 0
    while len(found) < limit:
        _, _, page = await schedule_page(inquiry, db, offset, _CHUNK, _WHOLE)
        names = [name for name, _, _ in page if fits.fullmatch(name)]
        found += [name for name in names if inquiry.keys.deferring(name) is None]
        if len(page) < _CHUNK:
            break
        offset += _CHUNK
    return found[:limit]


async def _rules(inquiry: Inquiry, db: int, key: bytes, kind: bytes) -> list[dict[str, str]]:
    """Returns the rules whose pattern fits; of each command the first is in force."""
    return [
        {"command": command, "pattern": shown(pattern), "action": " ".join(map(shown, words))}
        for command, script in (("ONEXPIRE", "rule_list"), ("ONWRITE", "write_rule_list"))
        for pattern, *words in await inquiry.call(db, script, ())
        if matching(pattern).fullmatch(key) and (words[:1] != [b"TYPE"] or words[1] == kind)
    ]


async def _waiting(inquiry: Inquiry, db: int, key: bytes, limit: int) -> dict[str, Any]:
    """Returns deferred commands; how many elements wait for TAKE, and how many have been delivered
    by a rule with MAX and are counted."""
    keys = inquiry.keys
    commands = await inquiry.call(db, "deferred_page", (key,), limit, _WHOLE)
    kept, counts = await inquiry.try_to_ask(
        [(db, (b"LLEN", keys.kept(key))), (db, (b"ZCARD", keys.counts(key)))]
    )
    return {
        "deferred": [
            {"id": shown(id_), "ms_left": left_ms, "command": shown(command), "words": words}
            for id_, left_ms, command, words in commands
        ],
        "kept": kept // ITEMS if isinstance(kept, int) else 0,
        "counted": counts if isinstance(counts, int) else 0,
    }
