"""`ttlproxy doctor --mend`: repairs what proxies keep in Redis; proxies may run meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from functools import partial

from ttlproxy.commands import Call
from ttlproxy.core.counted import counted
from ttlproxy.core.registry import Place
from ttlproxy.link import NodeOfSeveral, announcing, run, valid
from ttlproxy.net.progress import Progress, of_names
from ttlproxy.operations.doctor.content import PAGE, indexed, looked_at, script_calls_of
from ttlproxy.operations.doctor.target import Target
from ttlproxy.scripts.script_calls import ScriptCalls

_TOGETHER = 50
_PAGE = b"500"


async def mended(target: Target) -> None:
    """Goes through all indexes and schedules, and says what it did in each database.

    It may be interrupted: what is mended stays so.

    It drops deadlines whose element is gone, puts keys with deadlines into the schedule, and
    announces their first deadlines to the proxies.
    """
    script_calls = await script_calls_of(target, "sweep", "key_examine")
    at = f"{target.redis.shown}, " if isinstance(target.redis, NodeOfSeveral) else ""
    for db in target.databases:
        done = _Done(at, db, target.info[f"db{db}"]["keys"])
        try:
            async for places in _pages(target, db, partial(done.go_on, target.progress)):
                done.keys += len(places)
                done.dropped += await _sweep(target, script_calls, places)
                done.announced += await _announce(target, script_calls, places)
        except asyncio.CancelledError:
            target.progress.say(f"interrupted: {done.told()}; start it again to mend the rest")
            raise
        target.progress.say(done.told())


@dataclass
class _Done:
    """In one database: keys that were checked, deadlines dropped, and keys that have deadlines.

    at: names the server if there are several; names: how many the database has; looked_at: so many
    of them, roughly
    """

    at: str
    db: int
    names: int
    looked_at: int = 0
    keys: int = 0
    dropped: int = 0
    announced: int = 0

    def go_on(self, progress: Progress) -> None:
        """A page of names was read."""
        self.looked_at += PAGE
        progress.at(self._how_far)

    def _how_far(self) -> str:
        return self.told() + of_names(self.looked_at, self.names)

    def told(self) -> str:
        return (
            f"{self.at}database {self.db}: checked {counted(self.keys, 'key')},"
            f" dropped {counted(self.dropped, 'deadline')} without an element;"
            f" {counted(self.announced, 'key has', 'keys have')} deadlines"
        )


async def _pages(target: Target, db: int, tell: Callable[[], None]) -> AsyncIterator[list[Place]]:
    """All places that the schedule or an index names, in pages; a place may come twice.

    `tell` is called for each page of names, also if none of them is such a place.
    """
    page: list[Place] = []
    for source in (indexed, _scheduled):
        async for key in source(target, db, tell):
            page.append((db, key))
            if len(page) == _TOGETHER:
                yield page
                page = []
    if page:
        yield page


async def _scheduled(target: Target, db: int, tell: Callable[[], None]) -> AsyncIterator[bytes]:
    """Keys in the schedule that have no index: `indexed` finds the others."""
    async for page in target.schedules.pages(target.redis, db):
        tell()
        looks = [(db, (b"EXISTS", target.keys.index(key))) for key, _ in page]
        there = await run(target.redis, looks)
        for (key, _), exists in zip(page, there, strict=True):
            if not valid(exists):
                yield key


async def _sweep(target: Target, script_calls: ScriptCalls, places: Sequence[Place]) -> int:
    """Sweeps each index to its end; returns how many entries were dropped."""
    cursors, total = dict.fromkeys(places, b"0"), 0
    while cursors:
        calls = [
            (db, script_calls.words(Call("sweep", (key,), (cursor, _PAGE)), b""))
            for (db, key), cursor in cursors.items()
        ]
        replies = [valid(reply) for reply in await run(target.redis, calls)]
        total += sum(dropped for _, dropped, _ in replies)
        cursors = {
            place: cursor
            for place, (cursor, _, _) in zip(cursors, replies, strict=True)
            if cursor != b"0"
        }
    return total


async def _announce(target: Target, script_calls: ScriptCalls, places: Sequence[Place]) -> int:
    """Announces the first deadline of each key that has one; returns how many have one."""
    looks = await looked_at(target, script_calls, places, 0)
    names = [
        (db, target.keys.announcement(db, look.first_ms, key))
        for (db, key), look in looks.items()
        if look.first_ms >= 0
    ]
    requests = [(db, words) for db, name in names for words in announcing(name)]
    for reply in await run(target.redis, requests):
        valid(reply)
    return len(names)
