"""Three masters that nobody asks, and elements that fall due there, beside one Redis."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from time import perf_counter

from tests.bench import usage
from tests.bench.loads import Run, Words, fill
from tests.bench.measures import found
from tests.bench.parts.reaping import Storm
from tests.bench.scenarios import Case, Measure, Scenario
from tests.bench.targets import Stage, Target
from tests.support.redis_client import Client

_RATE, _BY_CPU = "elements removed/s", "elements removed in a second of CPU"
_CORE = Measure("proxy, % of a core", lambda result: result.proxy_us / result.run.seconds / 1e4)
_REST_S = 5.0
# In all slots; that decides, and not how many are in each.
_MANAGED = 200_000
_FAR_S = 1_000_000
# A call for a slot costs the same for a few elements as for many. A million in all tells no more,
# and takes two minutes a round to write.
_DUE = 300_000
_KEYS = (300, 3000)
_LOOK_S = 0.005
_OVER_S = 120.0
# So many keys may be left: internal ones, such as leases.
_LEFT = 30
# A request that writes elements takes less than this.
_GUESS_S = 0.001


@dataclass(frozen=True)
class Rest:
    """Nothing is asked for so long."""

    seconds: float

    def __call__(self, target: Target) -> Run:
        began = perf_counter()
        time.sleep(self.seconds)
        return Run(seconds=perf_counter() - began)


@dataclass(frozen=True)
class Due:
    """Elements that are all due at once: how fast they are removed, also for the CPU time that
    proxy and servers take for it, as three masters may use more cores than one."""

    storm: Storm

    def __call__(self, target: Target) -> Run:
        with ExitStack() as stack:
            clients = [Client(server.port) for server in target.masters]
            for client in clients:
                stack.callback(client.close)
            lead_s = 1 + self.storm.groups * self.storm.keys * _GUESS_S
            while not self._write(target, clients[0], lead_s):
                self._wait(clients)
                lead_s *= 2
            before, began = self._used(target), perf_counter()
            self._wait(clients)
            took_s = perf_counter() - began
        used_s = (self._used(target) - before) / 1e6
        elements = self.storm.elements
        return Run(seconds=took_s, found={_RATE: elements / took_s, _BY_CPU: elements / used_s})

    def _write(self, target: Target, client: Client, lead_s: float) -> bool:
        """Returns when the elements are due; False if some were due before all were written."""
        due_s = _now_s(client) + lead_s
        fill(target, self.storm.requests(int(due_s * 1000)), pipeline=50)
        left_s = due_s - _now_s(client)
        time.sleep(max(left_s, 0))
        return left_s > 0

    def _wait(self, clients: Sequence[Client]) -> None:
        """Returns when they are removed."""
        began = perf_counter()
        while sum(client.ask("DBSIZE") for client in clients) > _LEFT:
            time.sleep(_LOOK_S)
            if perf_counter() - began > _OVER_S:
                raise TimeoutError(f"{self.storm.name}: they are not removed")

    def _used(self, target: Target) -> float:
        processes = [*target.masters, *([target.proxy] if target.proxy else [])]
        return usage.cpu_us(*(process.pid for process in processes))


def _now_s(client: Client) -> float:
    """On the clock of the servers, which is one on this machine."""
    seconds, microseconds = client.ask("TIME")
    return int(seconds) + int(microseconds) / 1e6


def scenarios(stage: Stage) -> list[Scenario]:
    one, (_, masters), (_, full) = stage.ttlproxy(stage.redis()), stage.masters(), stage.masters()
    count = stage.scaled(_MANAGED)
    fill(full, map(_with_deadline, range(count)))
    rest = Rest(max(_REST_S * stage.share, 0.1))
    return [
        Scenario(
            "at rest",
            [
                Case("one Redis", one, rest),
                Case("three masters", masters, rest),
                Case(f"three masters, {count:,} managed keys", full, rest),
            ],
            (_CORE,),
        ),
        *(_reaping(Storm(keys, _DUE, 0, 100, ()).scaled(stage), one, masters) for keys in _KEYS),
    ]


def _reaping(storm: Storm, one: Target, masters: Target) -> Scenario:
    cases = [Case("one Redis", one, Due(storm)), Case("three masters", masters, Due(storm))]
    return Scenario(storm.name, cases, (found(_RATE), found(_BY_CPU)))


def _with_deadline(number: int) -> Words:
    return ("HSETEX", f"managed:{number}", "EX", _FAR_S, "FIELDS", 1, "field", "v")
