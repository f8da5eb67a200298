"""Counts deferred commands and kept elements, which wait in Redis.

The set of other internal keys has their names. If there are many, a random sample stands for all;
the schedule is read, too, for what is due next, so it is rarely missed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

from ttlproxy.admin import slots
from ttlproxy.admin.redis_queries import Answer, Inquiry
from ttlproxy.core.shares import shares
from ttlproxy.core.text import shown
from ttlproxy.link.connecting.known_server import unix_ms
from ttlproxy.link.shared.schedule_queries import whole_ms

# The most names that are looked at in all databases: 1,000 short requests take Redis about 1 ms.
SAMPLE: Final = 500
# Keys at the beginning of a schedule that are searched for deferred commands.
_HEAD: Final = 500
# Keys that are shown; commands that are shown in all, and asked for of each.
_KEYS: Final = 10
# The most bytes of a name.
_MOST: Final = 128
# A kept element, its value and its deadline are three items of a list.
ITEMS: Final = 3


class WaitingKey(NamedTuple):
    """A key with something that waits. name: the internal key; key: the data key; size: commands or
    elements; first_ms: when the first is or was due"""

    db: int
    name: bytes
    key: bytes
    size: int
    first_ms: int


class WaitingSample(NamedTuple):
    """Keys of one kind in one database; share: how many keys each of them stands for."""

    places: Sequence[WaitingKey]
    share: float


async def waiting(inquiry: Inquiry, *, names: bool) -> Answer:
    """Returns a JSON object about deferred commands and one about kept elements; `names`: with
    names of keys, else only counts. Raises Unanswered."""
    deferred, kept, exact = list[WaitingSample](), list[WaitingSample](), True
    clustered = await inquiry.is_clustered()
    for db in [0] if clustered else await inquiry.databases():
        total, sample = await _others(inquiry, db)
        share = total / max(len(sample), 1)
        exact = exact and total <= len(sample)
        deferred.append(WaitingSample(await _deferred(inquiry, db, sample), share))
        kept.append(WaitingSample(await _kept(inquiry, db, sample), share))
        if total > len(sample):
            heads = await _heads(inquiry, db)
            deferred.append(WaitingSample(await _deferred(inquiry, db, heads), 0))
    (time,) = await inquiry.ask([(0, (b"TIME",))])
    return {
        "deferred": {
            **_summary(deferred, exact=exact),
            "next": await _next(inquiry, deferred) if names else [],
        },
        "kept": {
            **_summary(kept, exact=exact),
            "keys_shown": _largest(kept, unix_ms(time)) if names else [],
        },
    }


def _summary(found: Iterable[WaitingSample], *, exact: bool) -> dict[str, object]:
    found = list(found)
    return {
        "keys": round(sum(len(each.places) * each.share for each in found)),
        "count": round(
            sum(sum(place.size for place in each.places) * each.share for each in found)
        ),
        "exact": exact,
    }


def _all(found: Iterable[WaitingSample]) -> list[WaitingKey]:
    return list({place[:2]: place for each in found for place in each.places}.values())


def _largest(found: Iterable[WaitingSample], now_ms: int) -> list[dict[str, object]]:
    """Returns the keys with the most kept elements."""
    places = sorted(_all(found), key=lambda place: -place.size)
    return [
        {**_key(place), "count": place.size, "since_ms": max(now_ms - place.first_ms, 0)}
        for place in places[:_KEYS]
    ]


async def _next(inquiry: Inquiry, found: Iterable[WaitingSample]) -> list[dict[str, object]]:
    """Returns the deferred commands that are due next."""
    places = sorted(_all(found), key=lambda place: place.first_ms)[:_KEYS]
    rows: list[dict[str, Any]] = []
    for place in places:
        for id_, left_ms, command, words in await inquiry.call(
            place.db, "deferred_page", (place.key,), _KEYS, _MOST
        ):
            about = {"id": shown(id_), "ms_left": left_ms, "command": shown(command)}
            rows.append({**_key(place), **about, "words": words})
    return sorted(rows, key=lambda row: int(row["ms_left"]))[:_KEYS]


def _key(place: WaitingKey) -> dict[str, object]:
    return {
        "db": place.db,
        "key": shown(place.key[:_MOST]),
        "cut": len(place.key) > _MOST,
        "length": len(place.key),
    }


async def _others(inquiry: Inquiry, db: int) -> tuple[int, list[bytes]]:
    """Returns (the number of other internal keys, at most SAMPLE of them, chosen at random)."""
    places = [(b"", b"")]
    if await inquiry.is_clustered():
        places = [
            (name, b"".join(map(inquiry.keys.word, owned[at : at + slots.EACH])))
            for name, owned in await inquiry.slots()
            for at in range(0, len(owned), slots.EACH)
        ]
    sizes = [(await _survey(inquiry, db, place, 0))[0] for place in places]
    found = [
        name
        for place, share in zip(places, shares(sizes, SAMPLE), strict=True)
        if share
        for name in (await _survey(inquiry, db, place, share))[1]
    ]
    return sum(sizes), found


async def _survey(
    inquiry: Inquiry, db: int, place: tuple[bytes, bytes], most: int
) -> tuple[int, list[bytes]]:
    """Counts in one place: a name in one of a Cluster's slots, and the words of slots."""
    name, words = place
    size, *_, names = await inquiry.call(db, "others_survey", (name,), most, words, 1)
    return size, names


async def _heads(inquiry: Inquiry, db: int) -> list[bytes]:
    """Returns the keys that need attention next."""
    schedules = [inquiry.keys.schedule]
    if await inquiry.is_clustered():
        occupied = await slots.occupied(inquiry)
        schedules = [inquiry.keys.shared_in(slot.number, schedules[0]) for slot in occupied]
    each = b"%d" % max(_HEAD // max(len(schedules), 1), 1)
    asked = [(db, (b"ZRANGE", schedule, b"0", each)) for schedule in schedules[:_HEAD]]
    replies = await inquiry.try_to_ask(asked)
    return [name for reply in replies if isinstance(reply, list) for name in reply]


async def _deferred(inquiry: Inquiry, db: int, names: Iterable[bytes]) -> list[WaitingKey]:
    keys = inquiry.keys
    found = [(name, key) for name in names if (key := keys.deferring(name)) is not None]
    sizes = await _numbers(inquiry, db, [(b"HLEN", name) for name, _ in found])
    first = (b"0", b"0", b"WITHSCORES")
    asked = [(db, (b"ZRANGE", keys.index(name), *first)) for name, _ in found]
    heads = await inquiry.try_to_ask(asked)
    return [
        WaitingKey(db, name, key, size, whole_ms(head[1]))
        for (name, key), size, head in zip(found, sizes, heads, strict=True)
        if size and isinstance(head, list) and head
    ]


async def _kept(inquiry: Inquiry, db: int, names: Iterable[bytes]) -> list[WaitingKey]:
    keys = inquiry.keys
    found = [(name, key) for name in names if (key := keys.keeping(name)) is not None]
    sizes = await _numbers(inquiry, db, [(b"LLEN", name) for name, _ in found])
    asked = [(db, (b"LINDEX", name, b"%d" % (ITEMS - 1))) for name, _ in found]
    dues = await inquiry.try_to_ask(asked)
    return [
        WaitingKey(db, name, key, size // ITEMS, int(due))
        for (name, key), size, due in zip(found, sizes, dues, strict=True)
        if size and isinstance(due, bytes) and due.isdigit()
    ]


async def _numbers(inquiry: Inquiry, db: int, requests: Iterable[tuple[bytes, ...]]) -> list[int]:
    """Returns numbers; 0 if a client has put something else there."""
    replies = await inquiry.try_to_ask([(db, words) for words in requests])
    return [reply if isinstance(reply, int) else 0 for reply in replies]
