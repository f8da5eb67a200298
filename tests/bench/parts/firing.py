"""What each action of ONEXPIRE costs for an element, and whether pending elements matter.

Elements of a hundred hashes fall due at the same moment. Nothing else happens, so all that Redis
and the proxy spend until the last one is gone is spent on them.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass

from tests.bench import usage
from tests.bench.loads import FAR_MS, Run, Words, fill
from tests.bench.measures import found
from tests.bench.scenarios import Case, Scenario
from tests.bench.targets import Stage, Target
from tests.support.redis_client import Client

RATE, REDIS, PROXY = "elements fired/s", "Redis, µs of CPU each", "proxy, µs of CPU each"
_MEASURES = [found(name) for name in (RATE, REDIS, PROXY)]
_HASHES, _ELEMENTS, _TOGETHER = 100, 100_000, 100
_PENDING = (0, 100_000, 1_000_000)
# A guess: the time to write an element that falls due afterwards.
_WRITE_MS = 0.05
_LOOK_S = 0.005
_MOST_S = 120.0

_ACTIONS: dict[str, Words] = {
    "DEL": (),
    "RPUSH": ("RPUSH", "dest"),
    "RPUSH EVENT": ("RPUSH", "dest", "EVENT"),
    "RPUSH MAX": ("RPUSH", "dest", "MAX", 5, "ELSE", "dead"),
    "XADD": ("XADD", "dest"),
    "PUBLISH": ("PUBLISH", "dest"),
    "KEEP": ("KEEP",),
}


@dataclass(frozen=True)
class Fired:
    """So many elements of hashes that match a rule; `pending` others have a far deadline."""

    action: Words
    elements: int
    pending: int = 0

    def __call__(self, target: Target) -> Run:
        assert target.proxy
        direct, proxy = Client(target.redis.port), Client(target.port)
        direct.ask("FLUSHALL")
        if self.action:
            proxy.ask("ONEXPIRE", "k*", *self.action)
        fill(target, _written(FAR_MS, self.pending, "far"), pipeline=20)
        due_ms = self._write(target, direct)
        time.sleep((due_ms - direct.now_ms()) / 1000)
        pids = (target.redis.pid, target.proxy.pid)
        before = [usage.cpu_us(pid) for pid in pids]
        _await(direct, self.pending)
        seconds = (direct.now_ms() - due_ms) / 1000
        spent = [usage.cpu_us(pid) - then for pid, then in zip(pids, before, strict=True)]
        direct.close()
        proxy.close()
        redis_us, proxy_us = (us / self.elements for us in spent)
        return Run(found={RATE: self.elements / seconds, REDIS: redis_us, PROXY: proxy_us})

    def _write(self, target: Target, direct: Client) -> int:
        """Writes the elements; returns their deadline in ms, which has not passed by then."""
        lead_ms = 500 + int(self.elements * _WRITE_MS)
        while True:
            due_ms = direct.now_ms() + lead_ms
            fill(target, _written(due_ms, self.elements, "due"), pipeline=20)
            if direct.now_ms() < due_ms:
                return due_ms
            lead_ms *= 3


def _written(at_ms: int, elements: int, name: str) -> Iterator[Words]:
    for number in range(elements // _TOGETHER):
        pairs = [word for each in range(_TOGETHER) for word in (f"{name}{number}:{each}", "v" * 32)]
        key = f"k{number % _HASHES}"
        yield ("HSETEX", key, "PXAT", at_ms, "FIELDS", _TOGETHER, *pairs)


def _await(direct: Client, pending: int) -> None:
    """Waits until only the pending elements are left. It checks one key after the other, because
    each check is work for Redis, too."""
    looks = int(_MOST_S / _LOOK_S)
    for number in range(_HASHES):
        left = len(range(number, pending // _TOGETHER, _HASHES)) * _TOGETHER
        while direct.ask("HLEN", f"k{number}") > left:
            looks -= 1
            if not looks:
                raise TimeoutError(f"not all have fired within {_MOST_S} s")
            time.sleep(_LOOK_S)


def scenarios(stage: Stage) -> list[Scenario]:
    target = stage.ttlproxy(stage.redis())
    elements = max(stage.scaled(_ELEMENTS) // _TOGETHER, 1) * _TOGETHER
    actions = [Case(name, target, Fired(words, elements)) for name, words in _ACTIONS.items()]
    pending = [
        Case(f"{count:,} pending", target, Fired(_ACTIONS["RPUSH"], elements, count))
        for count in (stage.scaled(usual, 0) for usual in _PENDING)
    ]
    return [
        Scenario(f"{elements:,} due at once, in {_HASHES} hashes", actions, _MEASURES),
        Scenario(f"{elements:,} due at once, RPUSH", pending, _MEASURES),
    ]
