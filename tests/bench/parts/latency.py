"""The time that a proxy adds to a reply, for one client on an otherwise idle machine."""

from __future__ import annotations

from tests.bench.loads import OneByOne, fill
from tests.bench.measures import percentile
from tests.bench.scenarios import Case, Scenario
from tests.bench.targets import Stage

_PERCENTS = (50, 99, 99.9)
_MEASURES = [
    *(percentile(percent) for percent in _PERCENTS),
    *(percentile(percent, beyond=True) for percent in _PERCENTS),
]
_VALUE = b"x" * 64
_REQUESTS = 10_000


def scenarios(stage: Stage) -> list[Scenario]:
    direct = stage.redis()
    fill(direct, [("SET", "key", _VALUE)])
    targets = [direct, *stage.others(direct), stage.ttlproxy(direct)]
    loads = {
        "GET": OneByOne(("GET", "key"), stage.scaled(_REQUESTS)),
        "SET": OneByOne(("SET", "key", _VALUE), stage.scaled(_REQUESTS)),
    }
    return [
        Scenario(
            f"{name} 64 B, 1 client",
            [Case(target.name, target, load) for target in targets],
            _MEASURES,
            pipeline=1,
        )
        for name, load in loads.items()
    ]
