"""`ttlproxy doctor --apply`: repairs what proxies keep in Redis; proxies may run meanwhile.

It keeps its position in each database of each server, in a file if one is given.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from contextlib import aclosing
from math import inf
from pathlib import Path
from typing import Any, Final

from ttlproxy.commands import Call
from ttlproxy.core.text import counted
from ttlproxy.link import NodeOfSeveral, announcing
from ttlproxy.net.progress import of_names
from ttlproxy.operations.doctor.content import examine_keys
from ttlproxy.operations.doctor.target import Target
from ttlproxy.operations.key_walk import LARGE_PAGE, KeyWalk, Pace, ResumeFile, WalkPosition
from ttlproxy.scripts.script_calls import ScriptCalls

_TOGETHER: Final = 50
_PAGE: Final = b"500"


class FixState:
    """The place and the counts of the fixing, in each database of each server."""

    def __init__(self, path: Path | None, upstream: str, prefix: str) -> None:
        """Keeps it in the file at `path`, about the internal keys with this prefix in this
        upstream; without one, nowhere. Raises OperationError if the file cannot be read or written,
        or is of another run."""
        job = {"upstream": upstream, "prefix": prefix}
        self.file = ResumeFile(path, job)
        self.begun = self.file.load(_read) or {}

    def keep(self, where: str, place: WalkPosition, counts: Counter[str]) -> None:
        """Keeps the position of the walk there."""
        self.begun[where] = place, counts
        self.file.keep({"begun": self.begun})


def _read(kept: Any) -> dict[str, tuple[WalkPosition, Counter[str]]]:
    begun = kept["begun"].items()
    return {where: (WalkPosition(*place), Counter(counts)) for where, (place, counts) in begun}


async def fixed(target: Target, state: FixState) -> None:
    """Goes through all indexes and schedules, and reports what it did in each database.

    It may be interrupted: what is fixed stays fixed, and with the same state the next run goes on
    where it was. It drops deadlines whose element is gone, puts keys with deadlines into the
    schedule, and announces their first deadlines to the proxies. Raises OperationError if the state
    cannot be written.
    """
    asked = (b"EXISTS", target.keys.home(target.keys.rules))
    ruled = any([await target.ask(*asked, db=db) for db in target.databases])
    script_calls = await target.script_calls("sweep", "key_examine", ruled=ruled)
    for db in target.databases:
        fixing = _Fixing(target, script_calls, state, db)
        try:
            await fixing.run()
        except asyncio.CancelledError:
            told = fixing.told()
            target.progress.say(f"interrupted: {told}; start it again to fix the rest")
            raise
        target.progress.say(fixing.told())


class _Fixing:
    """Fixes one database. counts: `names` that were looked at, roughly, `keys` that were checked,
    deadlines that were `dropped`, and keys with deadlines, which were `announced`."""

    def __init__(self, target: Target, script_calls: ScriptCalls, state: FixState, db: int) -> None:
        self._target = target
        self._script_calls = script_calls
        self._state = state
        self._db = db
        at = f"{target.redis.shown}, " if isinstance(target.redis, NodeOfSeveral) else ""
        self._where = f"{at}database {db}"
        self._names: int = target.info[f"db{db}"]["keys"]
        self._place, self._counts = state.begun.get(self._where, (WalkPosition(), Counter()))

    async def run(self) -> None:
        """Begins with the indexes: the walk over them takes long, and goes on where it was."""
        keys, redis = self._target.keys, self._target.redis
        walk = KeyWalk(redis, self._db, Pace(inf), self._place, match=keys.pattern, page=LARGE_PAGE)
        try:
            async with aclosing(walk.pages()) as pages:
                async for names in pages:
                    self._state.keep(self._where, walk.place, self._counts)
                    await self._fix([key for name in names if (key := keys.data(name)) is not None])
        finally:
            self._state.keep(self._where, walk.place, self._counts)
        # Then keys in the schedule that have no index.
        async for page in self._target.schedules.pages(redis, self._db):
            asked = [(b"EXISTS", keys.index(key)) for key, _ in page]
            there = await self._target.ask_each(self._db, asked)
            await self._fix([key for (key, _), has in zip(page, there, strict=True) if not has])

    async def _fix(self, keys: Sequence[bytes]) -> None:
        """Fixes the keys of one page of names."""
        target, counts = self._target, self._counts
        for at in range(0, len(keys), _TOGETHER):
            some = keys[at : at + _TOGETHER]
            counts["keys"] += len(some)
            counts["dropped"] += await self._sweep(some)
            counts["announced"] += await self._announce(some)
        counts["names"] += LARGE_PAGE
        target.progress.at(lambda: self.told() + of_names(counts["names"], self._names))

    def told(self) -> str:
        counts = self._counts
        return (
            f"{self._where}: checked {counted(counts['keys'], 'key')},"
            f" dropped {counted(counts['dropped'], 'deadline')} without an element;"
            f" {counted(counts['announced'], 'key has', 'keys have')} deadlines"
        )

    async def _sweep(self, keys: Sequence[bytes]) -> int:
        """Sweeps each index to its end; returns how many entries were dropped."""
        cursors, total, words = dict.fromkeys(keys, b"0"), 0, self._script_calls.words
        while cursors:
            calls = [Call("sweep", (key,), (cursor, _PAGE)) for key, cursor in cursors.items()]
            replies = await self._target.ask_each(self._db, [words(call, b"") for call in calls])
            total += sum(dropped for _, dropped, _ in replies)
            following = zip(cursors, replies, strict=True)
            cursors = {key: cursor for key, (cursor, _, _) in following if cursor != b"0"}
        return total

    async def _announce(self, keys: Sequence[bytes]) -> int:
        """Announces the first deadline of each key that has one; returns how many have one."""
        places = [(self._db, key) for key in keys]
        states = await examine_keys(self._target, self._script_calls, places, 0)
        names = [
            self._target.keys.announcement(self._db, state.first_ms, key)
            for (_, key), state in states.items()
            if state.first_ms >= 0
        ]
        await self._target.ask_each(self._db, [each for name in names for each in announcing(name)])
        return len(names)
