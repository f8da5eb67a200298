"""The latencies that a client sees which sends Redis a PING every 2 ms."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread
from time import perf_counter
from typing import NamedTuple

from tests.bench import usage
from tests.support.raw_client import Connection
from tests.support.servers import Server

_EVERY_S = 0.002
# Python lets one thread run for 5 ms while the other waits: that would look like latency.
_SWITCH_S = 0.0001


class Latency(NamedTuple):
    """In ms.

    wall: as a clock shows it; redis: the CPU time that Redis took meanwhile, which is the same
    where Redis has a core of its own, and counts no wait for a core where it has none
    """

    wall: float
    redis: float


class Latencies(NamedTuple):
    """Of each PING; sorted at the end."""

    wall: list[float]
    redis: list[float]

    def percentile(self, percent: int) -> Latency:
        at = min(len(self.wall) * percent // 100, len(self.wall) - 1)
        return Latency(self.wall[at], self.redis[at])


@contextmanager
def pinged(server: Server) -> Iterator[Latencies]:
    """The latencies meanwhile; they are complete at the end.

    While a reply is late, the PINGs that were due by then count as late, too.
    """
    latencies, over = Latencies([], []), Event()

    def ping(client: Connection) -> None:
        due_s = perf_counter()
        while not (latencies.wall and over.wait(max(due_s - perf_counter(), 0))):
            first_due_s, used_us = due_s, usage.cpu_us(server.pid)
            client.ask("PING")
            now_s, redis_ms = perf_counter(), (usage.cpu_us(server.pid) - used_us) / 1000
            while due_s <= now_s:
                latencies.wall.append((now_s - due_s) * 1000)
                latencies.redis.append(redis_ms * (now_s - due_s) / (now_s - first_due_s))
                due_s += _EVERY_S

    usual_s = sys.getswitchinterval()
    sys.setswitchinterval(_SWITCH_S)
    with Connection(server.port) as client:
        thread = Thread(target=ping, args=(client,))
        thread.start()
        try:
            yield latencies
        finally:
            over.set()
            thread.join()
            sys.setswitchinterval(usual_s)
            for each in latencies:
                each.sort()
