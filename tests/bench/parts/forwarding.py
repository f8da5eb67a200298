"""GET and SET that are forwarded: compared with a direct connection and other proxies."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import product

from tests.bench.loads import ANY, Flood, Words, fill
from tests.bench.measures import PROXY_CPU, RATE
from tests.bench.scenarios import Case, Scenario
from tests.bench.targets import Stage, Target

# The proxy whose clients share connections to Redis.
SHARED = "ttlproxy, shared"
SIZES = {64: "64 B", 4096: "4 KiB"}
CLIENTS = {1: "1 client", 50: "50 clients", 500: "500 clients"}
PIPELINES = (1, 16, 64, 256)
# Requests of 64 bytes, by pipeline length: a run takes about a second. There are fewer for larger
# requests and for a single client.
_REQUESTS = {1: 40_000, 16: 400_000, 64: 800_000, 256: 1_000_000}
_SHARE_OF_LARGE = _SHARE_OF_ONE = 0.3
_KEYSPACE = 10_000


@dataclass(frozen=True)
class Traffic:
    """GET or SET of values of one size, with so many clients and such a pipeline."""

    name: str
    size: int
    clients: int
    pipeline: int

    @property
    def title(self) -> str:
        return f"{self.name} {SIZES[self.size]}, {CLIENTS[self.clients]}"

    def load(self, stage: Stage) -> Flood:
        requests = _REQUESTS[self.pipeline]
        if self.clients == 1:
            requests = round(requests * _SHARE_OF_ONE)
        if self.size > min(SIZES):
            requests = round(requests * _SHARE_OF_LARGE)
        value = ("x" * self.size,) if self.name == "SET" else ()
        return Flood(
            (self.name, _key(self.size, ANY), *value),
            *(stage.scaled(requests), self.clients, self.pipeline, _KEYSPACE),
        )


def plain(stage: Stage) -> list[Scenario]:
    """The first comparison to look at: 64 bytes, 50 clients."""
    targets = _filled(stage, [64])
    loads = [Traffic(name, 64, 50, pipeline) for name in ("GET", "SET") for pipeline in (1, 16, 64)]
    return [
        Scenario(each.name, _cases(stage, targets, each), (RATE,), each.pipeline) for each in loads
    ]


def scenarios(stage: Stage) -> list[Scenario]:
    targets = _filled(stage, SIZES)
    loads = [Traffic(*each) for each in product(("GET", "SET"), SIZES, CLIENTS, PIPELINES)]
    return [
        Scenario(each.title, _cases(stage, targets, each), (RATE, PROXY_CPU), each.pipeline)
        for each in loads
    ]


def _cases(stage: Stage, targets: list[Target], traffic: Traffic) -> list[Case]:
    load = traffic.load(stage)
    return [Case(target.name, target, load) for target in targets]


def _filled(stage: Stage, sizes: Iterable[int]) -> list[Target]:
    direct = stage.redis()
    for size in sizes:
        fill(direct, _values(size))
    shared = replace(stage.ttlproxy(direct, "--share-upstream", "2"), name=SHARED)
    return [direct, *stage.others(direct), stage.ttlproxy(direct), shared]


def _key(size: int, number: str) -> str:
    return f"{size}:{number}"


def _values(size: int) -> Iterator[Words]:
    return (("SET", _key(size, f"{n:012}"), b"x" * size) for n in range(_KEYSPACE))
