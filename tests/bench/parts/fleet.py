"""A thousand proxies attached to one Redis: writes, rest, a start, and what they all do at once.

Each scenario is for one way of knowing what is due: `MODES` says whether proxies ask.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count, islice
from time import perf_counter
from typing import Final

from tests.bench import usage
from tests.bench.fleet import Fleet, Size, pinged
from tests.bench.loads import FAR_MS, Replay, Run, Words, fill
from tests.bench.measures import RATE, REDIS_CPU, found
from tests.bench.scenarios import Case, Scenario
from tests.bench.targets import Stage, Target
from tests.support.raw_client import Connection
from tests.support.server_queries import clients, info
from tests.support.servers import Proxy

MODES: Final[Mapping[str, bool]] = {"broadcast": False, "on demand": True}

ATTACHED: Final = (1, 50, 200, 1000)
STORM: Final = Size(real=100, replayed=900)
IDLE: Final = 100
# So many keys are there to look for; their deadlines are far.
FEW_MANAGED, MANAGED = 6000, 1_000_000
IDLE_CPU, IDLE_COMMANDS = "Redis, µs of CPU a second and proxy", "commands a second and proxy"
IDLE_BYTES, CONNECTIONS = "bytes a second and proxy", "connections a proxy"
BUFFERS: Final = "Redis, KiB for a proxy's connections"
FIRST_REPLY, START_CPU = "s until the first reply", "Redis, ms of CPU a start"
MEMORY: Final = "MiB of a proxy"
PING, ALL_DONE = "PING p99 meanwhile, ms", "s until all are done"
PING_CPU: Final = "of it, ms of Redis's CPU"
STORM_CPU, STORM_KIB = "Redis, ms of CPU a proxy", "KiB sent to a proxy"

_REQUESTS = 1000
_LATER_KEYS = 100
_REST_S = 10.0
# Members that no storm is made of start within this time.
_CALM_S = 10.0
# What begins with a start is over: the second heartbeats, and the first walk over the data, which
# begins within 40 s and takes 25.
_SETTLED_S = 75.0
_STORM_S = 1.0
_MANY_CLIENTS = ("--maxclients", "12000")


class Makes:
    """HSETEX on a new key each: it becomes managed, which is announced."""

    def __init__(self, requests: int) -> None:
        self._requests = requests
        self._words = self._all()

    def __call__(self, target: Target) -> Run:
        return _alone(list(islice(self._words, self._requests)))(target)

    @staticmethod
    def _all() -> Iterator[Words]:
        return (_hsetex(f"new:{number}", FAR_MS) for number in count())


class Moves:
    """HSETEX on keys that are managed: each deadline is later than those that are there."""

    def __init__(self, requests: int) -> None:
        self._requests = requests
        self._words = self._all()
        self._managed = False

    def __call__(self, target: Target) -> Run:
        if not self._managed:  # again, it would bring the first deadlines forward
            fill(target, [_hsetex(f"known:{key}", FAR_MS) for key in range(_LATER_KEYS)])
            self._managed = True
        return _alone(list(islice(self._words, self._requests)))(target)

    @staticmethod
    def _all() -> Iterator[Words]:
        return (_hsetex(f"known:{n % _LATER_KEYS}", FAR_MS + 1 + n) for n in count())


def _hsetex(key: str, deadline_ms: int) -> Words:
    return ("HSETEX", key, "PXAT", deadline_ms, "FIELDS", 1, "field", "v")


def _alone(script: Sequence[Words]) -> Replay:
    """From one client: announcements of several would be pushed together."""
    return Replay(script, len(script), clients=1)


@dataclass(frozen=True)
class Idle:
    """Proxies that nobody asks for anything, beside a Redis that none is attached to.

    Before and after, none is attached here either.
    """

    fleet: Fleet
    unattached: Target
    share: float

    def __call__(self, target: Target) -> Run:
        self.fleet.start(_CALM_S * self.share)
        time.sleep(_SETTLED_S * min(self.share * 10, 1))
        run = self._rest(target)
        self.fleet.stop()
        return run

    def _rest(self, target: Target) -> Run:
        attached, seconds = self.fleet.size.all, max(_REST_S * self.share, 0.2)
        began = self._used(target)
        time.sleep(seconds)
        cpu_us, commands, sent = (
            (now - then) / seconds / attached
            for now, then in zip(self._used(target), began, strict=True)
        )
        ports = (target.port, self.unattached.port)
        connections, buffers = (
            (measure(ports[0]) - measure(ports[1])) / attached for measure in (clients, _buffers)
        )
        return Run(
            found={
                IDLE_CPU: cpu_us,
                IDLE_COMMANDS: commands,
                IDLE_BYTES: sent,
                CONNECTIONS: connections,
                BUFFERS: buffers / 1024,
            }
        )

    def _used(self, target: Target) -> tuple[float, float, float]:
        """(µs of CPU, commands, bytes) beyond those of the other Redis, which this asks as much."""
        of_both = [
            (usage.cpu_us(each.redis.pid), *_traffic(each.port))
            for each in (target, self.unattached)
        ]
        cpu_us, commands, sent = (mine - other for mine, other in zip(*of_both, strict=True))
        return cpu_us, commands, sent


def _buffers(port: int) -> int:
    """Bytes of Redis for its clients."""
    return int(info(port, "memory")["mem_clients_normal"])


def _traffic(port: int) -> tuple[int, int]:
    """The commands that Redis has carried out so far, and the bytes received and sent."""
    stats = info(port, "stats")
    received, sent = (int(stats[f"total_net_{way}_bytes"]) for way in ("input", "output"))
    return int(stats["total_commands_processed"]), received + sent


@dataclass(frozen=True)
class Started:
    """A proxy, from its start to the first reply."""

    asks: bool

    def __call__(self, target: Target) -> Run:
        proxy, before = Proxy(target.redis.url, asks=self.asks), usage.cpu_us(target.redis.pid)
        began_s = perf_counter()
        try:
            with Connection(proxy.start().port, timeout_s=120) as client:
                client.ask("GET", "none")
                took_s = perf_counter() - began_s
            used_us = usage.cpu_us(target.redis.pid) - before
            mib = proxy.rss_bytes() / 2**20
        finally:
            proxy.remove()
        return Run(
            found={FIRST_REPLY: took_s, START_CPU: used_us / 1000, MEMORY: mib},
        )


class Storm:
    """What all members of a fleet do at once, and what another client of Redis notices.

    Before and after, none is attached.
    """

    def __init__(self, fleet: Fleet, within_s: float) -> None:
        self._fleet = fleet
        self._within_s = within_s

    def rest(self, target: Target) -> Run:
        return self._measured(target, lambda: time.sleep(max(self._within_s, 0.1)))

    def start(self, target: Target) -> Run:
        run = self._measured(target, lambda: self._fleet.start(self._within_s))
        self._fleet.stop()
        return run

    def drain(self, target: Target) -> Run:
        self._fleet.start(self._within_s)
        return self._measured(target, lambda: self._fleet.stop(self._within_s))

    def reconnect(self, target: Target) -> Run:
        """They lose Redis, which comes back with its data."""
        self._fleet.start(self._within_s)
        target.redis.kill_and_keep()
        self._fleet.until_lost()
        target.redis.restart()
        run = self._measured(target, self._fleet.until_serving)
        self._fleet.stop()
        return run

    def _measured(self, target: Target, happens: Callable[[], object]) -> Run:
        before, (_, sent) = usage.cpu_us(target.redis.pid), _traffic(target.port)
        began_s = perf_counter()
        with pinged(target.redis) as latencies:
            happens()
        took_s = perf_counter() - began_s
        used_us, (_, now_sent) = usage.cpu_us(target.redis.pid) - before, _traffic(target.port)
        members = self._fleet.size.all
        ping = latencies.percentile(99)
        return Run(
            found={
                PING: ping.wall,
                PING_CPU: ping.redis,
                ALL_DONE: took_s,
                STORM_CPU: used_us / 1000 / members,
                STORM_KIB: (now_sent - sent) / 1024 / members,
            }
        )


def scenarios(stage: Stage) -> list[Scenario]:
    unattached, full = stage.redis(), stage.redis()
    _manage(full, stage.scaled(MANAGED))
    made = []
    for mode, asks in MODES.items():
        made += [
            *_writes(stage, mode, asks),
            _idle(stage, mode, asks, unattached),
            _starts(stage, mode, asks, unattached, full),
            _storms(stage, mode, asks, managed=0),
            _storms(stage, mode, asks, managed=stage.scaled(FEW_MANAGED)),
        ]
    return made


def _writes(stage: Stage, mode: str, asks: bool) -> list[Scenario]:
    # A small share scales the numbers down, so two of them may be equal.
    counts = dict.fromkeys(stage.scaled(number) for number in ATTACHED)
    writers = {number: _writer(stage, number, asks) for number in counts}
    requests = stage.scaled(_REQUESTS)
    return [
        Scenario(
            f"{name}, {mode}",
            [
                Case(f"{number} attached", writer, load(requests))
                for number, writer in writers.items()
            ],
            (REDIS_CPU, RATE),
            pipeline=1,
        )
        for name, load in (("HSETEX, announced", Makes), ("HSETEX, not announced", Moves))
    ]


def _writer(stage: Stage, attached: int, asks: bool) -> Target:
    """A proxy in front of a Redis with so many proxies, this one among them."""
    direct = stage.redis(*_MANY_CLIENTS)
    if attached > 1:
        _fleet(stage, direct, Size(0, attached - 1), asks).start(_CALM_S * stage.share)
    return stage.ttlproxy(direct, asks=asks)


def _idle(stage: Stage, mode: str, asks: bool, unattached: Target) -> Scenario:
    cases = []
    for managed in (0, stage.scaled(FEW_MANAGED)):
        direct = stage.redis(*_MANY_CLIENTS)
        _manage(direct, managed)
        fleet = _fleet(stage, direct, Size(stage.scaled(IDLE), 0), asks)
        cases.append(Case(_keys(managed), direct, Idle(fleet, unattached, stage.share)))
    measures = [found(name) for name in (IDLE_CPU, IDLE_COMMANDS, IDLE_BYTES, CONNECTIONS, BUFFERS)]
    return Scenario(f"idle, {mode}", cases, measures)


def _starts(stage: Stage, mode: str, asks: bool, empty: Target, full: Target) -> Scenario:
    cases = [
        Case(_keys(0), empty, Started(asks)),
        Case(_keys(stage.scaled(MANAGED)), full, Started(asks)),
    ]
    measures = [found(name) for name in (FIRST_REPLY, START_CPU, MEMORY)]
    return Scenario(f"start of one, {mode}", cases, measures)


def _storms(stage: Stage, mode: str, asks: bool, managed: int) -> Scenario:
    direct = stage.redis(*_MANY_CLIENTS)
    _manage(direct, managed)
    size = Size(*map(stage.scaled, STORM))
    fleet = _fleet(stage, direct, size, asks, restarts=True)
    storm = Storm(fleet, min(_STORM_S * stage.share, _STORM_S))
    loads = {
        "none attached": storm.rest,
        "all start": storm.start,
        "all reconnect": storm.reconnect,
        "all drain": storm.drain,
    }
    return Scenario(
        f"{size.all:,} proxies, {_keys(managed)}, {mode}",
        [Case(name, direct, load) for name, load in loads.items()],
        [found(name) for name in (PING, PING_CPU, ALL_DONE, STORM_CPU, STORM_KIB)],
    )


def _fleet(stage: Stage, direct: Target, size: Size, asks: bool, restarts: bool = False) -> Fleet:
    fleet = Fleet(direct.redis, size, asks=asks, restarts=restarts)
    stage.at_end(fleet.close)
    return fleet


def _manage(direct: Target, count: int) -> None:
    """So many managed keys, written by a proxy that is gone afterwards."""
    if not count:
        return
    proxy = Proxy(direct.redis.url)
    try:
        writer = Target("writer", proxy.start().port, direct.redis, proxy)
        fill(writer, (_hsetex(f"key:{number:012}", FAR_MS) for number in range(count)))
    finally:
        proxy.remove()


def _keys(managed: int) -> str:
    return f"{managed:,} managed keys" if managed else "empty Redis"
