"""Clients of a Cluster: pipelines over several slots, in both protocols, tasks, and items."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from random import Random
from typing import Any

from redis.exceptions import ResponseError

from tests.chaos.cluster.deliveries import Deliveries
from tests.chaos.cluster.pools import Pool
from tests.chaos.cluster.round import ClusterRound, Slot
from tests.chaos.history import Key
from tests.chaos.kinds import Kind, Words
from tests.chaos.system import machine_ms
from tests.chaos.writers import Actor, InDoubtError, Reader, Round, Writer

_BLOCK_S = "0.3"
# So many elements are written in one pipeline.
_MOST_TOGETHER = 8


class Pipeliner(Writer):
    """Writes elements of several keys in one pipeline, so at several masters."""

    def step(self) -> None:
        count = self._chance.randint(2, _MOST_TOGETHER)
        places = self._chance.sample(list(self._round.keys), count)
        chosen: list[tuple[Kind, Key, str]] = []
        for kind, at in places:
            key = self._round.keys[kind, at]
            chosen.append((kind, key, self._chosen(key)))
        begun_ms = machine_ms()
        steps = [self._steps(kind, key.name, name) for kind, key, name in chosen]
        how = f"{self.caller.name}, in a pipeline"
        try:
            replies = self._ask([step.words for each in steps for step in each])
        except InDoubtError:
            for (_, key, name), each in zip(chosen, steps, strict=True):
                self._lost(key, name, each, begun_ms, how)
            return
        for (_, key, name), each in zip(chosen, steps, strict=True):
            own, replies = replies[: len(each)], replies[len(each) :]
            self._written(key, name, each, own, begun_ms, how)
        if self._chance.random() < 0.2:
            kind, key, _ = self._chance.choice(chosen)
            self.look(kind, key)


class Pipeliner3(Pipeliner):
    """The same in RESP3."""

    protocol = 3


class Reader3(Reader):
    """The same in RESP3."""

    protocol = 3


class InSlots(Actor):
    """Does something in one of the slots."""

    def __init__(self, round_: Round, chance: Random, number: int) -> None:
        super().__init__(round_, chance, number)
        assert isinstance(round_, ClusterRound)
        self._slots = round_.slots

    def _slot(self) -> Slot:
        return self._chance.choice(self._slots)


class Tasks(InSlots):
    """Defers, cancels, and writes elements that rules hand on."""

    def step(self) -> None:
        slot, name, chance = self._slot(), self._name(), self._chance
        due_ms = self._round.due(chance)
        at = ("PXAT", due_ms)
        match chance.randrange(6):
            case 0:
                task = ("XADD", slot.stream, "*", "task", name)
                self._begin(slot.deferred, name, due_ms, [("DEFER", *at, "ID", name, *task)])
            case 1:
                begin = partial(self._begin, slot.streamed, name, due_ms)
                slot.streaming_keys.write(name, due_ms, chance, machine_ms(), begin)
            case 2:
                words = ("SADDEX", slot.pushing, *at, "MEMBERS", 1, name)
                self._begin(slot.pushed, name, due_ms, [words])
            case 3:
                self._cancel(slot.deferred, lambda name: ("UNDEFER", slot.stream, name))
            case 4:
                keys = slot.streaming_keys.of
                self._cancel(slot.streamed, lambda name: ("HDEL", keys[name], name))
            case _:
                self._cancel(slot.pushed, lambda name: ("SREM", slot.pushing, name))
        if chance.random() < 0.1:
            self._look(slot)

    def _look(self, slot: Slot) -> None:
        with suppress(InDoubtError):
            (reply,) = self._ask([("LRANGE", slot.pushed_to, -100, -1)])
            if not isinstance(reply, ResponseError):
                slot.pushed.see([task.decode() for task in reply], machine_ms())

    def _begin(
        self, tasks: Deliveries, name: str, due_ms: int, requests: Sequence[Words]
    ) -> list[Any] | None:
        """The replies; None if there are none."""
        replies = self._begin_task(tasks, name, due_ms, requests)
        if name in tasks.written:
            tasks.written_ms[name] = machine_ms()
        return replies

    def _cancel(self, tasks: Deliveries, words: Callable[[str], Words]) -> None:
        if not tasks.written:
            return
        name = self._chance.choice(sorted(tasks.written)[-20:])
        try:
            if self._ask([words(name)]) == [1]:
                tasks.cancelled.add(name)
                tasks.cancelled_ms[name] = machine_ms()
        except InDoubtError:
            tasks.doubted.add(name)


class Putter(InSlots):
    """Puts items into lists and sets, some of them with a deadline."""

    def step(self) -> None:
        slot, name, chance = self._slot(), self._name(), self._chance
        is_timed = chance.random() < 0.5
        due_ms = self._round.due(chance) if is_timed else math.inf
        at: Sequence[str | int] = ("PXAT", int(due_ms)) if is_timed else ()
        if chance.random() < 0.5:
            pool, key = slot.queue, slot.queue.key
            words: Words = ("RPUSH", key, name)
            if at:
                words = ("RPUSHEX", key, *at, "ELEMENTS", 1, name)
        else:
            pool, key = slot.bag, slot.bag.key
            words = ("SADDEX", key, *at, "MEMBERS", 1, name) if at else ("SADD", key, name)
        pool.due_ms[name] = due_ms
        with suppress(InDoubtError):
            (reply,) = self._ask([words])
            if not isinstance(reply, ResponseError):
                pool.put[name] = machine_ms()
        pool.put_until[name] = machine_ms()


class Taker(InSlots):
    """Takes items: blocks for one of a list, or takes one of a set at random."""

    def step(self) -> None:
        slot = self._slot()
        if self._chance.random() < 0.5:
            pool = slot.queue
            self._take(pool, ("BLPOP", pool.key, _BLOCK_S))
        else:
            pool = slot.bag
            self._take(pool, ("SPOP", pool.key))

    def _take(self, pool: Pool, words: Words) -> None:
        begun_ms = machine_ms()
        try:
            (reply,) = self._ask([words])
        except InDoubtError:
            pool.in_doubt.append((begun_ms, machine_ms()))
            return
        if reply is None or isinstance(reply, ResponseError):
            return
        item = (reply[1] if isinstance(reply, list) else reply).decode()
        pool.taken.setdefault(item, []).append((begun_ms, machine_ms()))


class Taker3(Taker):
    """The same in RESP3."""

    protocol = 3
