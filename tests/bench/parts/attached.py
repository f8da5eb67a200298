"""What HSETEX costs a Redis with one proxy attached, with some, and with many.

Every proxy is told of a deadline that is the first of its key, and of no other.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count, islice

from tests.bench.loads import FAR_MS, Replay, Run, Words
from tests.bench.measures import RATE, REDIS_CPU
from tests.bench.scenarios import Case, Scenario
from tests.bench.targets import Stage, Target

ATTACHED = (1, 10, 50)
_REQUESTS = 20_000
_KEYS = 1000


class Onward:
    """HSETEX on key after key, each time round with a deadline that is `step` ms further on.

    With a negative step each is the first of its key, and so announced.
    """

    def __init__(self, step: int, requests: int) -> None:
        self._requests = requests
        self._words = self._all(step)

    def __call__(self, target: Target) -> Run:
        script = list(islice(self._words, self._requests))
        return Replay(script, self._requests)(target)

    @staticmethod
    def _all(step: int) -> Iterator[Words]:
        for number in count():
            turn, key = divmod(number, _KEYS)
            yield ("HSETEX", key, "PXAT", FAR_MS + turn * step, "FIELDS", 1, "field", "v" * 32)


def scenarios(stage: Stage) -> list[Scenario]:
    # A small share has fewer of them, so that two of these may be one.
    counts = dict.fromkeys(stage.scaled(number) for number in ATTACHED)
    before = {number: _first_of(stage, number) for number in counts}
    requests = stage.scaled(_REQUESTS)
    return [
        Scenario(
            name,
            [
                Case(f"{number} attached", target, Onward(step, requests))
                for number, target in before.items()
            ],
            (REDIS_CPU, RATE),
            pipeline=1,
        )
        for name, step in (("HSETEX, announced", -1), ("HSETEX, not announced", 1))
    ]


def _first_of(stage: Stage, count: int) -> Target:
    direct = stage.redis()
    attached = [stage.ttlproxy(direct) for _ in range(count)]
    return attached[0]
