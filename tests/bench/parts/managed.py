"""Native commands on keys with deadlines that are not due: compared with keys without deadlines."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

from tests.bench.loads import ANY, Flood, Words, fill
from tests.bench.measures import PROXY_CPU, RATE, REDIS_CPU
from tests.bench.scenarios import Case, Scenario
from tests.bench.targets import Stage

PIPELINES = {1: 40_000, 16: 200_000}
# The words after the key; each key has an element "far", with or without a deadline.
COMMANDS: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("HGET", "hash", ("field",)),
    ("HGETALL", "hash", ()),
    ("SISMEMBER", "set", ("member",)),
    ("ZSCORE", "zset", ("member",)),
    ("LRANGE", "list", ("0", "-1")),
    ("HSET", "hash", ("field", "v" * 32)),
    ("HINCRBY", "hash", ("count", "1")),
    ("SADD", "set", ("member",)),
    ("ZADD", "zset", ("1", "member")),
    ("LSET", "list", ("0", "head")),
)
_KEYS = 1000


@dataclass(frozen=True)
class _Kind:
    """A type of key: the command that writes one, its words after the key; what sets a deadline."""

    write: Words
    deadline: str


_KINDS = {
    "hash": _Kind(("HSET", "far", "v" * 32, "field", "v" * 32), "HEXPIREFIELD"),
    "set": _Kind(("SADD", "far", "member"), "SEXPIREMEMBER"),
    "zset": _Kind(("ZADD", 1, "far", 1, "member"), "ZEXPIREMEMBER"),
    "list": _Kind(("RPUSH", "head", "far"), "LEXPIREELEMENT"),
}
_FAR_S = 1_000_000


def scenarios(stage: Stage) -> list[Scenario]:
    direct = stage.redis()
    proxy = stage.ttlproxy(direct)
    count = stage.scaled(_KEYS, least=10)
    for name, kind in _KINDS.items():
        numbers = [f"{name}:{n:012}" for n in range(count)]
        command, *rest = kind.write
        for state in ("plain", "timed"):
            fill(direct, ((command, f"{state}:{number}", *rest) for number in numbers))
        fill(proxy, ((kind.deadline, f"timed:{number}", "far", _FAR_S) for number in numbers))

    def load(name: str, state: str, kind: str, rest: tuple[str, ...], pipeline: int) -> Flood:
        words = (name, f"{state}:{kind}:{ANY}", *rest)
        return Flood(words, stage.scaled(PIPELINES[pipeline]), pipeline=pipeline, keyspace=count)

    return [
        Scenario(
            name,
            [
                Case("no deadlines", proxy, load(name, "plain", kind, rest, pipeline)),
                Case("far deadlines", proxy, load(name, "timed", kind, rest, pipeline)),
                Case("direct", direct, load(name, "plain", kind, rest, pipeline)),
            ],
            (RATE, REDIS_CPU, PROXY_CPU),
            pipeline,
        )
        for (name, kind, rest), pipeline in product(COMMANDS, PIPELINES)
    ]
