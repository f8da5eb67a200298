"""Commands that set deadlines: compared with the native command that writes such an element without
a deadline, and with servers that have such a command themselves."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

from tests.bench.loads import ANY, Flood, Words, fill
from tests.bench.measures import PROXY_CPU, RATE, REDIS_CPU
from tests.bench.scenarios import Case, Scenario
from tests.bench.targets import Stage, Target

PIPELINES = {1: 20_000, 16: 100_000}
_KEYS = 1000
_MS, _S, _V = "100000000", "100000", "v" * 32
_TEN = tuple(f"f{n}" for n in range(10))


@dataclass(frozen=True)
class Task:
    """What can be done in several ways, each by the words of a request, `{}` standing for the key.

    plain: natively, without a deadline; ours: by form; native: where the server expires fields
    """

    name: str
    plain: str
    ours: dict[str, str]
    native: str = ""


_TEN_PAIRS = " ".join(f"{name} {_V}" for name in _TEN)
TASKS = (
    Task(
        "deadline of a field",
        f"HSET {{}} f0 {_V}",
        {
            "HPEXPIREFIELD short": f"HPEXPIREFIELD {{}} f0 {_MS}",
            "HPEXPIREFIELD long": f"HPEXPIREFIELD {{}} {_MS} FIELDS 1 f0",
        },
        f"HPEXPIRE {{}} {_MS} FIELDS 1 f0",
    ),
    Task(
        "deadlines of 10 fields",
        f"HSET {{}} {_TEN_PAIRS}",
        {"HPEXPIREFIELD long": f"HPEXPIREFIELD {{}} {_MS} FIELDS 10 {' '.join(_TEN)}"},
        f"HPEXPIRE {{}} {_MS} FIELDS 10 {' '.join(_TEN)}",
    ),
    Task(
        "time left of a field",
        "HGET {} f0",
        {
            "HPTTLFIELD short": "HPTTLFIELD {} f0",
            "HPTTLFIELD long": "HPTTLFIELD {} FIELDS 1 f0",
        },
        "HPTTL {} FIELDS 1 f0",
    ),
    Task(
        "field and deadline",
        f"HSET {{}} f0 {_V}",
        {"HSETEX": f"HSETEX {{}} PX {_MS} FIELDS 1 f0 {_V}"},
        f"HSETEX {{}} PX {_MS} FIELDS 1 f0 {_V}",
    ),
    Task(
        "deadline of a member",
        "SADD {} f0",
        {
            "SPEXPIREMEMBER short": f"SPEXPIREMEMBER {{}} f0 {_MS}",
            "SPEXPIREMEMBER long": f"SPEXPIREMEMBER {{}} {_MS} MEMBERS 1 f0",
        },
    ),
    Task(
        "member and deadline",
        "SADD {} f0",
        {
            "SADDEX short": f"SADDEX {{}} {_S} f0",
            "SADDEX long": f"SADDEX {{}} PX {_MS} MEMBERS 1 f0",
        },
    ),
    Task(
        "scored member and deadline",
        "ZADD {} 1 f0",
        {
            "ZADDEX short": f"ZADDEX {{}} {_S} 1 f0",
            "ZADDEX long": f"ZADDEX {{}} PX {_MS} MEMBERS 1 1 f0",
        },
    ),
    Task(
        "deadline of a list element",
        "LSET {} 0 f0",
        {
            "LPEXPIREELEMENT short": f"LPEXPIREELEMENT {{}} f0 {_MS}",
            "LPEXPIREELEMENT long": f"LPEXPIREELEMENT {{}} {_MS} ELEMENTS 1 f0",
        },
    ),
)
# How each type of key is written, and the type for the first letter of a command.
_WRITES = (f"HSET {{}} {_TEN_PAIRS}", "SADD {} f0", "ZADD {} 1 f0", "RPUSH {} f0")
_KINDS = {"H": "hash", "S": "set", "Z": "zset", "L": "list", "R": "list"}


def scenarios(stage: Stage) -> list[Scenario]:
    ground = _prepared(stage)
    return [
        Scenario(
            task.name,
            ground.cases(task, pipeline, stage.scaled(requests)),
            (RATE, REDIS_CPU, PROXY_CPU),
            pipeline,
        )
        for task, (pipeline, requests) in product(TASKS, PIPELINES.items())
    ]


@dataclass(frozen=True)
class _Ground:
    """The keys for the tasks: so many of each type, with deadlines and without."""

    keys: int
    direct: Target
    proxy: Target
    natives: list[Target]

    def cases(self, task: Task, pipeline: int, requests: int) -> list[Case]:
        def case(name: str, target: Target, request: str, state: str) -> Case:
            words = tuple(_with_key(request, state, ANY).split())
            load = Flood(words, requests, pipeline=pipeline, keyspace=self.keys)
            return Case(f"{target.name} {name}", target, load)

        plain, native = task.plain.partition(" ")[0], task.native.partition(" ")[0]
        made = [case(plain, target, task.plain, "plain") for target in (self.direct, self.proxy)]
        made += [case(form, self.proxy, words, "timed") for form, words in task.ours.items()]
        if native:
            made += [case(native, target, task.native, "timed") for target in self.natives]
        return made


def _prepared(stage: Stage) -> _Ground:
    keys = stage.scaled(_KEYS, least=10)
    direct = stage.redis()
    proxy, natives = stage.ttlproxy(direct), stage.natives()
    for target in (direct, *natives):
        for write, state in product(_WRITES, ("plain", "timed")):
            fill(target, _requests(write, state, keys))
    # The keys have earlier deadlines than the measured commands set, so nothing is announced.
    for task in TASKS:
        for words in task.ours.values():
            fill(proxy, _requests(words, "timed", keys))
    return _Ground(keys, direct, proxy, natives)


def _with_key(request: str, state: str, number: str) -> str:
    return request.format(f"{state}:{_KINDS[request[0]]}:{number}")


def _requests(request: str, state: str, count: int) -> Iterator[Words]:
    return (tuple(_with_key(request, state, f"{n:012}").split()) for n in range(count))
