"""What HSETEX costs a Redis with one proxy attached, with some, and with many.

A deadline is announced to every proxy if it is the first of its key, else not.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from itertools import count, islice

from tests.bench import usage
from tests.bench.loads import FAR_MS, Replay, Run, Words
from tests.bench.measures import RATE, REDIS_CPU
from tests.bench.scenarios import Case, Scenario
from tests.bench.targets import Stage, Target
from tests.support.processes import Process, attempts

ATTACHED = (1, 10, 50)
_REQUESTS = 5000
_KEYS = 1000
# A process that uses less CPU time than this between two checks is idle.
_IDLE_US, _LOOK_S = 1000, 0.05
_IDLE_AFTER_S = 60.0


class Onward:
    """HSETEX on one key after the other; each round over the keys has deadlines `step` ms later.

    With a negative step each deadline is the first of its key, so it is announced. The run ends
    when the attached proxies are idle again.
    """

    def __init__(self, step: int, requests: int, attached: Sequence[Process]) -> None:
        self._requests = requests
        self._attached = attached
        self._words = self._all(step)

    def __call__(self, target: Target) -> Run:
        script = list(islice(self._words, self._requests))
        run = Replay(script, self._requests)(target)
        _until_idle(self._attached)
        return run

    @staticmethod
    def _all(step: int) -> Iterator[Words]:
        for number in count():
            turn, key = divmod(number, _KEYS)
            yield ("HSETEX", key, "PXAT", FAR_MS + turn * step, "FIELDS", 1, "field", "v" * 32)


def scenarios(stage: Stage) -> list[Scenario]:
    # A small share scales the numbers down, so two of them may be equal.
    counts = dict.fromkeys(stage.scaled(number) for number in ATTACHED)
    crowds = {number: _crowd(stage, number) for number in counts}
    requests = stage.scaled(_REQUESTS)
    return [
        Scenario(
            name,
            [
                Case(f"{number} attached", crowd[0], Onward(step, requests, _processes(crowd)))
                for number, crowd in crowds.items()
            ],
            (REDIS_CPU, RATE),
            pipeline=1,
        )
        for name, step in (("HSETEX, announced", -1), ("HSETEX, not announced", 1))
    ]


def _crowd(stage: Stage, count: int) -> list[Target]:
    """Proxies in front of the same Redis."""
    direct = stage.redis()
    return [stage.ttlproxy(direct) for _ in range(count)]


def _processes(crowd: Sequence[Target]) -> list[Process]:
    return [target.proxy for target in crowd if target.proxy]


def _until_idle(processes: Sequence[Process]) -> None:
    """Returns when the processes have almost nothing to do."""
    used_us = -math.inf
    for _ in attempts(_IDLE_AFTER_S, "idle proxies"):
        before_us, used_us = used_us, usage.cpu_us(*(process.pid for process in processes))
        if used_us - before_us < _IDLE_US * len(processes):
            return
        time.sleep(_LOOK_S)
