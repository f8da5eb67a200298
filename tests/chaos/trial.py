"""Rounds of trouble, and a check of everything after each: what must hold whatever happened."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from random import Random
from typing import Any, Protocol

from tests.chaos.history import Excuses, Read, ServersClock
from tests.chaos.run import Account
from tests.chaos.system import System, machine_ms
from tests.chaos.troubles import SEEN_MS, Troubles
from tests.chaos.writers import Round, Served, through
from tests.support.doctor import examine
from tests.support.processes import attempts
from tests.support.redis_client import Word
from tests.support.servers import Server
from ttlproxy.core.keys import Keys

ROUND_S = 20.0
# The bound: within this time after the last trouble all that is due is gone and delivered.
LATE_S = 20.0
_JOIN_S = 90.0
# How long a script that delivers what is due may take on a busy machine.
_SCRIPT_MS = 1000
# The doctor's findings about the setup of these servers, and about their clock.
_SETUP = {"clock", "persistence", "replicas"}
# Words that no log of a proxy may contain.
_UNEXPECTED = ("Traceback", " (at ", "never retrieved", "CRITICAL")


class Judged(Served, Protocol):
    """What a judgement needs of the processes: see System."""

    master: Server
    clock: ServersClock
    excuses: Excuses

    def ask(self, server: Server, *words: Word) -> Any: ...


def trial(
    system: System,
    seconds: float,
    seed: int,
    round_s: float = ROUND_S,
    only: Sequence[str] = (),
) -> Account:
    """Runs rounds until the time is over, on a running `system`. `only`: names of troubles."""
    counts: Counter[str] = Counter()
    faults: list[str] = []
    until_s = time.monotonic() + seconds
    while not counts["rounds"] or time.monotonic() < until_s:
        length_s = max(1.0, min(round_s, until_s - time.monotonic()))
        chance = Random(f"{seed}:{counts['rounds']}")
        troubles = Troubles(system, chance, only)
        round_ = Round(system, counts["rounds"], seed)
        try:
            found = _round(system, round_, troubles, length_s)
        except TimeoutError as late:
            faults.append(f"nobody is served: {late}")
            break
        counts.update(round_.counts)
        counts["troubles"] += troubles.made
        counts["keys evicted"] += troubles.evicted
        for fault in found:
            system.log("fault", text=fault)
        faults += found
        counts["rounds"] += 1
        system.log("round over", counts=counts, faults=len(faults))
    faults += _at_the_end(system)
    return Account(counts, faults)


def _round(system: System, round_: Round, troubles: Troubles, seconds: float) -> list[str]:
    """Runs one round; returns its faults."""
    system.clock.forget_before(machine_ms())
    # The last round ended with a jump of the clock; the proxies may not have seen it yet.
    system.excuses.forget_before(machine_ms())
    rule = f"{round_.name}:ruled:*"
    if round_.has_rule:
        through(system, "ONEXPIRE", rule, "XADD", round_.fired)
    _disturb(round_, troubles, seconds)
    _let_pass(system, round_.last_due_ms)
    faults = list(judged(system, round_))
    through(system, "ONEXPIRE", rule, "DEL")
    names = [key.name for key in round_.keys.values()]
    ruled = sorted(set(round_.ruled_keys.of.values()))
    through(system, "DEL", *names, *ruled, round_.stream, round_.fired)
    return faults


def _disturb(round_: Round, troubles: Troubles, seconds: float) -> None:
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


def _let_pass(system: System, due_ms: float) -> None:
    """Moves the servers' clock past `due_ms` at once."""
    begun_ms = machine_ms()
    system.jump(max(0, round(due_ms - system.now_ms)) + 10)
    system.excuses.set_forward(begun_ms, machine_ms() + SEEN_MS)


def judged(system: Judged, round_: Round) -> Iterator[str]:
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
        yield from map(str, key.faults(system.clock, system.excuses))


def _left(system: Judged, round_: Round) -> Iterator[str]:
    """What Redis itself holds but should not, and what it lacks."""
    for (kind, _), key in round_.keys.items():
        begun_ms = machine_ms()
        shown = kind.shown(system.ask(system.master, *kind.look(key.name)))
        look = Read(begun_ms, machine_ms(), shown, "Redis")
        excuses = replace(system.excuses, late=[], lagging=[])
        yield from map(str, replace(key, reads=[look]).faults(system.clock, excuses))
    deferred = [
        (words[1].decode(), delivered_ms(system.clock, entry))
        for entry, words in system.ask(system.master, "XRANGE", round_.stream, "-", "+")
    ]
    yield from (f"deferred {fault}" for fault in round_.deferred.faults(deferred))
    entries = [
        dict(zip(words[::2], words[1::2], strict=True))
        for _, words in system.ask(system.master, "XRANGE", round_.fired, "-", "+")
    ]
    fired = [(entry[b"element"].decode(), int(entry[b"fired"])) for entry in entries]
    round_.ruled.doubted |= round_.ruled_keys.lost(system.excuses)
    for fault in round_.ruled.faults(fired):
        yield f"ruled {round_.ruled_keys.described(fault)}"


def delivered_ms(clock: ServersClock, entry: bytes) -> float:
    """The most that the clock can have shown when a script added this entry to a stream.

    Its id has the time at which XADD ran: never before TIME in the same script, unless the clock
    jumped back between the two. And ids never go back: of an entry that is not the first one with
    its time, it is not known when XADD ran, if the clock has jumped back since that time.
    """
    shown_ms, number = map(int, entry.split(b"-"))
    most_ms = clock.most_before(shown_ms, _SCRIPT_MS)
    return max(most_ms, clock.most_since(shown_ms)) if number else most_ms


def _at_the_end(system: System) -> Iterator[str]:
    """Nothing may be left, since rounds remove their keys; the doctor and the logs are clean."""
    if keys := through(system, "DBSIZE"):
        yield f"{keys} keys are left"
    if entries := system.ask(system.master, "ZCARD", Keys().schedule):
        yield f"{entries} entries are left in the schedule"
    for finding in examine(system.master.url):
        if finding.severity > 1 and finding.check not in _SETUP:
            yield f"doctor: {finding.check}: {finding.what}"
    for number, proxy in enumerate(system.proxies):
        lines = proxy.stderr.splitlines()
        for at, line in enumerate(lines):
            if any(unexpected in line for unexpected in _UNEXPECTED):
                yield "\n    ".join([f"proxy {number} logged:", *lines[max(0, at - 1) : at + 20]])
