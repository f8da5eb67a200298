"""One of several proxies walks over the data for all.

It announces every ten seconds that it does. A proxy that has heard of no other for a while begins
itself, after a random pause; of two, the one with the smaller name goes on. Only work is saved by
this: what a walk finds is written by scripts that announce it.

It looks for orphans: indexes that the schedule does not have, because it was evicted or somebody
has deleted it. Without this nobody would reap them until the next write. The search takes one page
of the keyspace at a time, again and again: it costs a server next to nothing, and finds orphans
late.

It counts what waits in Redis beside the elements with deadlines: deferred commands, kept elements.
Of many internal keys it looks at a random sample, which stands for all: so the cost for Redis does
not grow with their number.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from random import random, uniform
from secrets import token_hex
from typing import Any, Final, TypeAlias, cast

from redis.asyncio import Redis
from redis.exceptions import NoPermissionError, ResponseError

from ttlproxy.commands import Call
from ttlproxy.core.counters import Waiting
from ttlproxy.core.keys import COUNTS
from ttlproxy.core.shares import shares
from ttlproxy.errors import UpstreamError
from ttlproxy.link.connecting.failures import is_elsewhere, is_wrong_type
from ttlproxy.link.connecting.pipeline import answered, error, run, valid
from ttlproxy.link.shared.context import Context

EVERY_S: Final = 10.0
# In announcement periods: a proxy that has heard nothing for this time takes it that nobody walks.
_SILENCE: Final = (2.0, 4.0)
# The silence for a proxy that has just begun.
_AT_FIRST: Final = (0.2, 2.0)


class Walks:
    """Decides whether this proxy walks.

    is_on: as last decided
    """

    def __init__(self, context: Context) -> None:
        self.is_on = False
        self._context = context
        self._fleet = context.fleet
        self._name = token_hex(8).encode()
        self._begins_s = self._now_s() + EVERY_S * uniform(*_AT_FIRST)
        self._announces_s = 0.0

    def heard(self, name: bytes) -> None:
        """Notes that the proxy of that name walks."""
        if name == self._name:
            return
        if self.is_on and self._name < name:
            self._announces_s = 0.0
            return
        self.is_on = False
        self._begins_s = self._now_s() + EVERY_S * uniform(*_SILENCE)

    async def mine(self, redis: Redis) -> bool:
        """Whether this proxy walks now; announces it."""
        if self._fleet.is_alone or self._fleet.attached <= 1:  # nobody would hear it
            self.is_on = True
            return True
        if not self.is_on and self._now_s() < self._begins_s:
            return False
        self.is_on = True
        if self._now_s() < self._announces_s:
            return True
        if await self._context.is_paused():
            return False
        announce = Call("announce", (self._context.keys.walks(self._name),), ())
        reply = await answered(redis, self._context.script_calls, 0, announce)
        self._announces_s = self._now_s() + EVERY_S
        if error(reply) and random() * self._fleet.attached >= 1:
            # Nobody hears it, so others may walk too: each does a part.
            self.is_on, self._begins_s = False, self._announces_s
        return self.is_on

    def _now_s(self) -> float:
        return self._context.clock.reading() / 1000


class Rest:
    """The looks between two walks of a kind: walks that find nothing come less and less often."""

    def __init__(self, least: int, longest: int) -> None:
        self._least = self._next = least
        self._longest = longest
        self._left = 0

    def is_over(self) -> bool:
        """Whether the next walk goes on or begins at this look."""
        self._left = max(self._left - 1, 0)
        return self._left == 0

    def begin(self, found: bool, *, seldom: bool = False) -> None:
        """Notes that a walk has ended. `found`: something; `seldom`: else it rests for longest."""
        if found or seldom:
            self._next = self._least if found else self._longest
        self._left, self._next = self._next, min(self._next * 2, self._longest)

    def end(self) -> None:
        """Has the next walk begin at the next look."""
        self._left = 0


_PAGE = 500
# In front of a Cluster, where nearly every key has a schedule of its own that must be asked.
_PAGE_OF_SLOTS = 100
_REST = 10
# The longest rest, for one of several proxies: searches that find nothing come less and less often,
# and at once this seldom if there are many proxies.
_LONGEST_REST = 120
# A heartbeat waits this long at most until all proxies know the families of keys that are found.
_SURE_S = 1.0


class Orphans:
    """The search, and its position. Redis logs each refusal for a missing right: one ends the
    search.

    It puts other internal keys in order, too: see others_tidy.lua.
    """

    def __init__(self, context: Context) -> None:
        self._script_calls = context.script_calls
        self._context = context
        self._refusals = context.refusals
        self._databases: list[int] = []  # still to be searched, the present one last
        self._cursor = b"0"
        self._others_cursor = b"0"
        self._may = True
        self._rest = Rest(_REST, _LONGEST_REST)
        self._found = False  # something in the present search

    async def search(self, redis: Redis, databases: Iterable[int]) -> None:
        """Searches one page, in one of the `databases` that hold keys."""
        if not self._may or not self._rest.is_over():
            return
        try:
            self._databases = self._databases or list(databases)
            if self._databases:
                await self._search(redis, self._databases[-1])
        except ResponseError as refusal:
            self._may = not isinstance(refusal, NoPermissionError)
            self._databases, self._cursor = [], b"0"
            self._refusals.note("to look for keys that are missing from the schedule", refusal)

    async def _search(self, redis: Redis, db: int) -> None:
        keys = self._script_calls.keys
        page = _PAGE_OF_SLOTS if keys.clustered else _PAGE
        words = (b"SCAN", self._cursor, b"MATCH", keys.pattern, b"COUNT", page)
        (reply,) = await run(redis, [(db, words)])
        self._cursor, names = valid(reply)
        if self._cursor == b"0":
            self._databases.pop()
            if not self._databases:  # a small keyspace needs no search every second
                fleet = self._context.fleet
                self._rest.begin(self._found or fleet.is_alone, seldom=not fleet.are_few)
                self._found = False
        found = {name: keys.data(name) for name in names}
        await self._fix(redis, db, [key for key in found.values() if key is not None])
        await self._tidy(redis, db, [name for name, key in found.items() if key is None])

    async def _fix(self, redis: Redis, db: int, found: list[bytes]) -> None:
        """Adds keys that the schedule of `db` lacks; where the schedule is not trusted, also
        corrects keys that it has too late."""
        if found and self._context.rights.trusts_schedules:
            found = await self._context.schedule_queries.lacking(redis, db, found)
        if not found or await self._context.is_paused():
            return
        self._found = True
        try:
            async with asyncio.timeout(_SURE_S):
                await self._context.be_sure([(db, key) for key in found])
        except (UpstreamError, TimeoutError):
            return  # the next search finds them
        for key in found:
            call = Call("schedule_fix", (key,), ())
            reply = await answered(redis, self._script_calls, db, call, b"%d" % db)
            if refusal := error(reply):
                self._refusals.note(f"to repair the schedule of database {db}", refusal)

    async def _tidy(self, redis: Redis, db: int, found: list[bytes]) -> None:
        """Corrects the set of names that DBSIZE leaves out, for these names and a page of those
        noted before."""
        keys = self._script_calls.keys
        noted = [] if keys.clustered else await self._noted(redis, db)
        names = [name for name in dict.fromkeys((*found, *noted)) if not keys.is_shared(name)]
        for group in keys.groups(names):
            untidy = await self._untidy(redis, db, group)
            if untidy and not await self._context.is_paused():
                together = [keys.home(keys.state), *untidy]
                there = keys.groups(together)[-1]  # of a Cluster those of one slot
                call = Call("others_tidy", untidy[:1], there)
                valid(await answered(redis, self._script_calls, db, call))

    async def _noted(self, redis: Redis, db: int) -> list[bytes]:
        """Returns a page of the names that DBSIZE leaves out."""
        words = (b"SSCAN", self._script_calls.keys.others, self._others_cursor, b"COUNT", _PAGE)
        (reply,) = await run(redis, [(db, words)])
        noted: list[bytes] = []
        if isinstance(reply, list):
            self._others_cursor, noted = reply
        return noted

    async def _untidy(self, redis: Redis, db: int, names: list[bytes]) -> list[bytes]:
        """Returns the names among these that others_tidy.lua may correct. A pause does not delay
        such reads."""
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


# Internal keys that are looked at each time, in all databases: on a busy machine that took Redis 1
# ms with 200 keys there, and 4 ms with 50,000.
SAMPLE: Final = 200
_MOST_DATABASES: Final = 16
# Slots that one script looks at, in about 1 ms of Redis.
_SLOTS: Final = 1024
# The length of a slot's word.
_WORD: Final = 3


_Part: TypeAlias = tuple[int, bytes]
"""A database, and the words of some slots of a Cluster."""


class WaitingSurvey:
    """Keeps the counts of the present server. A refusal for a missing right ends them, because
    Redis logs each."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._may = True

    def forget(self) -> None:
        """Forgets the counts: another proxy counts."""
        self._context.node_counts.waiting = None

    async def count(self, redis: Redis, databases: Sequence[int]) -> None:
        """Counts anew in these databases, which are those with keys."""
        # Without the state, nothing of ours is there, and no script is called.
        has_none = self._context.script_calls.has_state is False
        places = [] if has_none else self._places(databases)
        if not self._may or (places and await self._context.would_wait()):
            return
        try:
            parts = zip(places, await self._parts(redis, places), strict=True)
            found = [await self._counts(redis, place, most) for place, most in parts if most]
        except ResponseError as refusal:
            if is_elsewhere(refusal):
                return  # a slot moves
            self._may = not isinstance(refusal, NoPermissionError)
            self._context.refusals.note("to count deferred commands and kept elements", refusal)
            self.forget()
        else:
            self._context.node_counts.waiting = _together(found)

    def _places(self, databases: Sequence[int]) -> list[_Part]:
        context = self._context
        if not context.keys.clustered:
            return [(db, b"") for db in databases[:_MOST_DATABASES]]
        slots = context.slot_schedules.to_survey(context.may_have_rules)
        words = b"".join(map(context.keys.word, slots))
        most = _SLOTS * _WORD
        return [(0, words[at : at + most]) for at in range(0, len(words), most)]

    async def _parts(self, redis: Redis, places: Sequence[_Part]) -> Sequence[int]:
        """Returns the number of internal keys to look at in each place."""
        if len(places) == 1:
            return [SAMPLE]
        sizes = [(await self._ask(redis, place, 0))[0] for place in places]
        return shares(sizes, SAMPLE)

    async def _counts(self, redis: Redis, place: _Part, most: int) -> Waiting:
        """Counts what waits there, by a look at `most` keys."""
        size, looked_at, deferred, due_ms, kept, was_due_ms, _ = await self._ask(redis, place, most)
        share, now_ms = size / max(looked_at, 1), self._context.clock.now_ms()
        return Waiting(
            round(deferred * share),
            due_ms - now_ms if deferred else None,
            round(kept * share),
            now_ms - was_due_ms if kept else None,
        )

    async def _ask(self, redis: Redis, place: _Part, most: int) -> Sequence[Any]:
        db, words = place
        call = Call("others_survey", (), (b"%d" % most, words, b""))
        reply = valid(await answered(redis, self._context.script_calls, db, call))
        return cast(Sequence[Any], reply)


def _together(found: Sequence[Waiting]) -> Waiting:
    return Waiting(
        sum(each.deferred for each in found),
        min((each.until_next_ms for each in found if each.until_next_ms is not None), default=None),
        sum(each.kept for each in found),
        max(
            (each.since_oldest_ms for each in found if each.since_oldest_ms is not None),
            default=None,
        ),
    )
