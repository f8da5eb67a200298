"""Many elements that fall due: how fast they are removed, how late, and what other clients notice.

Compared with servers that expire fields themselves. The number of elements left is read from a
sample of the keys every 2 ms, so a lag is exact to 2 ms. Deadlines and lags are in Redis's time.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from threading import Event, Thread
from time import perf_counter

from tests.bench.loads import Run, Words, fill
from tests.bench.measures import found
from tests.bench.scenarios import Case, Measure, Scenario
from tests.bench.targets import Stage, Target
from tests.support.raw_client import Connection, command
from tests.support.redis_client import Client

RATE, LAG, LATE = "elements removed/s", "lag p50, ms", "lag p99, ms"
PING, SCRIPT = "PING p99 meanwhile, ms", "longest script call, ms"
_LONGEST = Measure(SCRIPT, lambda result: result.run.found[SCRIPT], of_proxy=True)
_FIGURES = {name: found(name) for name in (RATE, LAG, LATE, PING)}

_SAMPLE = 100
_LOOK_S = _PING_S = 0.002
# Python lets one thread run for 5 ms while the other waits: that would look like latency.
_SWITCH_S = 0.0001
# How long after its last deadline a storm may last.
_OVER_MS = 120_000
# A request that writes elements: how many it has at most, and a guess of its time.
_TOGETHER = 100
_GUESS_MS = 0.5
# Shorter script calls are not in the slow log.
_SLOW_US = 100
_SLOWLOG = ("--slowlog-log-slower-than", str(_SLOW_US), "--slowlog-max-len", "100000")
# What is left in Redis at the end: the proxy's own schedule, lease and state.
_INTERNAL = 3


@dataclass(frozen=True)
class Storm:
    """Elements that fall due evenly within `over_ms`, in so many keys.

    together: how many elements of a key are written by one request, and share a deadline
    """

    keys: int
    elements: int
    over_ms: int
    together: int
    figures: tuple[str, ...]

    @property
    def name(self) -> str:
        due = f"in {self.over_ms / 1000:g} s" if self.over_ms else "at once"
        return f"{self.elements:,} due {due}, in {self.keys:,} hash{'es' * (self.keys > 1)}"

    @property
    def groups(self) -> int:
        """The number of groups in each key; a group shares one deadline."""
        return self.elements // self.keys // self.together

    def scaled(self, stage: Stage) -> Storm:
        """A share of the elements, keys and time, so the rate stays the same."""
        keys = stage.scaled(self.keys) if self.keys > 1 else 1
        groups = max(stage.scaled(self.elements) // (keys * self.together), 1)
        over_ms = stage.scaled(self.over_ms) if self.over_ms else 0
        return replace(self, keys=keys, elements=keys * groups * self.together, over_ms=over_ms)

    def after_ms(self, key: int, group: int) -> int:
        """When a group falls due, in ms after the first one."""
        return self.over_ms * (group * self.keys + key) // (self.groups * self.keys)

    def requests(self, first_ms: int) -> Iterator[Words]:
        """The requests that write the elements, the first due first."""
        for group in range(self.groups):
            fields = [f"{group}:{number}" for number in range(self.together)]
            pairs = [word for name in fields for word in (name, "v" * 32)]
            for key in range(self.keys):
                at_ms = first_ms + self.after_ms(key, group)
                yield ("HSETEX", f"k{key}", "PXAT", at_ms, "FIELDS", self.together, *pairs)


STORMS = (
    Storm(1, 1_000_000, 0, _TOGETHER, (RATE, PING)),
    Storm(10_000, 1_000_000, 0, _TOGETHER, (RATE, PING)),
    Storm(1000, 25_000, 5000, 1, (LAG, LATE, PING)),
    Storm(10_000, 1_000_000, 10_000, 10, (LAG, LATE, PING)),
)


class Weathered:
    """A running storm: written in time, then watched until it is over."""

    def __init__(self, storm: Storm) -> None:
        self._storm = storm
        self._requests = storm.groups * storm.keys
        self._lead_ms = 500 + self._requests * _GUESS_MS

    def __call__(self, target: Target) -> Run:
        with Connection(target.redis.port) as direct, Connection(target.port) as other:
            direct.ask("FLUSHALL")
            first_ms = self._write(target, direct)
            direct.ask("SLOWLOG", "RESET")
            time.sleep(max(first_ms - _now_ms(direct), 0) / 1000)
            with _pinged(other) as latencies_ms:
                lags_ms, took_ms = self._watch(direct, first_ms)
            lags_ms.sort()
            latencies_ms.sort()
            return Run(
                found={
                    RATE: self._storm.elements / took_ms * 1000,
                    LAG: _percentile(lags_ms, 50),
                    LATE: _percentile(lags_ms, 99),
                    PING: _percentile(latencies_ms, 99),
                    SCRIPT: _longest_ms(target.redis.port),
                }
            )

    def _write(self, target: Target, direct: Connection) -> int:
        """Writes all; returns the first deadline in ms, which has not passed by then."""
        while True:
            began_ms = _now_ms(direct)
            first_ms = int(began_ms + self._lead_ms)
            fill(target, self._storm.requests(first_ms), pipeline=50)
            took_ms = _now_ms(direct) - began_ms
            in_time, self._lead_ms = took_ms < self._lead_ms, 500 + took_ms * 1.5
            if in_time:
                return first_ms
            direct.ask("FLUSHALL")

    def _watch(self, direct: Connection, first_ms: int) -> tuple[list[float], float]:
        """The lags of the sample's elements, and the time until no element was left, in ms."""
        storm = self._storm
        together = range(storm.together)
        sample = range(0, storm.keys, -(-storm.keys // _SAMPLE))
        dues_ms = [
            [storm.after_ms(key, group) for group in range(storm.groups) for _ in together]
            for key in sample
        ]
        look = b"".join(
            [
                command("TIME"),
                *(command("HLEN", f"k{key}") for key in sample),
                command("DBSIZE"),
            ]
        )
        gone = [0] * len(sample)
        lags_ms: list[float] = []
        while True:
            direct.send(look)
            clock, *lengths, keys = direct.read_many(len(sample) + 2)
            after_ms = _ms(clock) - first_ms
            for number, (length, due_ms) in enumerate(zip(lengths, dues_ms, strict=True)):
                now_gone = len(due_ms) - int(length[1:])
                lags_ms += [after_ms - due for due in due_ms[gone[number] : now_gone]]
                gone[number] = now_gone
            if all(length == b":0\r\n" for length in lengths) and int(keys[1:]) <= _INTERNAL:
                return lags_ms, after_ms
            if after_ms > storm.over_ms + _OVER_MS:
                raise TimeoutError(f"{storm.name}: {int(keys[1:])} keys are left")
            time.sleep(_LOOK_S)


def _ms(clock: bytes) -> float:
    """A reply to TIME, in ms."""
    _, _, seconds, _, microseconds, _ = clock.split(b"\r\n")
    return int(seconds) * 1000 + int(microseconds) / 1000


def _now_ms(direct: Connection) -> float:
    return _ms(direct.ask("TIME"))


@contextmanager
def _pinged(client: Connection) -> Iterator[list[float]]:
    """The latencies of another client's PINGs meanwhile, in ms."""
    latencies_ms: list[float] = []
    over = Event()

    def ping() -> None:
        while not latencies_ms or not over.wait(_PING_S):
            began = perf_counter()
            client.ask("PING")
            latencies_ms.append((perf_counter() - began) * 1000)

    thread, usual_s = Thread(target=ping), sys.getswitchinterval()
    sys.setswitchinterval(_SWITCH_S)
    thread.start()
    try:
        yield latencies_ms
    finally:
        over.set()
        thread.join()
        sys.setswitchinterval(usual_s)


def _percentile(values: Sequence[float], percent: int) -> float:
    return values[min(len(values) * percent // 100, len(values) - 1)]


def _longest_ms(port: int) -> float:
    """The longest script call in the slow log, in ms."""
    client = Client(port)
    entries = client.ask("SLOWLOG", "GET", -1)
    client.close()
    took_us = [took for _, _, took, words, *_ in entries if words[0].startswith(b"EVAL")]
    return max(took_us, default=_SLOW_US) / 1000


def scenarios(stage: Stage) -> list[Scenario]:
    direct = stage.redis(*_SLOWLOG)
    targets = [stage.ttlproxy(direct), *stage.natives(*_SLOWLOG)]
    return [
        Scenario(
            storm.name,
            [Case(target.name, target, Weathered(storm)) for target in targets],
            (*(_FIGURES[name] for name in storm.figures), _LONGEST),
        )
        for storm in (usual.scaled(stage) for usual in STORMS)
    ]
