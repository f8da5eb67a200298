"""The keys that Redis does not let us reap, for operators: why, and the command that fixes it.

Keys that one command fixes are in one group. Nothing here asks Redis, or changes anything.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from ttlproxy.config import Settings
from ttlproxy.core.keys import Keys, hash_tag, slot
from ttlproxy.core.registry import DbKey
from ttlproxy.link import Link
from ttlproxy.link.shared.agenda import ParkedKey
from ttlproxy.operations.redis_cli import to_proxy, to_redis, typed

# Keys that are shown, and the longest of their names, in bytes: a report of all is one message.
MOST: Final = 24
_LONGEST: Final = 128
# The beginning of Redis's error -> the command for the server.
_OF_SERVER: Final = {
    "BUSY": (b"SCRIPT", b"KILL"),
    "MISCONF": (b"BGSAVE",),
    "NOREPLICAS": (b"INFO", b"replication"),
}
# Other commands, by reason. The operator fills in BYTES: more than INFO memory shows.
_BY_REASON: Final = {
    "oom": (b"CONFIG", b"SET", b"maxmemory", b"BYTES"),
    "unreachable": (b"CLUSTER", b"NODES"),
}


class Group(NamedTuple):
    """Keys that are parked for the same reason. why: of counters.PARKED; said: Redis's error; fix:
    a line for a shell, empty if none is known"""

    why: str
    said: str
    fix: str


def parked_keys(links: Iterable[Link], settings: Settings) -> dict[str, Any]:
    """Returns a JSON object: how many keys are parked, the first MOST of them by group, and whether
    this proxy reaps at all. Names are hexadecimal, cut after _LONGEST bytes."""
    links = list(links)
    found: dict[Group, list[dict[str, Any]]] = {}
    room = MOST
    for link in links:
        parked = link.context.agenda.parked.first(room)
        room -= len(parked)
        now_ms = link.context.clock.now_ms()
        for each in parked:
            group = Group(each.why, each.said, fix(link, settings, each))
            found.setdefault(group, []).append(_row(link.context.keys, each, now_ms))
    return {
        "all": sum(len(link.context.agenda.parked) for link in links),
        "leads": any(link.context.agenda.leads for link in links),
        "groups": [{**group._asdict(), "keys": keys} for group, keys in found.items()],
    }


def _row(keys: Keys, parked: ParkedKey, now_ms: int) -> dict[str, Any]:
    db, name = parked.place
    key = keys.deferring(name)
    shown = name if key is None else key
    return {
        "db": db,
        "name": shown[:_LONGEST].hex(),
        "length": len(shown),
        "is_deferred": key is not None,
        "cut": len(shown) > _LONGEST,
        "failures": parked.failures,
        "again_ms": max(parked.until_ms - now_ms, 0),
    }


def fix(link: Link, settings: Settings, parked: ParkedKey) -> str:
    """Returns the line that lets the key be reaped, or shows what is in the way; empty if none is
    known."""
    server = to_redis(link.upstream)
    for beginning, words in _OF_SERVER.items():
        if parked.said.startswith(beginning):
            return typed(server, 0, words)
    if parked.why == "noperm":
        from ttlproxy.operations.doctor.required_rights import rules  # rarely needed, and large

        user = (link.upstream.user or "default").encode()
        granted = rules(clustered=link.context.keys.clustered)
        return typed(server, 0, [b"ACL", b"SETUSER", user, *map(str.encode, granted)])
    if parked.why in _BY_REASON:
        return typed(server, 0, _BY_REASON[parked.why])
    is_in_the_way = parked.why == "wrongtype" or "XADD" in parked.said
    return _out_of_the_way(link, settings, parked.place) if is_in_the_way else ""


def _out_of_the_way(link: Link, settings: Settings, place: DbKey) -> str:
    """Returns a line that renames the key which refuses what is sent to it, so that nothing is
    lost."""
    proxy, keys = to_proxy(settings.listen, tls=settings.tls_cert is not None), link.context.keys
    targets = _targets(link, place)
    if any(len(target) > _LONGEST for target in targets):
        return ""
    if len(targets) > 1:  # one of them, but Redis does not say which
        return "; ".join(typed(proxy, place[0], (b"TYPE", target)) for target in targets)
    if not targets:
        return ""
    # The new name is in the same slot. Of some names there is no simple one.
    (name,) = targets
    tagged = not keys.clustered or bool(hash_tag(name))
    aside = name + b":aside" if tagged else b"{%b}:aside" % name
    if keys.clustered and slot(aside) != slot(name):
        return ""
    return typed(proxy, place[0], (b"RENAMENX", name, aside))


def _targets(link: Link, place: DbKey) -> list[bytes]:
    """Returns the keys that the deferred commands, or the rule of ONEXPIRE for the key, write
    to."""
    db, name = place
    deferring = link.context.keys.deferring(name)
    if deferring is not None:
        return [deferring]
    action = link.context.actions.of(db).of(name)
    return [to for to in action.keys if to != name] if action is not None else []
