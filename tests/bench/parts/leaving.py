"""Thousands of clients that leave at once: how long a new one waits meanwhile, and what one costs.

Each run connects the clients anew, and each of them asks once.
"""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from tests.bench import usage
from tests.bench.loads import Run
from tests.bench.measures import found
from tests.bench.parts.memory import raise_descriptors
from tests.bench.scenarios import Case, Measure, Scenario
from tests.bench.targets import Stage, Target
from tests.support.processes import wait_until
from tests.support.raw_client import Connection, command
from tests.support.server_queries import info

_MANY = 9_000
_WAITS, _COSTS = "ms until a new client has its reply", "proxy, µs of CPU a client that leaves"
_MEASURES = (
    found(_WAITS),
    Measure(_COSTS, lambda result: result.run.found[_COSTS], of_proxy=True),
)
_RESET = struct.pack("ii", 1, 0)  # SO_LINGER of no time

Clients = Sequence[Connection]


def _close(target: Target, clients: Clients) -> None:
    for client in clients:
        client.close()


def _reset(target: Target, clients: Clients) -> None:
    for client in clients:
        client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        client.close()


def _kill(target: Target, clients: Clients) -> None:
    """As Redis shows them: the last command of the proxy's own connections is another."""
    with Connection(target.redis.port) as direct:
        shown = direct.ask("CLIENT", "LIST").splitlines()
        ids = [line.split()[0].removeprefix(b"id=") for line in shown if b" cmd=ping " in line]
        direct.send(b"".join(command("CLIENT", "KILL", "ID", each) for each in ids))
        direct.read_many(len(ids))


@dataclass(frozen=True)
class Leaving:
    """`count` clients leave; `leave` ends them."""

    count: int
    leave: Callable[[Target, Clients], None]

    def __call__(self, target: Target) -> Run:
        before = _connected(target)
        with ExitStack() as stack:
            clients = [stack.enter_context(Connection(target.port)) for _ in range(self.count)]
            for client in clients:
                client.ask("PING")
            used = _used(target)
            self.leave(target, clients)
            began_s = time.perf_counter()
            with Connection(target.port) as new:
                new.ask("PING")
            waited_s = time.perf_counter() - began_s
        wait_until(lambda: _connected(target) <= before, "all have gone")
        costs = (_used(target) - used) / self.count
        return Run(found={_WAITS: waited_s * 1000, _COSTS: costs})


def _connected(target: Target) -> int:
    return int(info(target.redis.port, "clients")["connected_clients"])


def _used(target: Target) -> float:
    return usage.cpu_us(target.proxy.pid) if target.proxy else 0.0


_WAYS = {"close": _close, "reset": _reset, "are ended by Redis": _kill}


def scenarios(stage: Stage) -> list[Scenario]:
    raise_descriptors()
    direct = stage.redis("--maxclients", "12000")
    targets = (direct, stage.ttlproxy(direct))
    count = stage.scaled(_MANY, least=20)
    return [
        Scenario(
            f"{count:,} clients {name}",
            [Case(target.name, target, Leaving(count, way)) for target in targets],
            _MEASURES,
        )
        for name, way in _WAYS.items()
    ]
