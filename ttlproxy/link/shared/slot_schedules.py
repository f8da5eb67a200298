"""The link's questions to the schedules of a Cluster's slots, with the methods of schedule_queries.

There are 16,384 of them, so only those are asked that have a key that is due, as far as is known.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Sequence
from random import sample
from typing import TYPE_CHECKING, Any, Final

from redis.asyncio import Redis

from ttlproxy.commands import Call
from ttlproxy.core.keys import SLOTS, Keys, slot
from ttlproxy.core.registry import DbKey
from ttlproxy.link.connecting.failures import is_elsewhere
from ttlproxy.link.connecting.pipeline import answered, error, run, valid
from ttlproxy.link.shared.schedule_queries import (
    DUE,
    PAGE,
    Late,
    Refused,
    ScheduleQueries,
    Soon,
    UnreadError,
    before,
    between,
    scored,
    since,
    whole_ms,
)
from ttlproxy.wire import NOTHING_DUE

if TYPE_CHECKING:
    from ttlproxy.link.shared.context import Context

# Slots that are asked at a time for the keys that are due, of which each may have thousands.
_DUE_TOGETHER: Final = 64
# Slots that are asked once a second how much is late. Each takes the proxy 20 us.
_LATE: Final = 256
# Slots that are asked once a second for their size: 512 took the proxy 0.5 % of a core.
_SIZED: Final = 64
# The request for the first key of a schedule; the schedule's name is put in.
_HEAD: Final = (b"ZRANGEBYSCORE", b"", b"-inf", b"+inf", b"WITHSCORES", b"LIMIT", 0, 1)
# Slots that one script looks at, in about 1 ms of Redis.
_SURVEYED: Final = 1024
# Fewer slots are read without a survey.
_SURVEY_WORTH_IT: Final = 64
# The length of a slot's word.
_WORD: Final = 3

FindSlots = Callable[[Redis, Sequence[int]], Awaitable[Collection[int]]]
"""Which of the slots may have a schedule. Raises redis-py's ConnectionError or TimeoutError."""


async def all_may_have(redis: Redis, slots: Sequence[int]) -> Collection[int]:
    return slots


class SlotSurvey:
    """Finds the slots of one node that may have a schedule: most have none, and need not be read.

    A slot is left out only if the node has said that its schedule is empty. Any refusal counts as
    "perhaps": then the request that reads the schedule tells why.
    """

    def __init__(self, context: Context) -> None:
        self._context = context

    async def __call__(self, redis: Redis, slots: Sequence[int]) -> Collection[int]:
        if len(slots) < _SURVEY_WORTH_IT or await self._context.would_wait():
            return slots
        found: list[int] = []
        for at in range(0, len(slots), _SURVEYED):
            found += await self._some(redis, slots[at : at + _SURVEYED])
        return found

    async def _some(self, redis: Redis, slots: Sequence[int]) -> Sequence[int]:
        numbers = {self._context.keys.word(number): number for number in slots}
        call = Call("slots_occupied", (), (b"".join(numbers),))
        reply = await answered(redis, self._context.script_calls, 0, call)
        if error(reply) or not isinstance(reply, bytes):
            return slots
        return [numbers[reply[at : at + _WORD]] for at in range(0, len(reply), _WORD)]


class SlotSchedules(ScheduleQueries):
    """The schedules of one node's slots, and when the first key of each needs attention.

    owned: the slots whose schedules are read; read: those that were read whole
    deferring: slots that may have deferred commands
    losses: how often what was read of a slot has become worthless
    survey: finds the slots that may have a schedule
    on_unread(slots): called when some of them could not be read, because they move
    now_noted: how often a slot has been noted; a reply to an earlier question may be older than a
    note
    """

    def __init__(self, keys: Keys) -> None:
        super().__init__(keys)
        self.owned: Collection[int] = range(SLOTS)
        self.read: set[int] = set()
        self.deferring: set[int] = set()
        self.losses: Counter[int] = Counter()
        self.survey: FindSlots = all_may_have
        self.on_unread: Callable[[Collection[int]], None] = lambda slots: None
        self.now_noted = 0
        # Lower bounds in ms, for all slots that have managed keys.
        self._firsts: dict[int, int] = {}
        self._unsized: list[int] = []  # slots whose size is still to be asked
        self._size = 0  # the size of the others
        # When each slot was last noted, as `now_noted`.
        self._noted: dict[int, int] = {}

    def shown(self, which: int) -> str:
        return f"slot {which}"

    def clearing(self, which: int) -> tuple[int, Call]:
        return 0, Call("schedule_clear", (b"{%b}" % self._keys.word(which),), ())

    def has_place(self, which: int, key: bytes) -> bool:
        return slot(key) == which

    def slots(self) -> Collection[int]:
        return self._firsts

    def late_slots(self, now_ms: int) -> list[int]:
        """Returns the slots in which a key may be due."""
        return [number for number, first_ms in self._firsts.items() if first_ms < now_ms]

    def to_count(self, has_rules: bool) -> bytes:
        keys = self._keys
        if has_rules:  # elements may wait for TAKE in any slot
            kinds = dict.fromkeys(self.owned, b"R")
        else:
            kinds = {each: b"+" if each in self.deferring else b" " for each in self._firsts}
        kinds[slot(keys.here)] = b"L"
        return b"".join(keys.word(each) + kind for each, kind in kinds.items())

    def to_survey(self, has_rules: bool) -> Collection[int]:
        """Returns the slots that may have deferred commands or kept elements; has_rules: of
        ONEXPIRE."""
        return self.owned if has_rules else sorted(self.deferring.intersection(self.owned))

    def noted(self, key: bytes, due_ms: int) -> int:
        """Notes that the key needs attention at that time, or earlier; returns its slot."""
        number = slot(key)
        if self._keys.deferring(key) is not None:
            self.deferring.add(number)
        self.now_noted += 1
        self._noted[number] = self.now_noted
        if due_ms < self._firsts.get(number, NOTHING_DUE):
            self._firsts[number] = due_ms
        return number

    def set_first(self, number: int, attention: bytes, asked: int) -> None:
        """Notes when the first key of the slot needs attention, in ms; empty if there is none.
        `asked`: what `now_noted` was before Redis was asked."""
        first_ms = whole_ms(attention) if attention else NOTHING_DUE
        if self._noted.get(number, 0) > asked:
            first_ms = min(first_ms, self._firsts.get(number, NOTHING_DUE))
        if number not in self.owned:
            return
        if first_ms < NOTHING_DUE:
            self._firsts[number] = first_ms
        else:
            self._firsts.pop(number, None)

    async def find(self, redis: Redis) -> None:
        await self._heads(redis, self.owned)

    async def due(
        self, redis: Redis, databases: Iterable[int], now_ms: int, most: int = DUE
    ) -> tuple[list[DbKey], Refused]:
        """Returns enough for a while, the earliest slots first; a slot without any is not asked
        again for the same `now_ms`."""
        words = (b"ZRANGEBYSCORE", b"", *before(now_ms), b"LIMIT", 0, most)
        found: list[DbKey] = []
        refused: Refused = {}
        late = sorted(self.late_slots(now_ms), key=self._firsts.__getitem__)
        for at in range(0, len(late), _DUE_TOGETHER):
            firsts = {number: self._firsts.get(number) for number in late[at : at + _DUE_TOGETHER]}
            pages, failed = await self._ask(redis, firsts, words)
            refused |= failed
            found += [(0, key) for page in pages.values() for key in page]
            for number, page in pages.items():
                if not page and self._firsts.get(number) == firsts[number] is not None:
                    self._firsts[number] = now_ms
            if len(found) >= most:
                break
        return found, refused

    async def next_ms(self, redis: Redis, databases: Iterable[int], now_ms: int) -> int | None:
        late = self.late_slots(now_ms + 1)
        await self._heads(redis, late)
        followers, _ = await self._ask(redis, self.late_slots(now_ms + 1), since(now_ms))
        found = [whole_ms(page[1]) for page in followers.values() if page]
        return min([*found, *(ms for ms in self._firsts.values() if ms > now_ms)], default=None)

    async def late(self, redis: Redis, databases: Iterable[int], now_ms: int) -> Late:
        """Estimates what is late: if many slots may be, a sample is asked. Another proxy may have
        reaped what was due there: then the slot is not asked again until its next deadline."""
        late = self.late_slots(now_ms)
        some = sample(late, min(len(late), _LATE))
        heads, refused = await self._heads(redis, some)
        found = {number: whole_ms(page[1]) for number, page in heads.items() if page}
        firsts = {number: first_ms for number, first_ms in found.items() if first_ms < now_ms}
        counts, _ = await self._ask(redis, firsts, (b"ZCOUNT", b"", *before(now_ms)))
        keys = sum(counts.values()) * len(late) // max(len(some), 1)
        return Late(keys, min(firsts.values(), default=None), refused)

    async def size(self, redis: Redis, databases: Iterable[int]) -> int | None:
        """Asks some slots at each call; returns the size of all when the last of them were asked,
        else None."""
        if not self._unsized:
            self._unsized, self._size = list(self._firsts), 0
        some, self._unsized = self._unsized[:_SIZED], self._unsized[_SIZED:]
        asked = self.now_noted
        sizes, refused = await self._ask(redis, some, (b"ZCARD", b""))
        self._size += sum(sizes.values())
        for number in (each for each, size in sizes.items() if not size):
            self.set_first(number, b"", asked)
        if refused:
            self._unsized = []
        return None if refused or self._unsized else self._size

    def forget(self, slots: Collection[int]) -> None:
        """Forgets these slots, because another node owns them now."""
        for number in slots:
            self._firsts.pop(number, None)
            self.deferring.discard(number)
        self.unread(slots)

    def unread(self, slots: Collection[int]) -> None:
        """Notes that entries of these slots that were read, or are being read now, do not count any
        more."""
        self.read.difference_update(slots)
        self.losses.update(slots)

    def need_no_names(self, losses: int) -> None:
        """Notes that all slots count as read, unless some were lost since `losses` was their
        number: what the names of managed keys would tell is known otherwise."""
        if losses == self.losses.total():
            self.read.update(self.owned)
            self.deferring.update(self._firsts)

    async def pages(self, redis: Redis, db: int) -> AsyncIterator[list[tuple[bytes, int]]]:
        asked = set(self.owned)
        self.read -= asked
        async for entries in self.pages_of(redis, asked):
            yield entries
        if unread := asked.difference(self.read):
            self.on_unread(unread)

    async def pages_of(
        self, redis: Redis, slots: Collection[int]
    ) -> AsyncIterator[list[tuple[bytes, int]]]:
        """Yields the entries of these slots; `read` then has those that were read. Raises
        UnreadError, too."""
        refused: Refused = {}
        losses = {number: self.losses[number] for number in slots}

        def count_as_read(numbers: Iterable[int]) -> None:
            self.read.update(each for each in numbers if self.losses[each] == losses[each])

        occupied = await self.survey(redis, list(slots))
        count_as_read(losses.keys() - set(occupied))
        async for number, entries, is_whole in self._scan(redis, occupied, refused):
            for key, due_ms in entries:
                self.noted(key, due_ms)
            if is_whole:
                count_as_read([number])
            if entries:
                yield entries
        if refused:
            raise UnreadError(refused)

    async def scan(self, redis: Redis, db: int) -> AsyncIterator[list[bytes]]:
        """Yields all keys, page by page. Slots that Redis refuses are left out."""
        occupied = await self.survey(redis, list(self.owned))
        async for _, entries, _ in self._scan(redis, occupied, {}):
            yield [key for key, _ in entries]

    async def soon(self, redis: Redis, db: int, since_ms: int, most_ms: int) -> Soon:
        """Returns the same as in `ScheduleQueries`. Also finds schedules of which no announcement
        has told."""
        occupied = await self.survey(redis, list(self.owned))
        heads, refused = await self._heads(redis, occupied)
        near = [number for number, page in heads.items() if page and whole_ms(page[1]) < most_ms]
        entries: list[tuple[bytes, int]] = []
        until_ms = most_ms
        for at in range(0, len(near), _DUE_TOGETHER):
            some = near[at : at + _DUE_TOGETHER]
            pages, failed = await self._ask(redis, some, between(b"", since_ms, most_ms))
            refused |= failed
            for page in map(scored, pages.values()):
                entries += page
                if len(page) == PAGE:
                    until_ms = min(until_ms, page[-1][1])
        refused = {each: refusal for each, refusal in refused.items() if not is_elsewhere(refusal)}
        if refused:
            raise UnreadError(refused)
        return Soon(entries, until_ms)

    async def scores(self, redis: Redis, db: int, keys: Sequence[bytes]) -> list[int | None]:
        """Returns the same as in `ScheduleQueries`. A key that is elsewhere counts as not there."""
        return [
            whole_ms(reply) if isinstance(reply, bytes) else None  # or an error
            for reply in await self._scores(redis, keys)
        ]

    async def _scores(self, redis: Redis, keys: Sequence[bytes]) -> list[object]:
        names = ((key, self._keys.shared_by(key, self._keys.schedule)) for key in keys)
        return await run(redis, [(0, (b"ZSCORE", name, key)) for key, name in names])

    async def leaving(self, redis: Redis, slots: Iterable[int]) -> set[int]:
        """Returns the slots among these whose keys may be elsewhere already."""
        asked = list(slots)
        names = [self._keys.guard(b"{%b}" % self._keys.word(number)) for number in asked]
        replies = await run(redis, [(0, (b"EXISTS", name)) for name in names])
        return {number for number, reply in zip(asked, replies, strict=True) if error(reply)}

    async def sample(self, redis: Redis, db: int, most: int) -> list[bytes]:
        slots = sample(list(self._firsts), min(most, len(self._firsts)))
        each = most // max(len(slots), 1)
        names, refused = await self._ask(redis, slots, (b"ZRANDMEMBER", b"", each))
        for refusal in refused.values():
            raise refusal
        return [name for page in names.values() for name in page]

    async def lacking(self, redis: Redis, db: int, keys: Sequence[bytes]) -> list[bytes]:
        scores = map(valid, await self._scores(redis, keys))
        return [key for key, score in zip(keys, scores, strict=True) if score is None]

    async def _heads(self, redis: Redis, slots: Iterable[int]) -> tuple[dict[int, Any], Refused]:
        """Returns the first key of each slot and when it needs attention; empty if there is
        none."""
        asked = self.now_noted
        heads, refused = await self._ask(redis, slots, _HEAD)
        for number, page in heads.items():
            self.set_first(number, page[1] if page else b"", asked)
        return heads, refused

    def _place(self, which: int) -> tuple[int, bytes]:
        return 0, self._keys.shared_in(which, self._keys.schedule)
