"""The inspector: one key's deadlines, or the keys that are due next, soonest first, in pages.

It shows what users have written, so it is on only if the admin address is local to this machine, or
if a setting says so. It reads no values.
"""

from __future__ import annotations

from typing import Final

from ttlproxy.admin import slots
from ttlproxy.admin.redis_queries import Inquiry
from ttlproxy.admin.text import shown
from ttlproxy.errors import Unanswered

PAGE: Final = 50
# The most bytes of a name; the rest is cut off, by the script if possible.
_MOST: Final = 256


async def elements(
    inquiry: Inquiry, db: int, key: bytes, offset: int, count: int = PAGE
) -> dict[str, object]:
    """A key's deadlines, as a JSON object: so many from `offset` on. Raises Unanswered."""
    now_ms, kind, size, timed, key_ms, page = await inquiry.call(
        db, "key_inspect", (key,), offset, count, _MOST
    )
    return {
        "key": shown(key[:_MOST]),
        "type": kind.decode(),
        "size": size if size >= 0 else None,
        "timed": timed,
        "key_ms_left": key_ms if key_ms >= 0 else None,
        "elements": [_row(found, now_ms) for found in page],
    }


async def due_keys(inquiry: Inquiry, db: int, offset: int) -> dict[str, object]:
    """The keys of a database that need attention next, as a JSON object. Raises Unanswered."""
    if await inquiry.is_clustered():
        if db:
            raise Unanswered("a Cluster has database 0 only")
        now_ms, managed, page = await slots.due_keys(inquiry, offset, PAGE, _MOST)
    else:
        now_ms, managed, page = await inquiry.call(db, "schedule_page", (), offset, PAGE, _MOST)
    return {"managed": managed, "keys": [_row(found, now_ms) for found in page]}


def _row(found: tuple[bytes, int, int], now_ms: int) -> dict[str, object]:
    name, length, deadline_ms = found
    return {
        "name": shown(name),
        "cut": length > len(name),
        "length": length,
        "deadline_ms": deadline_ms,
        "ms_left": deadline_ms - now_ms,
    }
