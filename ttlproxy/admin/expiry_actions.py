"""The rules of ONEXPIRE and ONWRITE for the status page: patterns of keys, and what was set."""

from __future__ import annotations

from ttlproxy.admin.cached_answers import Answer
from ttlproxy.admin.redis_queries import Inquiry
from ttlproxy.admin.text import shown

_MOST = 100


async def rules(inquiry: Inquiry) -> Answer:
    """The rules of all databases, those that win first. Raises Unanswered."""
    found: list[dict[str, object]] = []
    for db in [0] if await inquiry.is_clustered() else await inquiry.databases():
        for pattern, *words in await inquiry.call(db, "rule_list", ()):
            action = " ".join(map(shown, words))
            found.append({"db": db, "pattern": shown(pattern), "action": action})
        for pattern, *words in await inquiry.call(db, "write_rule_list", ()):
            action = f"ONWRITE {' '.join(map(shown, words))}"
            found.append({"db": db, "pattern": shown(pattern), "action": action})
    return {"rules": found[:_MOST], "all": len(found)}
