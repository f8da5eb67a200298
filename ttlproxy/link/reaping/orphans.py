"""Finds indexes that the schedule does not have: it was evicted, or somebody has deleted it.

Without this nobody would reap them until the next write. The search takes one page of the keyspace
at a time, again and again: it costs a server next to nothing, and finds orphans late.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable

from redis.asyncio import Redis
from redis.exceptions import NoPermissionError, ResponseError

from ttlproxy.commands import Call
from ttlproxy.core.keys import COUNTS
from ttlproxy.core.registry import Place
from ttlproxy.errors import UpstreamError
from ttlproxy.link.connecting.pipeline import error, run, valid
from ttlproxy.link.connecting.refusals import is_wrong_type
from ttlproxy.link.connecting.single_calls import answered
from ttlproxy.link.shared.barriers import IsPaused
from ttlproxy.link.shared.context import Context

_PAGE = 500
# The same in front of a Cluster, where nearly every key has a schedule of its own to be asked.
_PAGE_OF_SLOTS = 100
_REST = 10
# The longest one of one of several proxies: searches that find nothing come less and less often, of
# many proxies as seldom as that at once.
_LONGEST_REST = 120
# So long a heartbeat waits until all proxies know of keys that are found.
_SURE_S = 1.0


class Orphans:
    """The search, and how far it is. Redis logs each refusal for a missing right: one ends it.

    It puts other internal keys in order, too: see others_tidy.lua.
    """

    def __init__(
        self,
        context: Context,
        is_paused: IsPaused,
        be_sure: Callable[[Iterable[Place]], Awaitable[None]],
    ) -> None:
        """`be_sure(places)`: see link/knowledge/activation.py."""
        self._is_paused = is_paused
        self._be_sure = be_sure
        self._script_calls = context.script_calls
        self._context = context
        self._refusals = context.refusals
        self._rights = context.rights
        self._databases: list[int] = []  # still to be searched, the present one last
        self._cursor = b"0"
        self._others_cursor = b"0"
        self._may = True
        self._resting = 0  # looks until the search begins anew
        self._rest = _REST
        self._found = False  # something in the present search

    async def look(self, redis: Redis, databases: Iterable[int]) -> None:
        """Searches one page, in one of the `databases` that hold keys.

        Raises redis-py's ConnectionError or TimeoutError.
        """
        if not self._may or self._rests():
            return
        try:
            self._databases = self._databases or list(databases)
            if self._databases:
                await self._search(redis, self._databases[-1])
        except ResponseError as refusal:
            self._may = not isinstance(refusal, NoPermissionError)
            self._databases, self._cursor = [], b"0"
            self._refusals.note("to look for keys that are missing from the schedule", refusal)

    def _rests(self) -> bool:
        """Whether a search has just ended: a small keyspace needs none every second."""
        self._resting = max(self._resting - 1, 0)
        return self._resting > 0

    def _next_rest(self) -> int:
        """The search is over: how long the rest is."""
        fleet = self._context.fleet
        if self._found or fleet.is_alone:
            self._rest = _REST
        elif not fleet.are_few:
            self._rest = _LONGEST_REST
        rest, self._rest, self._found = self._rest, min(self._rest * 2, _LONGEST_REST), False
        return rest

    async def _search(self, redis: Redis, db: int) -> None:
        keys = self._script_calls.keys
        page = _PAGE_OF_SLOTS if keys.clustered else _PAGE
        words = (b"SCAN", self._cursor, b"MATCH", keys.pattern, b"COUNT", page)
        (reply,) = await run(redis, [(db, words)])
        self._cursor, names = valid(reply)
        if self._cursor == b"0":
            self._databases.pop()
            self._resting = 0 if self._databases else self._next_rest()
        found = {name: keys.data(name) for name in names}
        await self._fix(redis, db, [key for key in found.values() if key is not None])
        await self._tidy(redis, db, [name for name, key in found.items() if key is None])

    async def _fix(self, redis: Redis, db: int, found: list[bytes]) -> None:
        """Adds keys that the schedule of `db` does not have; where the schedule is not trusted,
        also corrects keys that it has too late."""
        if found and self._rights.trusts_schedules:
            found = await self._context.schedule_queries.lacking(redis, db, found)
        if not found or await self._is_paused():
            return
        self._found = True
        try:
            async with asyncio.timeout(_SURE_S):
                await self._be_sure([(db, key) for key in found])
        except (UpstreamError, TimeoutError):
            return  # the next search finds them
        for key in found:
            call = Call("schedule_fix", (key,), ())
            reply = await answered(redis, self._script_calls, db, call, b"%d" % db)
            if refusal := error(reply):
                self._refusals.note(f"to repair the schedule of database {db}", refusal)

    async def _tidy(self, redis: Redis, db: int, found: list[bytes]) -> None:
        """Corrects what DBSIZE leaves out, for these names and a page of those noted before."""
        keys = self._script_calls.keys
        noted = [] if keys.clustered else await self._noted(redis, db)
        names = [name for name in dict.fromkeys((*found, *noted)) if not keys.is_shared(name)]
        for group in keys.groups(names):
            untidy = await self._untidy(redis, db, group)
            if untidy and not await self._is_paused():
                together = [keys.home(keys.state), *untidy]
                there = keys.groups(together)[-1]  # of a Cluster those of one slot
                call = Call("others_tidy", untidy[:1], there)
                valid(await answered(redis, self._script_calls, db, call))

    async def _noted(self, redis: Redis, db: int) -> list[bytes]:
        """A page of the names that DBSIZE leaves out."""
        words = (b"SSCAN", self._script_calls.keys.others, self._others_cursor, b"COUNT", _PAGE)
        (reply,) = await run(redis, [(db, words)])
        noted: list[bytes] = []
        if isinstance(reply, list):
            self._others_cursor, noted = reply
        return noted

    async def _untidy(self, redis: Redis, db: int, names: list[bytes]) -> list[bytes]:
        """Those of these names that others_tidy.lua may correct. A pause delays no such reads."""
        keys = self._script_calls.keys
        rule = keys.rule(b"")
        rules, others = (keys.shared_by(names[0], each) for each in (keys.rules, keys.others))
        requests = [(b"SMISMEMBER", others, *names)]
        for name in names:
            field = b":" + name.removeprefix(rule)
            requests += [(b"EXISTS", name), (b"HEXISTS", rules, field)]
        replies = await run(redis, [(db, words) for words in requests])
        if any(is_wrong_type(refusal) for reply in replies if (refusal := error(reply))):
            return names  # others_tidy.lua deletes what stands in the place of one of them
        are_noted, *looks = map(valid, replies)
        rows = zip(names, are_noted, looks[::2], looks[1::2], strict=True)
        return [
            name
            for name, is_noted, is_there, is_listed in rows
            if is_noted != is_there
            or (is_there and name.startswith(rule) and not is_listed)
            or name.startswith(keys.prefix + COUNTS)
        ]
