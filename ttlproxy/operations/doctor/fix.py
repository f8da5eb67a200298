"""`ttlproxy doctor --apply`: repairs what proxies keep in Redis; proxies may run meanwhile.

It keeps its position in each database of each server, in a file if one is given.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing
from math import inf
from pathlib import Path
from typing import Any, Final

from ttlproxy.commands import Call
from ttlproxy.core.counted import counted
from ttlproxy.errors import DoctorError
from ttlproxy.link import NodeOfSeveral, announcing
from ttlproxy.net.progress import of_names
from ttlproxy.operations.doctor.content import examine_keys
from ttlproxy.operations.doctor.target import Target
from ttlproxy.operations.key_walk import LARGE_PAGE, KeyWalk, Pace, Place
from ttlproxy.operations.resume_file import ResumeFile
from ttlproxy.scripts.script_calls import ScriptCalls

_TOGETHER: Final = 50
_PAGE: Final = b"500"


class FixState:
    """Keeps the position of the repair. Raises DoctorError if the file cannot be read or written,
    or belongs to another run."""

    def __init__(self, path: Path | None, upstream: str, prefix: str) -> None:
        """The file at `path` is about the internal keys with this prefix in this upstream; without
        a path, nothing is kept."""
        job = {"upstream": upstream, "prefix": prefix}
        self._file = ResumeFile(path, job, "--state", DoctorError) if path else None
        self._begun = (self._file and self._file.load(_read)) or {}

    def begun(self, where: str) -> tuple[Place, Counter[str]]:
        """Returns the position of the walk there, and what it had counted until then."""
        place, counts = self._begun.get(where, (Place(), Counter[str]()))
        return place, Counter(counts)

    def keep(self, where: str, place: Place, counts: Counter[str]) -> None:
        """Keeps the position of the walk there."""
        self._begun[where] = (place, Counter(counts))
        if self._file is not None:
            self._file.keep({"begun": self._begun})

    def end(self) -> None:
        """Removes the file: all is fixed, so the next run begins anew."""
        if self._file is not None:
            self._file.remove()


def _read(kept: Any) -> dict[str, tuple[Place, Counter[str]]]:
    begun = kept["begun"].items()
    return {where: (Place(*place), Counter(counts)) for where, (place, counts) in begun}


async def fixed(target: Target, state: FixState) -> None:
    """Goes through all indexes and schedules, and reports what it did in each database.

    It may be interrupted: what is fixed stays fixed, and with the same state the next run goes on
    where it was. It drops deadlines whose element is gone, puts keys with deadlines into the
    schedule, and announces their first deadlines to the proxies. Raises DoctorError if the state
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
        self._place, self._counts = state.begun(self._where)

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
        async for scheduled in _scheduled(self._target, self._db):
            await self._fix(scheduled)

    async def _fix(self, keys: Sequence[bytes]) -> None:
        """Fixes the keys of one page of names."""
        target, counts = self._target, self._counts
        for at in range(0, len(keys), _TOGETHER):
            some = keys[at : at + _TOGETHER]
            counts["keys"] += len(some)
            counts["dropped"] += await _sweep(target, self._script_calls, self._db, some)
            counts["announced"] += await _announce(target, self._script_calls, self._db, some)
        counts["names"] += LARGE_PAGE
        target.progress.at(lambda: self.told() + of_names(counts["names"], self._names))

    def told(self) -> str:
        counts = self._counts
        return (
            f"{self._where}: checked {counted(counts['keys'], 'key')},"
            f" dropped {counted(counts['dropped'], 'deadline')} without an element;"
            f" {counted(counts['announced'], 'key has', 'keys have')} deadlines"
        )


async def _scheduled(target: Target, db: int) -> AsyncIterator[list[bytes]]:
    """Yields keys in the schedule that have no index, page by page: the walk over indexes finds the
    others."""
    async for page in target.schedules.pages(target.redis, db):
        keys = [key for key, _ in page]
        there = await target.ask_each(db, [(b"EXISTS", target.keys.index(key)) for key in keys])
        yield [key for key, exists in zip(keys, there, strict=True) if not exists]


async def _sweep(target: Target, script_calls: ScriptCalls, db: int, keys: Sequence[bytes]) -> int:
    """Sweeps each index to its end; returns how many entries were dropped."""
    cursors, total = dict.fromkeys(keys, b"0"), 0
    while cursors:
        calls = [Call("sweep", (key,), (cursor, _PAGE)) for key, cursor in cursors.items()]
        replies = await target.ask_each(db, [script_calls.words(call, b"") for call in calls])
        total += sum(dropped for _, dropped, _ in replies)
        following = zip(cursors, replies, strict=True)
        cursors = {key: cursor for key, (cursor, _, _) in following if cursor != b"0"}
    return total


async def _announce(
    target: Target, script_calls: ScriptCalls, db: int, keys: Sequence[bytes]
) -> int:
    """Announces the first deadline of each key that has one; returns how many have one."""
    states = await examine_keys(target, script_calls, [(db, key) for key in keys], 0)
    names = [
        target.keys.announcement(db, state.first_ms, key)
        for (_, key), state in states.items()
        if state.first_ms >= 0
    ]
    await target.ask_each(db, [words for name in names for words in announcing(name)])
    return len(names)
