"""What it costs a proxy to ask Redis at each request, beside one that hears of all keys: for keys
that clients name again and again, and for keys that they name once.

Each is in front of a Redis of its own, beside another proxy of its kind, so that none is alone.
"""

from __future__ import annotations

from typing import Final

from tests.bench.loads import ANY, FAR_MS, Flood, Load, Run, Words, fill
from tests.bench.measures import PROXY_CPU, RATE, REDIS_CPU
from tests.bench.parts.fleet import MODES
from tests.bench.scenarios import Case, Scenario
from tests.bench.targets import Stage, Target

AGAIN, ONCE = "GET, keys named again", "GET, keys named once"
SELECTED: Final = "GET, keys named again, database 1"
SET_ONCE: Final = "SET, keys named once"
WRITE: Final = "HSETEX, keys named again"
# Of the family that the keys of WRITE are of.
FAMILY_ONCE: Final = "HGET, keys of a family with deadlines named once"
# As many as redis-benchmark can tell apart: of a run's keys hardly any is named twice.
_UNENDING: Final = 2_000_000_000
_KEYS: Final = 10_000
_REQUESTS: Final = {1: 30_000, 16: 160_000}


class Again:
    """A flood of requests for keys that were named before."""

    def __init__(self, flood: Flood) -> None:
        self._flood = flood

    def __call__(self, target: Target) -> Run:
        named = (self._named(f"{number:012}") for number in range(_KEYS))
        fill(target, named, db=self._flood.db)
        return self._flood(target)

    def _named(self, number: str) -> Words:
        return tuple(word.replace(ANY, number) for word in self._flood.words)


def scenarios(stage: Stage) -> list[Scenario]:
    targets = {mode: _one_of_two(stage, asks) for mode, asks in MODES.items()}
    read = ("GET", f"k:{ANY}")
    write = ("HSETEX", f"h:{ANY}", "PXAT", str(FAR_MS), "FIELDS", "1", "field", "v" * 32)
    made = []
    for pipeline, requests in _REQUESTS.items():
        size = (stage.scaled(requests), 50, pipeline)
        loads: dict[str, Load] = {
            AGAIN: Again(Flood(read, *size, _KEYS)),
            SELECTED: Again(Flood(read, *size, _KEYS, db=1)),
            ONCE: Flood(read, *size, _UNENDING),
            SET_ONCE: Flood(("SET", f"new:{ANY}", "v"), *size, _UNENDING),
            WRITE: Again(Flood(write, *size, _KEYS)),
            FAMILY_ONCE: Flood(("HGET", f"h:{ANY}", "field"), *size, _UNENDING),
        }
        made += [
            Scenario(
                name,
                [Case(mode, target, load) for mode, target in targets.items()],
                (RATE, REDIS_CPU, PROXY_CPU),
                pipeline,
            )
            for name, load in loads.items()
        ]
    return made


def _one_of_two(stage: Stage, asks: bool) -> Target:
    direct = stage.redis()
    stage.ttlproxy(direct, asks=asks)
    target = stage.ttlproxy(direct, asks=asks)
    # Where no key is managed, a proxy that hears of all need not look at the names.
    fill(target, [("SADDEX", "managed", "PXAT", FAR_MS, "MEMBERS", 1, "m")])
    return target
