"""What rules of ONWRITE cost: requests that none matches, beside the same without rules; native
writes that one matches, beside the commands that do the same."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Final

from tests.bench.loads import ANY, Flood, Load, Run, Words, fill
from tests.bench.measures import PROXY_CPU, RATE, REDIS_CPU
from tests.bench.scenarios import Case, Scenario
from tests.bench.targets import Stage, Target

_KEYS: Final = 1000
_PIPELINES: Final = {1: 20_000, 16: 400_000}
_TTL: Final = "100000"
_VALUE: Final = "v" * 32
# A few rules, as an application may have them. The keys of the first requests match none.
RULES: Final = (
    ("ONWRITE", "s:*", "TYPE", "set", "EX", _TTL),
    ("ONWRITE", "h:*", "EX", _TTL),
    ("ONWRITE", "recent:*", "TYPE", "list", "EX", _TTL, "MAXLEN", "100", "EVICT"),
    ("ONWRITE", "online", "EX", "60", "REFRESH"),
)
NO_RULES: Final = tuple((*rule[: 4 if "TYPE" in rule else 2], "DEL") for rule in RULES)
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


@dataclass(frozen=True)
class Under:
    """A load for a proxy where these rules are set, or removed, first. Two proxies would differ by
    more than rules cost: it matters where the memory of each is."""

    rules: Sequence[Words]
    load: Load

    def __call__(self, target: Target) -> Run:
        fill(target, self.rules)
        return self.load(target)


def scenarios(stage: Stage) -> list[Scenario]:
    # One of its own for matched requests: where keys have deadlines, all requests cost more.
    bare, dating = (stage.ttlproxy(stage.redis()) for _ in range(2))
    fill(dating, RULES)
    made = []
    for (name, request), pipeline in product(UNMATCHED.items(), _PIPELINES):
        cases = [
            Case(which, bare, Under(rules, _load(stage, request, pipeline)))
            for which, rules in {"without rules": NO_RULES, "with rules": RULES}.items()
        ]
        made.append(Scenario(name, cases, _MEASURES, pipeline))
    for (name, requests), pipeline in product(MATCHED.items(), _PIPELINES):
        cases = [
            Case(request.partition(" ")[0], dating, _load(stage, request, pipeline))
            for request in requests
        ]
        made.append(Scenario(name, cases, _MEASURES, pipeline))
    return made


def _load(stage: Stage, request: str, pipeline: int) -> Flood:
    count = stage.scaled(_PIPELINES[pipeline])
    return Flood(tuple(request.split()), count, pipeline=pipeline, keyspace=_KEYS)
