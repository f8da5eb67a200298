"""Clients and troubles for a while; then what must hold whatever happened."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, Protocol

from tests.chaos.history import Excuses, Read, ServersClock
from tests.chaos.system import machine_ms
from tests.chaos.writers import Round, Served, through
from tests.support.processes import attempts
from tests.support.redis_client import Word

# The bound: within this time after the last trouble all that is due is gone and delivered.
LATE_S = 20.0
_JOIN_S = 90.0


class Judged(Served, Protocol):
    """What a judgement needs of the processes: see System."""

    clock: ServersClock

    def excuses_of(self, key: str) -> Excuses: ...

    def at_redis(self, key: str, *words: Word) -> Any: ...


class Troubles(Protocol):
    def run(self, stop: threading.Event) -> None: ...


def disturb(round_: Round, troubles: Troubles, seconds: float) -> None:
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


def judged(system: Judged, round_: Round, left: Callable[[], Iterator[str]]) -> Iterator[str]:
    """What clients were shown wrongly, and what is still wrong in Redis after LATE_S. `left`: what
    is wrong there beside the elements of the round's keys."""

    def all_left() -> Iterator[str]:
        yield from _elements_left(system, round_)
        yield from left()

    try:
        for _ in attempts(LATE_S, "all that is due gone and delivered"):
            if not any(all_left()):
                break
    except TimeoutError:  # the last look may have begun before
        yield from (f"{LATE_S:.0f} s after all trouble: {it}" for it in all_left())
    for (kind, _), key in round_.keys.items():
        begun_ms = machine_ms()
        shown = kind.shown(through(system, *kind.look(key.name)))
        key.reads.append(Read(begun_ms, machine_ms(), shown, "who looks last"))
        yield from map(str, key.faults(system.clock, system.excuses_of(key.name)))


def _elements_left(system: Judged, round_: Round) -> Iterator[str]:
    """What Redis itself holds but should not, and what it lacks."""
    for (kind, _), key in round_.keys.items():
        begun_ms = machine_ms()
        shown = kind.shown(system.at_redis(key.name, *kind.look(key.name)))
        look = Read(begun_ms, machine_ms(), shown, "Redis")
        excuses = replace(system.excuses_of(key.name), late=[], lagging=[])
        yield from map(str, replace(key, reads=[look]).faults(system.clock, excuses))


def deferred(system: Judged, stream: str) -> list[tuple[str, bytes]]:
    """The tasks that DEFER has brought into a stream, and the ids of their entries."""
    entries = system.at_redis(stream, "XRANGE", stream, "-", "+")
    return [(words[1].decode(), entry) for entry, words in entries]


def fired(system: Judged, stream: str) -> list[tuple[str, float]]:
    """The elements that a rule has brought into a stream, and when."""
    entries = [
        dict(zip(words[::2], words[1::2], strict=True))
        for _, words in system.at_redis(stream, "XRANGE", stream, "-", "+")
    ]
    return [(entry[b"element"].decode(), int(entry[b"fired"])) for entry in entries]
