"""HSETEX.

Compared with a direct call of the same script, which shows what the proxy costs; with the smallest
possible script, of TIME, ZADD and HSET; and with servers that have an HSETEX of their own.
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha1

from tests.bench.loads import Replay, Words, fill
from tests.bench.measures import PROXY_CPU, RATE, REDIS_CPU
from tests.bench.scenarios import Case, Scenario
from tests.bench.targets import Stage, Target
from ttlproxy.commands.router import VIRTUALS
from ttlproxy.core.keys import DEFAULT_PREFIX, Keys
from ttlproxy.scripts import Scripts
from ttlproxy.scripts.script_calls import ScriptCalls

PIPELINES = {1: 10_000, 16: 50_000}
_KEYS = 1600
_VALUE = b"v" * 32
_FLOOR = b"""\
local time = redis.call('TIME')
local at = time[1] * 1000 + math.floor(time[2] / 1000) + ARGV[1]
redis.call('ZADD', KEYS[2], string.format('%.0f', at), ARGV[2])
redis.call('HSET', KEYS[1], ARGV[2], ARGV[3])
return 1
"""
_INTERNAL = Keys()
_KNOWN = Scripts(DEFAULT_PREFIX)
_KNOWN.loaded = True  # `scenarios` loads them
_CALLER = ScriptCalls(_KNOWN, _INTERNAL, bytes)

Write = Callable[[bytes], Words]


def _hsetex(key: bytes) -> Words:
    return (b"HSETEX", key, b"PX", b"100000000", b"FIELDS", b"1", b"field", _VALUE)


def _same_script(key: bytes) -> Words:
    """The script call that the proxy makes of `_hsetex`."""
    args = [word for word in _hsetex(key) if isinstance(word, bytes)]
    return _CALLER.words(VIRTUALS["HSETEX"].plan(args), db=b"0")


def _floor(key: bytes) -> Words:
    sha = sha1(_FLOOR).hexdigest()
    return ("EVALSHA", sha, 2, key, b"floor:" + key, 100_000_000, b"field", _VALUE)


def scenarios(stage: Stage) -> list[Scenario]:
    direct = stage.redis()
    proxy = stage.ttlproxy(direct)
    texts = [_FLOOR, *(script.text for script in _KNOWN.all())]
    fill(direct, [("SCRIPT", "LOAD", text) for text in texts])
    keys = [b"%012d" % number for number in range(stage.scaled(_KEYS, least=16))]
    ways: list[tuple[str, Target, Write]] = [
        ("same script, direct", direct, _same_script),
        ("ttlproxy", proxy, _hsetex),
        ("least script, direct", direct, _floor),
        *((native.name, native, _hsetex) for native in stage.natives()),
    ]
    for _, target, write in ways:
        fill(target, map(write, keys))
    requests = {pipeline: stage.scaled(count) for pipeline, count in PIPELINES.items()}
    return [
        Scenario(
            "HSETEX",
            [
                Case(way, target, Replay([write(key) for key in keys], count, pipeline=pipeline))
                for way, target, write in ways
            ],
            (RATE, REDIS_CPU, PROXY_CPU),
            pipeline,
        )
        for pipeline, count in requests.items()
    ]
