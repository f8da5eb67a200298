"""GET and SET in front of three masters, beside one Redis, Envoy and a client of Clusters."""

from __future__ import annotations

from itertools import product

from tests.bench.loads import ANY, Flood, Words, fill
from tests.bench.measures import PROXY_CPU, RATE
from tests.bench.scenarios import Case, Scenario
from tests.bench.targets import Stage

PIPELINES = {1: 40_000, 16: 200_000, 64: 400_000}
_KEYS = 10_000
# Keys of all masters, and of one of them. A client of Clusters gives keys its own tags, so for it
# there are no values.
_RANDOM, _OF_ONE, _BY_CLIENT = "key:", "{one}:", "key:{tag}:"


def scenarios(stage: Stage) -> list[Scenario]:
    one = stage.ttlproxy(stage.redis())
    direct, masters = stage.masters()
    envoy = stage.envoy(direct)
    count = stage.scaled(_KEYS, least=10)
    for target in (one, masters):
        fill(target, _values(count))

    def load(name: str, key: str, pipeline: int, *, knows_clusters: bool = False) -> Flood:
        value = ("x" * 64,) if name == "SET" else ()
        return Flood(
            (name, f"{key}{ANY}", *value),
            stage.scaled(PIPELINES[pipeline]),
            pipeline=pipeline,
            keyspace=count,
            knows_clusters=knows_clusters,
        )

    def cases(name: str, pipeline: int) -> list[Case]:
        anywhere = load(name, _RANDOM, pipeline)
        at_nodes = load(name, _BY_CLIENT, pipeline, knows_clusters=True)
        return [
            Case("one Redis", one, anywhere),
            Case("one of three masters", masters, load(name, _OF_ONE, pipeline)),
            Case("three masters", masters, anywhere),
            *([Case("envoy, three masters", envoy, anywhere)] if envoy else []),
            Case("direct, three masters", direct, at_nodes),
        ]

    return [
        Scenario(name, cases(name, pipeline), (RATE, PROXY_CPU), pipeline)
        for name, pipeline in product(("GET", "SET"), PIPELINES)
    ]


def _values(count: int) -> list[Words]:
    keys = [f"{kind}{number:012}" for kind in (_RANDOM, _OF_ONE) for number in range(count)]
    return [("SET", key, "x" * 64) for key in keys]
