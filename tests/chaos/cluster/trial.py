"""Rounds of trouble in front of a Cluster, and a check of everything after each."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from random import Random
from typing import Any, Final

from tests.chaos.cluster.clients import Pipeliner, Pipeliner3, Putter, Reader3, Taker, Taker3, Tasks
from tests.chaos.cluster.listeners import Listener, ShardListener, ShardListener3
from tests.chaos.cluster.round import RULES, ClusterRound, Slot
from tests.chaos.cluster.system import ClusterSystem
from tests.chaos.cluster.troubles import Troubles
from tests.chaos.history import Key, Read, ServersClock
from tests.chaos.kinds import Kind
from tests.chaos.run import Account
from tests.chaos.system import machine_ms
from tests.chaos.writers import Expirer, Reader, Writer, through
from tests.support.doctor import examine
from tests.support.processes import attempts
from tests.support.redis_client import Word
from ttlproxy.core.keys import Keys, slot

ROUND_S: Final = 20.0
# The bound: within this time after the last trouble all that is due is gone and delivered.
LATE_S: Final = 20.0
_JOIN_S: Final = 90.0
# The doctor's findings about the setup of these servers.
_SETUP: Final = {"clock", "persistence", "replicas", "cluster"}
# Words that no log of a proxy may contain.
_UNEXPECTED: Final = ("Traceback", " (at ", "never retrieved", "CRITICAL")
_CLOCK: Final = ServersClock()
_CLIENTS: Final = (
    *(Writer, Writer, Pipeliner, Pipeliner3, Expirer, Reader, Reader3),
    *(Tasks, Tasks, Putter, Taker, Taker3, Listener),
)
_SHARD_LISTENERS: Final = (ShardListener, ShardListener3)


def trial(
    system: ClusterSystem, seconds: float, seed: int, only: Sequence[str], round_s: float = ROUND_S
) -> Account:
    """Runs rounds until the time is over, on a running `system`. `only`: names of troubles."""
    counts: Counter[str] = Counter()
    faults: list[str] = []
    for pattern, *action in RULES:
        assert through(system, "ONEXPIRE", pattern, *action) == b"OK"
    clients = (*_CLIENTS, *_SHARD_LISTENERS) if system.has_shard_channels else _CLIENTS
    until_s = time.monotonic() + seconds
    while not counts["rounds"] or time.monotonic() < until_s:
        length_s = max(1.0, min(round_s, until_s - time.monotonic()))
        troubles = Troubles(system, Random(f"{seed}:{counts['rounds']}"), only)
        round_ = ClusterRound(system, counts["rounds"], seed)
        round_.kinds_of_clients = clients
        try:
            found = _round(system, round_, troubles, length_s)
        except TimeoutError as late:
            faults.append(f"nobody is served: {late}")
            break
        counts.update(round_.counts)
        counts["troubles"] += troubles.made
        counts["keys evicted"] += troubles.evicted
        counts["incidents"] += len(round_.incidents)
        for fault in found:
            system.log("fault", text=fault)
        faults += found
        counts["rounds"] += 1
        system.log("round over", counts=counts, faults=len(faults))
    faults += _at_the_end(system)
    return Account(counts, faults)


def _round(
    system: ClusterSystem, round_: ClusterRound, troubles: Troubles, seconds: float
) -> list[str]:
    """Runs one round; returns its faults."""
    _disturb(round_, troubles, seconds)
    _until(max(round_.last_due_ms, machine_ms()))
    faults = [*_faults(system, round_), *round_.unexcused()]
    own = [key.name for key in round_.keys.values()]
    for name in [*own, *(name for each in round_.slots for name in each.keys)]:
        through(system, "DEL", name)
    return faults


def _disturb(round_: ClusterRound, troubles: Troubles, seconds: float) -> None:
    """Clients and troubles for so many seconds."""
    clients = round_.clients()
    over = threading.Timer(seconds, round_.stop.set)
    for thread in (*clients, over):
        thread.start()
    try:
        troubles.run(round_.stop)
    finally:
        over.cancel()
        round_.stop.set()
        for client in clients:
            client.join(_JOIN_S)
    if round_.failures or any(client.is_alive() for client in clients):
        raise RuntimeError(f"a client has failed, or hangs: {round_.failures}")


def _until(due_ms: float) -> None:
    """Returns when the servers' clock is past `due_ms`."""
    threading.Event().wait((due_ms - machine_ms()) / 1000 + 0.01)


def _faults(system: ClusterSystem, round_: ClusterRound) -> Iterator[str]:
    """What clients were shown wrongly, and what is still wrong in Redis after LATE_S."""
    try:
        for _ in attempts(LATE_S, "all that is due gone and delivered"):
            if not any(_left(system, round_)):
                break
    except TimeoutError:  # the last look may have begun before
        yield from (f"{LATE_S:.0f} s after all trouble: {it}" for it in _left(system, round_))
    for (kind, _), key in round_.keys.items():
        begun_ms = machine_ms()
        shown = kind.shown(through(system, *kind.look(key.name)))
        key.reads.append(Read(begun_ms, machine_ms(), shown, "who looks last"))
        yield from map(str, key.faults(_CLOCK, system.excuses(slot(key.name.encode()))))


def _left(system: ClusterSystem, round_: ClusterRound) -> Iterator[str]:
    """What Redis itself holds but should not, and what it lacks."""
    for (kind, _), key in round_.keys.items():
        yield from _left_of(system, kind, key)
    for each in round_.slots:
        yield from (f"{name} {fault}" for name, fault in _left_in(system, each))


def _left_of(system: ClusterSystem, kind: Kind, key: Key) -> Iterator[str]:
    number, begun_ms = slot(key.name.encode()), machine_ms()
    shown = kind.shown(system.at_owner(number, *kind.look(key.name)))
    look = Read(begun_ms, machine_ms(), shown, "Redis")
    excuses = system.excuses(number)
    excuses.lagging.clear()
    excuses.late.clear()
    yield from map(str, replace(key, reads=[look]).faults(_CLOCK, excuses))


def _left_in(system: ClusterSystem, each: Slot) -> Iterator[tuple[str, str]]:
    """Faults in what was delivered, and in what is left of items: the key, and the fault."""
    excuses = system.excuses(each.number)

    def ask(*words: Word) -> Any:
        return system.at_owner(each.number, *words)

    deferred = [
        (words[1].decode(), int(entry.split(b"-")[0]) + 1)
        for entry, words in ask("XRANGE", each.stream, "-", "+")
    ]
    for fault in each.deferred.faults_but(excuses, deferred):
        yield each.stream, fault
    entries = [
        dict(zip(words[::2], words[1::2], strict=True))
        for _, words in ask("XRANGE", each.streamed_to, "-", "+")
    ]
    streamed = [(entry[b"element"].decode(), int(entry[b"fired"])) for entry in entries]
    each.streamed.doubted |= each.streaming_keys.lost(excuses)
    for fault in each.streamed.faults_but(excuses, streamed):
        key = each.streaming_keys.of.get(fault.split()[0], each.streaming).encode()
        index = ("ZRANGE", Keys(clustered=True).index(key), 0, -1, "WITHSCORES")
        left = ask("HGETALL", key), ask("PTTL", key), ask(*index), ask("PTTL", index[1])
        yield each.streamed_to, f"{each.streaming_keys.described(fault)}; {left} is left"
    tasks = [task.decode() for task in ask("LRANGE", each.pushed_to, 0, -1)]
    for fault in each.pushed.faults_but(excuses, each.pushed.seen(tasks)):
        yield each.pushed_to, fault
    for pool, look in (
        (each.queue, ("LRANGE", each.queue.key, 0, -1)),
        (each.bag, ("SMEMBERS", each.bag.key)),
    ):
        at_ms = machine_ms()
        for fault in pool.faults([item.decode() for item in ask(*look)], at_ms, excuses):
            yield pool.key, fault


def _at_the_end(system: ClusterSystem) -> Iterator[str]:
    """Nothing may be left, since rounds remove their keys; the doctor and the logs are clean."""
    for pattern, *_ in RULES:
        through(system, "ONEXPIRE", pattern, "DEL")
    if keys := through(system, "DBSIZE"):
        yield f"{keys} keys are left: {through(system, 'KEYS', '*')[:20]}"
    names = Keys(clustered=True)
    for number in system.slots:
        schedule = names.shared_in(number, names.schedule)
        if entries := system.at_owner(number, "ZCARD", schedule):
            yield f"{entries} entries are left in the schedule of slot {number}"
    for finding in examine(system.nodes[0].url):
        if finding.severity > 1 and finding.check not in _SETUP:
            yield f"doctor: {finding.check}: {finding.what}"
    for number, proxy in enumerate(system.proxies):
        lines = proxy.stderr.splitlines()
        for at, line in enumerate(lines):
            if any(unexpected in line for unexpected in _UNEXPECTED):
                yield "\n    ".join([f"proxy {number} logged:", *lines[max(0, at - 1) : at + 20]])
