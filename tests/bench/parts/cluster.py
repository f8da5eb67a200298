"""GET and SET in front of three masters, beside one Redis, Envoy and a client of Clusters.

The rates are redis-benchmark's, which opens its connections anew each time. The proxy's CPU time is
measured with connections that stay open: it takes ttlproxy a millisecond to open one to each
master, as much as fifty requests.
"""

from __future__ import annotations

from itertools import product
from random import Random

from tests.bench.loads import ANY, Flood, Replay, Sessions, Words, fill
from tests.bench.measures import PROXY_CPU, RATE
from tests.bench.scenarios import Case, Scenario
from tests.bench.targets import Stage

PIPELINES = {1: 40_000, 16: 200_000, 64: 400_000}
# Of these, in sessions.
_IN_SESSIONS = 0.5
_KEYS = 10_000
_VALUE = "x" * 64
# Keys of all masters, and of one of them. A client of Clusters gives keys its own tags, so for it
# there are no values.
_RANDOM, _OF_ONE, _BY_CLIENT = "key:", "{one}:", "key:{tag}:"


def scenarios(stage: Stage) -> list[Scenario]:
    one = stage.ttlproxy(stage.redis())
    direct, masters = stage.masters()
    sharing = stage.ttlproxy(direct, "--share-upstream", "2")
    envoy = stage.envoy(direct)
    count = stage.scaled(_KEYS, least=10)
    for target in (one, masters):
        fill(target, _values(count))
    sessions = Sessions()
    stage.at_end(sessions.close)

    def flood(name: str, key: str, pipeline: int, *, knows_clusters: bool = False) -> Flood:
        return Flood(
            _words(name, f"{key}{ANY}"),
            stage.scaled(PIPELINES[pipeline]),
            pipeline=pipeline,
            keyspace=count,
            knows_clusters=knows_clusters,
        )

    def rates(name: str, pipeline: int) -> list[Case]:
        anywhere = flood(name, _RANDOM, pipeline)
        at_nodes = flood(name, _BY_CLIENT, pipeline, knows_clusters=True)
        return [
            Case("one Redis", one, anywhere),
            Case("one of three masters", masters, flood(name, _OF_ONE, pipeline)),
            Case("three masters", masters, anywhere),
            Case("three masters, shared", sharing, anywhere),
            *([Case("envoy, three masters", envoy, anywhere)] if envoy else []),
            Case("direct, three masters", direct, at_nodes),
        ]

    def continued(name: str, key: str, pipeline: int) -> Replay:
        random = Random(pipeline)
        numbers = (random.randrange(count) for _ in range(_KEYS))
        script = [_words(name, f"{key}{number:012}") for number in numbers]
        requests = stage.scaled(round(PIPELINES[pipeline] * _IN_SESSIONS))
        return Replay(script, requests, pipeline=pipeline, sessions=sessions)

    def cpu(name: str, pipeline: int) -> list[Case]:
        anywhere, of_one = (continued(name, key, pipeline) for key in (_RANDOM, _OF_ONE))
        return [
            Case("one Redis", one, of_one),
            Case("one of three masters", masters, of_one),
            Case("three masters", masters, anywhere),
            Case("three masters, shared", sharing, anywhere),
            *([Case("envoy, three masters", envoy, anywhere)] if envoy else []),
        ]

    tests = list(product(("GET", "SET"), PIPELINES))
    return [
        *(Scenario(f"{name}, rate", rates(name, size), (RATE,), size) for name, size in tests),
        *(Scenario(name, cpu(name, size), (PROXY_CPU,), size) for name, size in tests),
    ]


def _words(name: str, key: str) -> tuple[str, ...]:
    return (name, key, _VALUE) if name == "SET" else (name, key)


def _values(count: int) -> list[Words]:
    keys = [f"{kind}{number:012}" for kind in (_RANDOM, _OF_ONE) for number in range(count)]
    return [("SET", key, _VALUE) for key in keys]
