"""How slots go from one master to another: key by key, by redis-cli, or as a whole."""

from __future__ import annotations

import shutil
import subprocess
import threading
from collections.abc import Sequence
from random import Random
from typing import Final

from tests.chaos.cluster.system import ClusterSystem
from tests.support.cluster import Node
from tests.support.processes import attempts
from tests.support.redis_client import Word

_MIGRATE_MS: Final = 60_000
_CLI_S: Final = 120.0
_ATOMIC_S: Final = 60.0


class NotPossibleError(Exception):
    """The servers cannot do that, or not now."""


def move_by_keys(
    system: ClusterSystem, number: int, source: Node, target: Node, chance: Random, pause_s: float
) -> None:
    """Moves one slot as redis-cli does, with pauses in which some of its keys have gone.

    They take `pause_s` together: a slot that is on its way for longer than `--hold-max` is no
    fault of a proxy.
    """
    _ok(system, target, "CLUSTER", "SETSLOT", number, "IMPORTING", source.id)
    _ok(system, source, "CLUSTER", "SETSLOT", number, "MIGRATING", target.id)
    while names := system.ask(
        source, "CLUSTER", "GETKEYSINSLOT", number, chance.choice([1, 3, 10])
    ):
        to: list[Word] = [target.host, target.port, "", 0, _MIGRATE_MS, "KEYS"]
        reply = system.ask(source, "MIGRATE", *to, *names)
        if reply not in (b"OK", b"NOKEY"):
            raise RuntimeError(f"MIGRATE {number}: {reply}")
        pause_s -= (now_s := pause_s * chance.random())
        threading.Event().wait(now_s)
    others = [node for node in system.masters if node not in (source, target)]
    for node in (target, source, *others):
        _ok(system, node, "CLUSTER", "SETSLOT", number, "NODE", target.id)


def open_and_close(system: ClusterSystem, number: int, source: Node, target: Node) -> None:
    """A move that is begun and given up before a key has gone."""
    _ok(system, target, "CLUSTER", "SETSLOT", number, "IMPORTING", source.id)
    _ok(system, source, "CLUSTER", "SETSLOT", number, "STABLE")
    _ok(system, target, "CLUSTER", "SETSLOT", number, "STABLE")


def reshard(source: Node, target: Node, count: int) -> None:
    """Moves the first slots of a master by redis-cli. Raises NotPossibleError without it."""
    cli = shutil.which("redis-cli")
    if cli is None:
        raise NotPossibleError("there is no redis-cli")
    ends = ["--cluster-from", source.id.decode(), "--cluster-to", target.id.decode()]
    words = ["--cluster", "reshard", f"{source.host}:{source.port}", *ends]
    words += ["--cluster-slots", str(count), "--cluster-yes"]
    done = subprocess.run(
        [cli, *words], capture_output=True, text=True, timeout=_CLI_S, check=False
    )
    if done.returncode:
        raise RuntimeError(f"redis-cli reshard: {done.stdout[-2000:]}{done.stderr[-2000:]}")


def move_whole(system: ClusterSystem, slots: Sequence[int], source: Node, target: Node) -> None:
    """Moves slots with all their keys in one step: CLUSTER MIGRATESLOTS of Valkey 9. Raises
    NotPossibleError if the server has no such command, or has given up."""
    ranges: list[Word] = [word for each in slots for word in ("SLOTSRANGE", each, each)]
    nodes: list[Word] = ["NODE", target.id]
    # Each range has its own target.
    words = [word for at in range(0, len(ranges), 3) for word in (*ranges[at : at + 3], *nodes)]
    reply = system.ask(source, "CLUSTER", "MIGRATESLOTS", *words)
    if reply != b"OK":
        raise NotPossibleError(f"CLUSTER MIGRATESLOTS: {reply}")
    for _ in attempts(_ATOMIC_S, "the slots have arrived"):
        states = _states(system, source)
        if any(state in (b"failed", b"cancelled") for state in states):
            raise NotPossibleError(f"the migration has ended: {states}")
        if all(state == b"success" for state in states):
            return


def can_move_whole(system: ClusterSystem) -> bool:
    return isinstance(system.ask(system.nodes[0], "CLUSTER", "GETSLOTMIGRATIONS"), list)


def _states(system: ClusterSystem, source: Node) -> list[bytes]:
    """The states of the last migration: those of its ranges."""
    found = [
        dict(zip(row[::2], row[1::2], strict=True))
        for row in system.ask(source, "CLUSTER", "GETSLOTMIGRATIONS")
    ]
    exported = [row for row in found if row.get(b"operation") == b"EXPORT"]
    newest = max((row.get(b"create_time", 0) for row in exported), default=0)
    return [row[b"state"] for row in exported if row.get(b"create_time", 0) == newest]


def _ok(system: ClusterSystem, node: Node, *words: Word) -> None:
    reply = system.ask(node, *words)
    if reply != b"OK":
        raise RuntimeError(f"{words}: {reply}")
