"""Carries what waits in the outboxes of one master to the masters of the destinations.

An outbox is in the slot of the keys whose elements it has, and is for one other slot. Its entries
are read, executed in the other slot, and removed: each step is a script. The other slot notes how
far it has come (scripts/outbox_apply.lua), so any step may be done twice, by any proxy.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Final, NamedTuple

from redis.asyncio import Redis
from redis.exceptions import RedisError, ResponseError

from ttlproxy.commands import Call
from ttlproxy.core.keys import slot
from ttlproxy.core.registry import DbKey
from ttlproxy.errors import UpstreamError
from ttlproxy.link.connecting.connections import client, close
from ttlproxy.link.connecting.failures import UnreachableError, is_elsewhere, passes, reason
from ttlproxy.link.connecting.pipeline import all_answered, error, valid
from ttlproxy.net.tasks import cancel, drop

if TYPE_CHECKING:
    from ttlproxy.link.life.link import Link

log = logging.getLogger(__name__)

# Outboxes that are carried in one round trip; and the most entries and bytes of each.
_TOGETHER: Final = 128
_ENTRIES: Final = 200
_BYTES: Final = 65_536
# Entries that were read longer ago are not carried out: another proxy may have carried them, and a
# day later that is forgotten.
_FRESH_MS: Final = 60_000
# A connection that carries nothing for this time is closed.
_IDLE_S: Final = 10.0
# One destination may hold up the outboxes of thousands of slots: these are tried again together.
# While a slot moves, they are tried sooner.
_RETRIED_MS: Final = 1000
_FOLLOWED_MS: Final = 100
_UNREACHABLE: Final = UnreachableError("the master of the destination cannot be reached")
# The key's length follows the name; the key begins where this ends.
_ENTRY_HEAD: Final = re.compile(rb"([0-9a-f]+ \d+) \d+:[A-Z]+(\d+):")


def identity(entry: bytes) -> bytes:
    """Returns `term number` of an entry, which no other has. Behind it is a row of netstrings: a
    command, its name and its key first (scripts/lib/outbox.lua). ValueError if it is no entry."""
    return _head(entry)[1]


def destination(entry: bytes) -> bytes:
    """Returns the key that the command of an entry writes to. ValueError if it is no entry."""
    head = _head(entry)
    return entry[head.end() : head.end() + int(head[2])]


def _head(entry: bytes) -> re.Match[bytes]:
    if head := _ENTRY_HEAD.match(entry):
        return head
    raise ValueError("not an entry of an outbox")


class _Entries(NamedTuple):
    """Some entries of one outbox."""

    place: DbKey
    entries: list[bytes]

    def applied(self, until_ms: int) -> Call:
        """Returns the call that carries the entries out. Raises ValueError if one cannot be
        read."""
        source = b"%d" % slot(self.place[1])
        dests = list(dict.fromkeys(map(destination, self.entries)))
        return Call("outbox_apply", dests, (source, b"%d" % until_ms, *self.entries))

    def removed(self, count: int) -> Call:
        """Returns the call that removes the first `count` entries."""
        ids = [identity(entry) for entry in self.entries[:count]]
        return Call("outbox_drop", (self.place[1],), ids or [b""])


class _Route:
    """The outboxes that wait for one master; while there are any, a task carries them."""

    def __init__(self) -> None:
        self.queue: deque[DbKey] = deque()
        self.woken = asyncio.Event()
        self.task: asyncio.Task[None] | None = None

    async def has_some(self) -> bool:
        """Waits for something to carry; returns whether something has come in time."""
        if not self.queue:
            self.woken.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(_IDLE_S):
                    await self.woken.wait()
        return bool(self.queue)


class Outboxes:
    """One master's outboxes, which its reaper hands over."""

    def __init__(self, link: Link, owner: Callable[[int], Link | None]) -> None:
        """`owner(slot)` returns the link of the master that has the slot; None if none is
        served."""
        self._link = link
        self._context = link.context
        self._keys = link.context.keys
        self._counters = link.context.counters
        self._owner = owner
        self._routes: dict[Link, _Route] = {}
        self._held: set[DbKey] = set()
        self._left: dict[DbKey, int] = {}  # entries that wait, as far as known

    def __len__(self) -> int:
        """The number of outboxes that are being carried."""
        return len(self._held)

    def holds(self, place: DbKey) -> bool:
        """Whether it is an outbox that is being carried."""
        return place in self._held

    def carry(self, places: list[DbKey]) -> list[DbKey]:
        """Begins to carry those places that are outboxes; returns the others."""
        if not self._keys.clustered:
            return places
        others: list[DbKey] = []
        for place in places:
            number = self._keys.destination(place[1])
            if number is None:
                others.append(place)
            else:
                self._put(place, number)
        return others

    def leave(self) -> None:
        """Forgets how much waits: another proxy carries from now on."""
        for place in list(self._left):
            self._count(place, 0)

    async def stop(self) -> None:
        """Ends what is being carried. Nothing is lost by that."""
        await cancel(*(route.task for route in self._routes.values() if route.task))
        self.leave()

    def _put(self, place: DbKey, number: int) -> None:
        target = self._owner(number)
        if target is None or not target.serving.now:
            self._park(place, _UNREACHABLE)
            return
        self._held.add(place)
        route = self._routes.setdefault(target, _Route())
        route.queue.append(place)
        route.woken.set()
        if route.task is None:
            name = f"outboxes for {target.shown}"
            route.task = asyncio.create_task(self._serve(target, route), name=name)
            route.task.add_done_callback(drop)

    async def _serve(self, target: Link, route: _Route) -> None:
        """Carries all that comes; ends after some time without anything, or with an error."""
        source, dest = self._connection(self._link), self._connection(target)
        places: list[DbKey] = []
        try:
            while await route.has_some():
                queue = route.queue
                places = [queue.popleft() for _ in range(min(len(queue), _TOGETHER))]
                queue.extend(await self._carry_out(places, source, target, dest))
                places = []
        except (RedisError, OSError, UpstreamError) as trouble:
            log.debug("nothing is carried to %s: %s", target.shown, trouble)
            for place in self._held.intersection((*places, *route.queue)):
                self._park(place, _UNREACHABLE)
        finally:
            self._held.difference_update(places, route.queue)
            del self._routes[target]
            await close(source, dest)

    def _connection(self, link: Link) -> Redis:
        timeout_s = self._context.settings.connect_timeout
        return client(link.upstream, "ttlproxy:outboxes", timeout_s)

    async def _carry_out(
        self, places: list[DbKey], source: Redis, target: Link, dest: Redis
    ) -> list[DbKey]:
        """Carries some entries of each outbox; returns those with more. Raises redis-py's
        RedisError."""
        until_ms = target.context.clock.now_ms() + _FRESH_MS  # from the time before they are read
        troubles: dict[DbKey, ResponseError] = {}
        loads = await self._read(source, places, troubles)
        done = await self._apply(dest, target, loads, until_ms, troubles)
        more = await self._remove(source, done, troubles)
        for place, refusal in troubles.items():
            number = self._keys.destination(place[1])
            self._context.refusals.note(f"to hand on elements to slot {number}", refusal)
            self._park(place, refusal)
        return [place for place in more if place not in troubles]

    async def _read(
        self, source: Redis, places: list[DbKey], troubles: dict[DbKey, ResponseError]
    ) -> list[_Entries]:
        words = (b"%d" % _ENTRIES, b"%d" % _BYTES)
        calls = [Call("outbox_read", (key,), words) for _, key in places]
        loads: list[_Entries] = []
        for place, reply in zip(places, await self._answers(source, calls), strict=True):
            if refusal := error(reply):
                troubles[place] = refusal
                self._count(place, 0)
            else:
                left, *entries = valid(reply)
                self._count(place, left)
                loads.append(_Entries(place, entries))
        return loads

    async def _apply(
        self,
        dest: Redis,
        target: Link,
        loads: list[_Entries],
        until_ms: int,
        troubles: dict[DbKey, ResponseError],
    ) -> list[tuple[_Entries, int]]:
        """Carries entries out; returns how many of each outbox may be removed."""
        calls: list[tuple[_Entries, Call]] = []
        done = [(load, 0) for load in loads if not load.entries]  # another proxy has removed them
        for load in loads:
            try:
                if load.entries:
                    calls.append((load, load.applied(until_ms)))
            except ValueError as trouble:
                troubles[load.place] = ResponseError(str(trouble))
        clock = target.context.clock
        sent = clock.reading()
        replies = await all_answered(dest, target.context.script_calls, [call for _, call in calls])
        for (load, _), reply in zip(calls, replies, strict=True):
            if refusal := error(reply):
                troubles[load.place] = refusal
                continue
            now_ms, count, fresh, *more = valid(reply)
            clock.adjust(now_ms, sent)
            self._counters.carried_entries += fresh
            done += [(load, count)] if count else []
            if more:
                troubles[load.place] = more[0]
        return done

    async def _remove(
        self, source: Redis, done: list[tuple[_Entries, int]], troubles: dict[DbKey, ResponseError]
    ) -> list[DbKey]:
        """Removes the entries that were executed; returns the outboxes that have more."""
        registry, more = self._context.registry, list[DbKey]()
        with registry.reaping([load.place for load, _ in done]):
            replies = await self._answers(source, [load.removed(count) for load, count in done])
            for (load, _), reply in zip(done, replies, strict=True):
                if refusal := error(reply):
                    troubles[load.place] = refusal
                    continue
                left = valid(reply)
                self._count(load.place, left)
                if left:
                    more.append(load.place)
                else:
                    registry.set_first_deadline(load.place, None)
                    # There may be more by now, which the reaper kept meanwhile.
                    self._held.discard(load.place)
                    self._context.agenda.look_at(self._context.clock.now_ms())
        return more

    async def _answers(self, source: Redis, calls: list[Call]) -> list[object]:
        return await all_answered(source, self._context.script_calls, calls)

    def _park(self, place: DbKey, refusal: ResponseError) -> None:
        """Leaves an outbox alone for a while; others go on."""
        agenda, now_ms = self._context.agenda, self._context.clock.now_ms()
        together_ms = _FOLLOWED_MS if is_elsewhere(refusal) else _RETRIED_MS
        why, said = reason(refusal), str(refusal)
        agenda.parked.park(place, now_ms, why, passes(refusal), together_ms, said)
        self._held.discard(place)
        agenda.look_at(agenda.parked.first_ms(now_ms))

    def _count(self, place: DbKey, left: int) -> None:
        self._counters.waiting_entries += left - self._left.pop(place, 0)
        if left:
            self._left[place] = left
