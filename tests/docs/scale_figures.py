"""What many proxies cost, computed from the part `fleet` of docs/figures.csv. Knows no page."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from tests.bench.parts import fleet
from tests.docs.quoted_figures import PROXY_CPU, RATE, REDIS_CPU, all_of, table
from ttlproxy.link.knowledge import announcements

MASTERS: Final = 30
# Up to so many proxies hear of all keys, further ones ask at each request.
_FEW: Final = announcements.FEW
_ALL, _ON_DEMAND = fleet.MODES
_KINDS: Final = {_ALL: "get broadcasts", _ON_DEMAND: "ask at each request"}
# How proxies may be attached, and how many they are.
_WAYS: Final = {
    "a tier of 10": 10,
    "one on each of 50 nodes": 50,
    "a sidecar in each of 1,000 pods": 1000,
    "a sidecar in each of 10,000 pods": 10_000,
}
_ANNOUNCED, _IDLE, _START = "HSETEX, announced", "idle", "start of one"
# Requests for which a proxy that asks pays more, or does not.
_ASKED: Final = (
    "GET, keys named once",
    "HSETEX, keys named again",
    "HGET, keys of a family with deadlines named once",
)


def _values(test: str, name: str) -> dict[str, float]:
    """A figure of a test by its target, in the order of the file."""
    rows = [each for each in all_of("fleet") if (each.test, each.figure) == (test, name)]
    return {each.target: float(each.median) for each in rows}


def _managed(test: str, name: str, mode: str = _ON_DEMAND) -> tuple[str, float]:
    """The number of managed keys, in words, and the figure with them."""
    _, (target, value) = _values(f"{test}, {mode}", name).items()
    return target, value


def _storm(mode: str) -> str:
    """The name of the test with managed keys."""
    return next(
        each.test
        for each in all_of("fleet")
        if " managed keys, " in each.test and each.test.endswith(mode)
    )


def _hearing_us(attached: int) -> float:
    """CPU of Redis for a write that is announced to so many proxies; it grows evenly with them."""
    by_number = _announced(_ALL)
    fewest, most = min(by_number), max(by_number)
    each_us = (by_number[most] - by_number[fewest]) / (most - fewest)
    return by_number[fewest] + each_us * (attached - fewest)


def _announced(mode: str) -> dict[int, float]:
    """CPU of Redis for a write that is announced, by how many proxies are attached."""
    found = _values(f"{_ANNOUNCED}, {mode}", REDIS_CPU)
    return {int(key.split()[0]): us for key, us in found.items()}


def _announced_us(attached: int) -> float:
    """The same for any number, of which a few hear of all keys."""
    if attached <= _FEW:
        return _hearing_us(attached)
    looking = _announced(_ON_DEMAND)
    return max(looking.values()) + _hearing_us(_FEW) - _hearing_us(1)


def _rest_cores(attached: int, mode: str = _ON_DEMAND) -> float:
    """Of Redis, with managed keys, while nobody asks for anything."""
    return attached * _managed(_IDLE, fleet.IDLE_CPU, mode)[1] / 1e6


def _writes_of_master(attached: int) -> str:
    """How many announced writes a second a master of a Cluster can take: all hear of all keys."""
    return _shown(max(1 - _rest_cores(attached, _ALL), 0) * 1e6 / _hearing_us(attached))


def _of_rest(name: str, mode: str = _ON_DEMAND) -> Callable[[int], float]:
    return lambda attached: attached * _managed(_IDLE, name, mode)[1]


def _start_ms() -> float:
    return _values(_storm(_ON_DEMAND), fleet.STORM_CPU)["all start"]


def _shown(value: float) -> str:
    """With two digits that count."""
    if value >= 99.5:
        digits = len(str(round(value))) - 2
        return f"{round(value, -digits):,.0f}"
    return f"{value:.2g}"


def _percent(cores: float) -> str:
    return f"{_shown(cores * 100)} %"


def costs() -> str:
    rows = []
    for what, test, name, unit in (
        ("Redis, CPU at rest", _IDLE, fleet.IDLE_CPU, " µs a second"),
        ("connections of its own", _IDLE, fleet.CONNECTIONS, ""),
        ("memory", _START, fleet.MEMORY, " MiB"),
        ("first reply after its start", _START, fleet.FIRST_REPLY, " s"),
    ):
        (keys, heard), (_, asked) = (_managed(test, name, mode) for mode in fleet.MODES)
        rows.append((f"{what}, {keys}", _shown(heard) + unit, _shown(asked) + unit))
    return table(("of proxies that", *_KINDS.values()), rows)


def one_redis() -> str:
    connections = _of_rest(fleet.CONNECTIONS)
    _, mib = _managed(_START, fleet.MEMORY)
    rows = [
        (
            way,
            _shown(connections(attached)),
            _percent(_rest_cores(attached)),
            f"{_shown(_announced_us(attached))} µs",
            f"{_shown(_start_ms() * attached / 1000)} s",
            f"{_shown(mib * attached / 1024)} GiB",
        )
        for way, attached in _WAYS.items()
    ]
    head = (
        *("proxies", "connections of theirs", "Redis at rest, of a core", "an announced write"),
        *("Redis, CPU when all start", "memory of all proxies"),
    )
    return table(head, rows)


def masters() -> str:
    connections = _of_rest(fleet.CONNECTIONS, _ALL)
    rows = [
        (
            way,
            _shown(connections(attached)),
            _percent(_rest_cores(attached, _ALL)),
            _writes_of_master(attached),
        )
        for way, attached in _WAYS.items()
    ]
    head = ("proxies", "connections to each master", "each master at rest, of a core")
    return table((*head, "announced writes a second to each, at most"), rows)


def storms() -> str:
    names = (fleet.PING, fleet.ALL_DONE, fleet.STORM_CPU)
    rows = []
    for mode in fleet.MODES:
        found = [_values(_storm(mode), name) for name in names]
        rows += [
            (target, _KINDS[mode], *(_shown(each[target]) for each in found))
            for target in found[0]
            if target.startswith("all ")
        ]
    head = ("1,000 proxies", "which", "PING p99, ms", fleet.ALL_DONE, fleet.STORM_CPU)
    return table(head, rows)


def knowledge() -> str:
    """What asking at each request costs, beside hearing of all: both in one run."""
    found = {each[:5]: each for each in all_of("knowledge")}
    rows = []
    for (_, test, pipeline, target, name), each in found.items():
        if test not in _ASKED or name != RATE or target != _ON_DEMAND:
            continue
        costs_us = [
            float(found["knowledge", test, pipeline, _ON_DEMAND, cpu].median)
            - float(found["knowledge", test, pipeline, _ALL, cpu].median)
            for cpu in (REDIS_CPU, PROXY_CPU)
        ]
        rows.append((test, pipeline, each.ratio, *(f"{_shown(us)} µs" for us in costs_us)))
    head = ("", "pipeline", "requests/s, relative", "Redis, more CPU", "proxy, more CPU")
    return table(head, rows)


SECTIONS: Final = {
    "scale one Redis": one_redis,
    "scale costs": costs,
    "scale knowledge": knowledge,
    "scale masters": masters,
    "scale storms": storms,
}
