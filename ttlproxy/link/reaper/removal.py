"""Removes elements that are due, and index entries whose element is gone.

A call of the reap script names keys, and its answer says what it has removed and what it has left.
A sweep drops entries one page of an index at a time, and tells the registry which keys have no
index any more.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from contextlib import nullcontext
from itertools import compress
from secrets import token_hex
from typing import NamedTuple

from redis.asyncio import Redis
from redis.exceptions import NoScriptError, ResponseError

from ttlproxy.commands import Call
from ttlproxy.core.expiry_actions import NO_DELIVERY, Actions, Delivery, delivery
from ttlproxy.core.keys import slot
from ttlproxy.core.registry import DbKey
from ttlproxy.link.connecting.failures import is_elsewhere
from ttlproxy.link.connecting.pipeline import KEYS_PER_CALL, answered, error, run, valid
from ttlproxy.link.shared.context import Context

# After this part of its budget a call begins no further key, which may be a large one.
_LAST_KEY = 0.4
_NO_PADS = (b"", b"")
# The faults that an index may have (reap.lua).
_STALE_ENTRIES, _LOST = 1, 2


class Undelivered(ResponseError):  # noqa: N818 - the name says it
    """A rule's action cannot be done now: due elements stay where they are, until it can be."""


class ReapOutcome(NamedTuple):
    """The result of a reap.

    more: where more may be due; stale_entries: where the index has entries without an element;
    refused: where Redis has answered an error; unreached: where the call had no time, in the order
    asked for
    calls_ms: how long each call took Redis, or all that were sent together
    removed: how many elements of each key
    """

    more: set[DbKey]
    stale_entries: set[DbKey]
    refused: dict[DbKey, ResponseError]
    unreached: list[DbKey]
    calls_ms: list[float]
    removed: list[int]


class _Batch(NamedTuple):
    """One call of the script: for at most `limit` elements of each key.

    rules, version: those that it is prepared by; actions: of each key, empty if there are no rules
    """

    db: int
    keys: tuple[bytes, ...]
    limit: int
    rules: Actions
    version: bytes
    actions: tuple[Delivery | None, ...]
    call: Call

    @property
    def places(self) -> list[DbKey]:
        return [(self.db, key) for key in self.keys]


class ReapScript:
    """Calls the reap script for several keys at once, and records its answers."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._keys = context.keys
        self._script_calls = context.script_calls
        self._actions = context.actions
        self._refusals = context.refusals
        self._counters = context.counters

    async def __call__(
        self, redis: Redis, limits: dict[DbKey, int], turn: asyncio.Lock | None = None
    ) -> ReapOutcome:
        """Removes due elements, at most `limits[place]` at each place, but more of a long list.

        `turn`: shared by tasks that reap on one connection. While Redis works for one of them, the
        others prepare their next call, or record an answer.
        """
        outcome = ReapOutcome(set(), set(), {}, [], [], [])
        with self._context.registry.reaping(limits):
            async with turn or nullcontext():
                known = await self._with_rules(redis, limits, outcome)
            # If one key of a call is refused, the whole call is: then each key is tried alone.
            alone = await self._ask(redis, known, KEYS_PER_CALL, outcome, turn)
            if alone:
                await self._ask(redis, alone, 1, outcome, turn)
            return outcome

    async def _with_rules(
        self, redis: Redis, limits: dict[DbKey, int], outcome: ReapOutcome
    ) -> dict[DbKey, int]:
        """Reads rules that are not known; returns the places whose rules are known then."""
        refused: dict[int, ResponseError] = {}
        if not self._script_calls.has_state:  # another proxy may have signed what is due
            await self._context.look_at_state(redis)
        for db in {db for db, _ in limits}:
            try:
                await self._context.learn_rules(redis, db)
            except ResponseError as refusal:
                refused[db] = refusal
        for place in limits:
            if place[0] in refused:
                self._refuse(place, refused[place[0]], outcome)
        return {place: limit for place, limit in limits.items() if place[0] not in refused}

    async def _ask(
        self,
        redis: Redis,
        limits: dict[DbKey, int],
        together: int,
        outcome: ReapOutcome,
        turn: asyncio.Lock | None,
    ) -> dict[DbKey, int]:
        """Calls for `together` keys at a time; returns the keys of calls that were refused as a
        whole.

        Sends one call after the other: between requests that come together Redis serves no other
        client. In front of a Cluster, where a call is for one slot, all share the time of one, and
        are sent together.
        """
        alone: dict[DbKey, int] = {}
        batches = self._batches(limits, together)
        bundles = [list(batches)] if self._keys.clustered else ([batch] for batch in batches)
        for bundle in bundles:
            words = [self._script_calls.words(batch.call, b"%d" % batch.db) for batch in bundle]
            requests = [(batch.db, each) for batch, each in zip(bundle, words, strict=True)]
            async with turn or nullcontext():
                if self._are_outdated(bundle):
                    outcome.more.update(place for batch in bundle for place in batch.places)
                    continue
                sent = self._context.clock.reading()
                noted = self._context.slot_schedules.now_noted
                replies = await run(redis, requests)
            if turn:  # lets the next task send its calls before these answers are recorded
                await asyncio.sleep(0)
            answers = [reply for reply in replies if isinstance(reply, list)]
            if answers:
                self._context.clock.adjust(answers[0][0], sent)
            took = len(outcome.calls_ms)
            for batch, reply in zip(bundle, replies, strict=True):
                if error(reply) and len(batch.keys) > 1:
                    alone.update(dict.fromkeys(batch.places, batch.limit))
                else:
                    self._learn(batch, reply, noted, outcome)
            outcome.calls_ms[took:] = [sum(outcome.calls_ms[took:])]
        return alone

    def _are_outdated(self, bundle: Iterable[_Batch]) -> bool:
        """Whether rules have changed since the calls were prepared: a slot of a Cluster that no
        longer knows a version would take that of the call."""
        of, version = self._actions.of, self._actions.version
        known = {db: (of(db), version(db)) for db in {batch.db for batch in bundle}}
        return any(known[each.db] != (each.rules, each.version) for each in bundle)

    def _learn(self, batch: _Batch, reply: object, noted: int, outcome: ReapOutcome) -> None:
        """Records the answers of one call. `noted`: SlotSchedules.now_noted when it was sent."""
        if isinstance(reply, NoScriptError):
            self._script_calls.flushed()
            outcome.more.update(batch.places)
            return
        if reply is None:
            self._actions.refused(batch.db)
            outcome.more.update(batch.places)
            return
        if refusal := error(reply):
            for place in batch.places:
                self._refuse(place, refusal, outcome)
            return
        now_ms, took_us, attention, *answers = valid(reply)
        if self._keys.clustered and not error(attention):
            slots = self._context.slot_schedules
            slots.set_first(slot(batch.keys[0]), attention, noted)
        self._actions.accepted(batch.db)
        self._counters.reap_call_ms.observe(took_us / 1000)
        outcome.calls_ms.append(took_us / 1000)
        places = batch.places
        outcome.unreached.extend(places[len(answers) :])
        for number, (place, answer) in enumerate(zip(places, answers, strict=False)):
            if refusal := error(answer):
                self._refuse(place, Undelivered(str(refusal)), outcome)
                continue
            removed, first_ms, fault, kind, late_ms, fired, dead_lettered, unsigned = answer
            self._context.registry.set_first_deadline(place, first_ms if first_ms >= 0 else None)
            outcome.removed.append(removed)
            self._counters.count_reaped(kind.decode(), removed, late_ms)
            self._context.node_counts.count_reaped(removed, late_ms)
            if fired:
                action = batch.actions[number]
                assert action
                self._counters.count_fired(action.verb.decode(), fired, dead_lettered)
            if unsigned:
                self._refusals.unsigned("deferred", place[0], unsigned)
            if 0 <= first_ms < now_ms:
                outcome.more.add(place)
            elif fault == _STALE_ENTRIES:
                outcome.stale_entries.add(place)
            elif fault == _LOST:
                self._counters.lost_indexes += 1

    def _refuse(self, place: DbKey, refusal: ResponseError, outcome: ReapOutcome) -> None:
        self._refusals.note(f"to reap in database {place[0]}", refusal)
        outcome.refused[place] = refusal

    def _action(self, rules: Actions, key: bytes) -> Delivery | None:
        """Returns the action on the key's elements; None if no rule applies."""
        action = rules.of(key)
        return action and delivery(action, key, self._keys)

    def _batches(self, limits: dict[DbKey, int], together: int) -> Iterator[_Batch]:
        """Yields the calls for these places, each for at most `together` keys."""
        alike: dict[tuple[int, int, int], list[bytes]] = {}
        group = self._keys.together
        for (db, key), limit in limits.items():
            alike.setdefault((db, limit, group(db, key)), []).append(key)
        budget = b"%d" % round(self._context.settings.reap_budget_ms * 1000 * _LAST_KEY)
        for (db, limit, _), found in alike.items():
            rules, version = self._actions.of(db), self._actions.version(db)
            head = (b"%d" % limit, budget, version)
            for at in range(0, len(found), together):
                keys = tuple(found[at : at + together])
                actions = tuple(self._action(rules, key) for key in keys) if rules else ()
                call = self._call(keys, head, actions)
                yield _Batch(db, keys, limit, rules, version, actions, call)

    def _call(
        self, keys: tuple[bytes, ...], head: tuple[bytes, ...], actions: tuple[Delivery | None, ...]
    ) -> Call:
        """Returns the call; `head`: its first arguments, the same for all keys."""
        count, prefix = b"%d" % len(keys), self._keys.prefix
        internal = [key for key in keys if key.startswith(prefix)]
        others = [key for key in map(self._keys.deferring, internal) if key is not None]
        if not (others or any(actions)):
            return Call("reap", keys, (*head, *_NO_PADS, b"", count))
        found = [action or NO_DELIVERY for action in actions] if any(actions) else []
        dests = dict.fromkeys(others)
        dests |= dict.fromkeys(key for action in found for key in action.keys)
        pads = self._script_calls.signer.pads if others else _NO_PADS
        has_box = any(action.has_box for action in found)
        nonce = token_hex(8).encode() if has_box else b""
        words = (word for action in found for word in action)
        return Call("reap", (*keys, *dests), (*head, *pads, nonce, count, *words))


_PAGE = b"500"


class SweepScript:
    """Calls the sweep script until it has gone through a whole index."""

    def __init__(self, context: Context) -> None:
        self._context = context

    async def __call__(self, redis: Redis, place: DbKey) -> ResponseError | None:
        """Sweeps one index; returns Redis's error if it refuses, else None."""
        cursor = b"0"
        while True:
            try:
                cursor, dropped = await self._page(redis, place, cursor)
            except ResponseError as refusal:
                self._context.refusals.note(f"to sweep in database {place[0]}", refusal)
                return refusal
            self._context.counters.swept_entries += dropped
            if cursor == b"0":
                return None

    async def with_index(self, redis: Redis, places: Iterable[DbKey]) -> list[DbKey]:
        """Returns the places that have, or may have, an index; there is nothing to sweep at the
        others."""
        keys: dict[tuple[int, int], list[bytes]] = {}
        for db, key in places:
            keys.setdefault((db, self._context.keys.together(db, key)), []).append(key)
        found: list[DbKey] = []
        for (db, _), all_keys in keys.items():
            for at in range(0, len(all_keys), KEYS_PER_CALL):
                found += await self._look(redis, db, all_keys[at : at + KEYS_PER_CALL])
        return found

    async def _look(self, redis: Redis, db: int, keys: Sequence[bytes]) -> list[DbKey]:
        try:
            firsts = await self._firsts(redis, db, Call("keys_first", keys, ()))
        except ResponseError as refusal:
            if is_elsewhere(refusal):
                places = [(db, key) for key in keys]
                found = await self._context.may_be_indexed(redis, places)
                return list(compress(places, found))
            return [(db, key) for key in keys]  # the sweep will be refused, too, and reports it
        return [place for place, first_ms in firsts.items() if first_ms != -1]

    async def must_be_swept(
        self, redis: Redis, db: int, keys: Sequence[bytes], turn: int
    ) -> list[DbKey]:
        """Returns the places whose index must be swept: see keys_recheck.lua.

        The registry learns the first deadlines of the others. Raises redis-py's RedisError.
        """
        firsts = await self._firsts(redis, db, Call("keys_recheck", keys, (b"%d" % turn,)))
        return [place for place, first_ms in firsts.items() if first_ms is None]

    async def _firsts(self, redis: Redis, db: int, call: Call) -> dict[DbKey, int | None]:
        """Returns the first deadline of each key, as the script tells it: see `_learn`."""
        places = [(db, key) for key in call.keys]
        with self._context.registry.reaping(places):
            reply = valid(await answered(redis, self._context.script_calls, db, call))
            firsts = dict(zip(places, reply, strict=True))
            for place, first_ms in firsts.items():
                self._learn(place, first_ms)
        return firsts

    async def _page(self, redis: Redis, place: DbKey, cursor: bytes) -> tuple[bytes, int]:
        """Sweeps a page; returns the next cursor, and how many entries were dropped."""
        db, key = place
        call = Call("sweep", (key,), (cursor, _PAGE))
        with self._context.registry.reaping([place]):
            reply = await answered(redis, self._context.script_calls, db, call)
            following, dropped, first_ms = valid(reply)
            self._learn(place, first_ms)
        return following, dropped

    def _learn(self, place: DbKey, first_ms: int | None) -> None:
        """Tells the registry the first deadline that is left, in ms: -1 without an index, None if
        it was not told."""
        if first_ms is not None:
            self._context.registry.set_first_deadline(place, first_ms if first_ms >= 0 else None)
