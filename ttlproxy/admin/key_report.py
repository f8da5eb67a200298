"""All that Redis has about the deadlines of a key: for `ttlproxy inspect`. Reads no values."""

from __future__ import annotations

from typing import Any, Final

from ttlproxy.admin.inspector import elements, schedule_page
from ttlproxy.admin.redis_queries import Inquiry
from ttlproxy.admin.text import shown
from ttlproxy.core.glob import matching

# Managed keys that are read in one call, and the most bytes of a name.
_PAGE: Final = 500
_MOST: Final = 65_536
# A kept element, its value and its deadline are three items of a list.
_ITEMS: Final = 3


async def key_report(inquiry: Inquiry, db: int, key: bytes, limit: int) -> dict[str, Any]:
    """A JSON object about one key; with `limit` elements and deferred commands at most, those that
    are due first. Raises Unanswered."""
    found = await elements(inquiry, db, key, 0, limit)
    del found["next"]
    return {
        "db": db,
        **found,
        "rules": await _rules(inquiry, db, key, str(found["type"]).encode()),
        **await _waiting(inquiry, db, key, limit),
    }


async def managed_keys(inquiry: Inquiry, db: int, pattern: bytes, limit: int) -> list[bytes]:
    """The keys with deadlines whose names match, those that need attention first; `limit` at most.
    Raises Unanswered."""
    fits, found, offset = matching(pattern), list[bytes](), 0
    while len(found) < limit:
        _, _, page = await schedule_page(inquiry, db, offset, _PAGE, _MOST)
        names = [name for name, _, _ in page if fits.fullmatch(name)]
        found += [name for name in names if inquiry.keys.deferring(name) is None]
        if len(page) < _PAGE:
            break
        offset += _PAGE
    return found[:limit]


async def _rules(inquiry: Inquiry, db: int, key: bytes, kind: bytes) -> list[dict[str, str]]:
    """The rules whose pattern fits; of each command the first is in force."""
    return [
        {"command": command, "pattern": shown(pattern), "action": " ".join(map(shown, words))}
        for command, script in (("ONEXPIRE", "rule_list"), ("ONWRITE", "write_rule_list"))
        for pattern, *words in await inquiry.call(db, script, ())
        if matching(pattern).fullmatch(key) and (words[:1] != [b"TYPE"] or words[1] == kind)
    ]


async def _waiting(inquiry: Inquiry, db: int, key: bytes, limit: int) -> dict[str, Any]:
    """Deferred commands; how many elements wait for TAKE, and how many have been delivered by a
    rule with MAX and are counted."""
    keys = inquiry.keys
    commands = await inquiry.call(db, "deferred_page", (key,), limit, _MOST)
    kept, counts = await inquiry.try_to_ask(
        [(db, (b"LLEN", keys.kept(key))), (db, (b"ZCARD", keys.counts(key)))]
    )
    return {
        "deferred": [
            {"id": shown(id_), "ms_left": left_ms, "command": shown(command), "words": words}
            for id_, left_ms, command, words in commands
        ],
        "kept": kept // _ITEMS if isinstance(kept, int) else 0,
        "counted": counts if isinstance(counts, int) else 0,
    }
