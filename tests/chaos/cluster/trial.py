"""Rounds of trouble in front of a Cluster, and a check of everything after each."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from random import Random
from typing import Final

from tests.chaos.accounts import Account, rounds, unclean
from tests.chaos.cluster.clients import Pipeliner, Pipeliner3, Putter, Reader3, Taker, Taker3, Tasks
from tests.chaos.cluster.listeners import Listener, ShardListener, ShardListener3
from tests.chaos.cluster.round import RULES, ClusterRound, Slot
from tests.chaos.cluster.system import ClusterSystem
from tests.chaos.cluster.troubles import Troubles
from tests.chaos.judging import deferred, disturb, fired, judged
from tests.chaos.system import machine_ms
from tests.chaos.trial import ROUND_S
from tests.chaos.writers import Expirer, Reader, Writer, through
from ttlproxy.core.keys import Keys

_CLIENTS: Final = (
    *(Writer, Writer, Pipeliner, Pipeliner3, Expirer, Reader, Reader3),
    *(Tasks, Tasks, Putter, Taker, Taker3, Listener),
)
_SHARD_LISTENERS: Final = (ShardListener, ShardListener3)
_KEYS: Final = Keys(clustered=True)


def trial(
    system: ClusterSystem, seconds: float, seed: int, only: Sequence[str], round_s: float = ROUND_S
) -> Account:
    """Runs rounds until the time is over, on a running `system`. `only`: names of troubles."""
    for pattern, *action in RULES:
        assert through(system, "ONEXPIRE", pattern, *action) == b"OK"
    clients = (*_CLIENTS, *_SHARD_LISTENERS) if system.has_shard_channels else _CLIENTS

    def run(number: int, length_s: float) -> Account:
        troubles = Troubles(system, Random(f"{seed}:{number}"), only)
        round_ = ClusterRound(system, number, seed)
        round_.kinds_of_clients = clients
        faults = _round(system, round_, troubles, length_s)
        return Account(round_.counts + troubles.counts, faults)

    account = rounds(system.log, seconds, round_s, run)
    return Account(account.counts, [*account.faults, *_at_the_end(system)])


def _round(
    system: ClusterSystem, round_: ClusterRound, troubles: Troubles, seconds: float
) -> list[str]:
    """Runs one round; returns its faults."""
    disturb(round_, troubles, seconds)
    # Until the servers' clock is past the last deadline.
    left_ms = max(round_.last_due_ms, machine_ms()) - machine_ms()
    threading.Event().wait(left_ms / 1000 + 0.01)
    faults = [*judged(system, round_, lambda: _left(system, round_)), *round_.unexcused()]
    own = [key.name for key in round_.keys.values()]
    for name in [*own, *(name for each in round_.slots for name in each.keys)]:
        through(system, "DEL", name)
    return faults


def _left(system: ClusterSystem, round_: ClusterRound) -> Iterator[str]:
    for each in round_.slots:
        yield from (f"{name} {fault}" for name, fault in _left_in(system, each))


def _left_in(system: ClusterSystem, each: Slot) -> Iterator[tuple[str, str]]:
    """Faults in what was delivered, and in what is left of items: the key, and the fault."""
    excuses, ask = system.excuses_of(each.stream), system.at_redis
    came = [(task, int(at.split(b"-")[0]) + 1) for task, at in deferred(system, each.stream)]
    for fault in each.deferred.faults_but(excuses, came):
        yield each.stream, fault
    each.streamed.doubted |= each.streaming_keys.lost(excuses)
    for fault in each.streamed.faults_but(excuses, fired(system, each.streamed_to)):
        key = each.streaming_keys.of.get(fault.split()[0], each.streaming)
        index = _KEYS.index(key.encode()).decode()
        of_index = ask(key, "ZRANGE", index, 0, -1, "WITHSCORES"), ask(key, "PTTL", index)
        left = ask(key, "HGETALL", key), ask(key, "PTTL", key), *of_index
        yield each.streamed_to, f"{each.streaming_keys.described(fault)}; {left} is left"
    pushed = [task.decode() for task in ask(each.pushed_to, "LRANGE", each.pushed_to, 0, -1)]
    for fault in each.pushed.faults_but(excuses, each.pushed.seen(pushed)):
        yield each.pushed_to, fault
    for pool, look in (
        (each.queue, ("LRANGE", each.queue.key, 0, -1)),
        (each.bag, ("SMEMBERS", each.bag.key)),
    ):
        at_ms = machine_ms()
        items = [item.decode() for item in ask(pool.key, *look)]
        for fault in pool.faults(items, at_ms, excuses):
            yield pool.key, fault


def _at_the_end(system: ClusterSystem) -> Iterator[str]:
    """Nothing may be left, since rounds remove their keys; the doctor and the logs are clean."""
    try:
        yield from _left_at_the_end(system)
    except TimeoutError as late:
        yield f"nobody is served at the end: {late}"
    yield from unclean(system.nodes[0].url, system.proxies)


def _left_at_the_end(system: ClusterSystem) -> Iterator[str]:
    for pattern, *_ in RULES:
        through(system, "ONEXPIRE", pattern, "DEL")
    if keys := through(system, "DBSIZE"):
        yield f"{keys} keys are left: {through(system, 'KEYS', '*')[:20]}"
    for number in system.slots:
        schedule = _KEYS.shared_in(number, _KEYS.schedule)
        if entries := system.at_owner(number, "ZCARD", schedule):
            yield f"{entries} entries are left in the schedule of slot {number}"
