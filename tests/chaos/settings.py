"""Troubles of one Redis and of a Cluster: rules and memory that change while keys are in use."""

from __future__ import annotations

import threading
from random import Random
from typing import Any, Final, Protocol, TypeVar

from tests.chaos.history import Window
from tests.chaos.system import machine_ms
from tests.chaos.writers import Served, through
from tests.support.redis_client import Word

Server = TypeVar("Server", contravariant=True)

# So far away that no element without a deadline gets one that the run would meet.
_FAR_S: Final = 100_000_000
_RULES: Final[list[tuple[str, ...]]] = [
    ("ONEXPIRE", "PUBLISH", "expired"),
    ("ONWRITE", "EX", str(_FAR_S), "REFRESH"),
]
_POLICIES: Final = [f"volatile-{how}" for how in ("lru", "lfu", "random", "ttl")]


class Rules:
    """Rules that come and go. They match the keys of `Writer`."""

    def __init__(self, system: Served, chance: Random) -> None:
        self._system = system
        self._chance = chance
        self._in_force: set[tuple[str, str]] = set()

    def change(self) -> None:
        """Sets a rule, or removes one."""
        name, *action = self._chance.choice(_RULES)
        pattern = f"r*:{self._chance.choice('hszl')}:*"
        if (name, pattern) in self._in_force:
            action = ["DEL"]
        through(self._system, name, pattern, *action)
        self._in_force ^= {(name, pattern)}

    def clear(self) -> None:
        """Removes all."""
        for rule in sorted(self._in_force):
            through(self._system, *rule, "DEL")
        self._in_force.clear()


class Asked(Protocol[Server]):
    """What the shortage of memory needs of the processes."""

    @property
    def evicting(self) -> list[Window]: ...

    def ask(self, server: Server, *words: Word) -> Any: ...


def run_short(system: Asked[Server], server: Server, chance: Random) -> int:
    """Redis lacks memory for a moment, and evicts keys that expire. Returns how many."""

    def info(name: str) -> int:
        text = system.ask(server, "INFO").decode()
        return int(text.partition(f"\r\n{name}:")[2].split()[0])

    def config(name: str, value: str | int) -> None:
        if (reply := system.ask(server, "CONFIG", "SET", name, value)) != b"OK":
            raise RuntimeError(f"CONFIG SET {name} {value}: {reply}")

    before, begun_ms = info("evicted_keys"), machine_ms()
    system.evicting.append((begun_ms, float("inf")))
    config("maxmemory-policy", chance.choice(_POLICIES))
    config("maxmemory", max(1, info("used_memory") - chance.choice([1, 20_000, 1_000_000])))
    try:
        threading.Event().wait(chance.choice([0.1, 0.5, 1.5]))
    finally:
        config("maxmemory", 0)
        config("maxmemory-policy", "noeviction")
        system.evicting[-1] = (begun_ms, machine_ms())
    return info("evicted_keys") - before
