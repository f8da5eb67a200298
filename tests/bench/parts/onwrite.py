"""What rules of ONWRITE cost: requests that none matches, beside a proxy without rules; native
writes that one matches, beside the commands that do the same."""

from __future__ import annotations

from itertools import product
from typing import Final

from tests.bench.loads import ANY, Flood, fill
from tests.bench.measures import PROXY_CPU, RATE, REDIS_CPU
from tests.bench.scenarios import Case, Scenario
from tests.bench.targets import Stage, Target

_KEYS: Final = 1000
_PIPELINES: Final = {1: 20_000, 16: 100_000}
_TTL: Final = "100000"
_VALUE: Final = "v" * 32
# A few rules, as an application may have them. The keys of the first requests match none.
RULES: Final = (
    ("ONWRITE", "s:*", "TYPE", "set", "EX", _TTL),
    ("ONWRITE", "h:*", "EX", _TTL),
    ("ONWRITE", "recent:*", "TYPE", "list", "EX", _TTL, "MAXLEN", "100", "EVICT"),
    ("ONWRITE", "online", "EX", "60", "REFRESH"),
)
UNMATCHED: Final = {
    "GET, no rule matches": f"GET k:{ANY}",
    "SADD, no rule matches": f"SADD plain:{ANY} m",
    "HSET, no rule matches": f"HSET fields:{ANY} f {_VALUE}",
}
# By a command with a deadline, and by a native one with a rule.
MATCHED: Final = {
    "SADD by rule": (f"SADDEX s:{ANY} {_TTL} m", f"SADD s:{ANY} m"),
    "HSET by rule": (f"HSETEX h:{ANY} EX {_TTL} FIELDS 1 f {_VALUE}", f"HSET h:{ANY} f {_VALUE}"),
}
_MEASURES: Final = (RATE, REDIS_CPU, PROXY_CPU)


def scenarios(stage: Stage) -> list[Scenario]:
    # The last one for matched requests: where keys have deadlines, all requests cost more.
    without, ruled, dating = (stage.ttlproxy(stage.redis()) for _ in range(3))
    fill(ruled, RULES)
    fill(dating, RULES)
    made = []
    for (name, request), pipeline in product(UNMATCHED.items(), _PIPELINES):
        cases = [
            _case(stage, which, target, request, pipeline)
            for which, target in {"without rules": without, "with rules": ruled}.items()
        ]
        made.append(Scenario(name, cases, _MEASURES, pipeline))
    for (name, requests), pipeline in product(MATCHED.items(), _PIPELINES):
        cases = [
            _case(stage, request.partition(" ")[0], dating, request, pipeline)
            for request in requests
        ]
        made.append(Scenario(name, cases, _MEASURES, pipeline))
    return made


def _case(stage: Stage, name: str, target: Target, request: str, pipeline: int) -> Case:
    count = stage.scaled(_PIPELINES[pipeline])
    load = Flood(tuple(request.split()), count, pipeline=pipeline, keyspace=_KEYS)
    return Case(name, target, load)
