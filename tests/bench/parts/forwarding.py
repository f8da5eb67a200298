"""GET and SET that pass through: beside a direct connection and other proxies."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import product

from tests.bench.loads import ANY, Flood, Words, fill
from tests.bench.measures import CPU, RATE
from tests.bench.scenarios import Case, Measure, Scenario
from tests.bench.targets import Stage, Target

SIZES = {"64 B": 64, "4 KiB": 4096}
CLIENTS = (1, 50, 500)
# By the length of the pipeline, so many requests of 64 bytes that each run takes about a second.
REQUESTS = {1: 40_000, 16: 400_000, 64: 800_000, 256: 1_000_000}
# Of those, for other sizes.
_PART = {64: 1.0, 4096: 0.3}
# And for other numbers of clients: one alone waits for each reply.
_PART_OF_ONE = 0.3
_KEYSPACE = 10_000


def plain(stage: Stage) -> list[Scenario]:
    """The first of all comparisons: 64 bytes, 50 clients."""
    targets = _filled(stage, [64])
    return [
        _scenario(stage, targets, name, name, 64, 50, pipeline, (RATE,))
        for name, pipeline in product(("GET", "SET"), (1, 16, 64))
    ]


def scenarios(stage: Stage) -> list[Scenario]:
    targets = _filled(stage, SIZES.values())
    return [
        _scenario(
            *(stage, targets, f"{name} {size}, {clients} clients", name),
            *(SIZES[size], clients, pipeline, (RATE, *CPU)),
        )
        for name, size, clients, pipeline in product(("GET", "SET"), SIZES, CLIENTS, REQUESTS)
    ]


def _filled(stage: Stage, sizes: Iterable[int]) -> list[Target]:
    direct = stage.redis()
    for size in sizes:
        fill(direct, _values(size))
    return [direct, *stage.others(direct), stage.ttlproxy(direct)]


def _key(size: int, number: str) -> str:
    return f"{size}:{number}"


def _values(size: int) -> Iterator[Words]:
    return (("SET", _key(size, f"{n:012}"), b"x" * size) for n in range(_KEYSPACE))


def _scenario(
    stage: Stage,
    targets: list[Target],
    title: str,
    name: str,
    size: int,
    clients: int,
    pipeline: int,
    measures: tuple[Measure, ...],
) -> Scenario:
    part = _PART[size] * (_PART_OF_ONE if clients == 1 else 1)
    load = Flood(
        (name, _key(size, ANY), *(("x" * size,) if name == "SET" else ())),
        stage.scaled(round(REQUESTS[pipeline] * part)),
        clients,
        pipeline,
        _KEYSPACE,
    )
    cases = [Case(target.name, target, load) for target in targets]
    return Scenario(title, cases, measures, pipeline)
