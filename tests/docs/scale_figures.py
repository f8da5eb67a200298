"""What many proxies cost, computed from the part `fleet` of docs/figures.csv. Knows no page."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from tests.bench.parts import fleet
from tests.docs.quoted_figures import PROXY_CPU, RATE, REDIS_CPU, all_of, table
from ttlproxy.link.knowledge import modes

PODS: Final = (10, 100, 1000, 10_000)
MASTERS: Final = 30
# Up to so many proxies hear of all keys, further ones ask at each request.
_FEW: Final = modes.FEW
_ALL, _ON_DEMAND = fleet.MODES
# A fleet of a thousand pods: how many proxies are attached if each pod has one, and else.
_WAYS: Final = {
    "a sidecar in each of 1,000 pods": 1000,
    "one on each of 50 nodes": 50,
    "a tier of 10": 10,
}
_ANNOUNCED, _LATER, _IDLE, _START = (
    "HSETEX, announced",
    "HSETEX, not announced",
    "idle",
    "start of one",
)


def _values(test: str, name: str) -> dict[str, float]:
    """A figure of a test by its target, in the order of the file."""
    rows = [each for each in all_of("fleet") if (each.test, each.figure) == (test, name)]
    return {each.target: float(each.median) for each in rows}


def _empty_and_managed(test: str, name: str) -> tuple[float, float]:
    empty, managed = _values(test, name).values()
    return empty, managed


def _managed_keys(test: str, name: str) -> str:
    _, target = _values(test, name)
    return target


def _storms(mode: str) -> list[str]:
    """The names of the tests, the one on an empty Redis first."""
    found = dict.fromkeys(each.test for each in all_of("fleet") if " proxies, " in each.test)
    return [name for name in found if name.endswith(mode)]


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
    return attached * _of_mode(_IDLE, fleet.IDLE_CPU, mode)[1] / 1e6


def _of_mode(test: str, name: str, mode: str = _ON_DEMAND) -> tuple[float, float]:
    return _empty_and_managed(f"{test}, {mode}", name)


def _writes(attached: int) -> str:
    """How many announced writes a second one Redis can take."""
    return _shown(max(1 - _rest_cores(attached), 0) * 1e6 / _announced_us(attached))


def _writes_of_master(attached: int) -> str:
    """The same for a master of a Cluster, where all hear of all keys."""
    return _shown(max(1 - _rest_cores(attached, _ALL), 0) * 1e6 / _hearing_us(attached))


def _of_rest(name: str, mode: str = _ON_DEMAND) -> Callable[[int], float]:
    return lambda attached: attached * _of_mode(_IDLE, name, mode)[1]


def _start_ms(mode: str = _ON_DEMAND) -> float:
    return _values(_storms(mode)[-1], fleet.STORM_CPU)["all start"]


def _shown(value: float) -> str:
    """With two digits that count."""
    if value >= 99.5:
        digits = len(str(round(value))) - 2
        return f"{round(value, -digits):,.0f}"
    return f"{value:.2g}"


def _percent(cores: float) -> str:
    return f"{_shown(cores * 100)} %"


def costs() -> str:
    managed = _managed_keys(f"{_IDLE}, {_ALL}", fleet.IDLE_CPU)
    most = _managed_keys(f"{_START}, {_ALL}", fleet.MEMORY)
    rows = [
        (
            f"Redis, CPU of a write that is announced, {number:,} attached",
            *(f"{_shown(_announced(mode)[number])} µs" for mode in fleet.MODES),
        )
        for number in fleet.ATTACHED
    ]
    later = [max(_values(f"{_LATER}, {mode}", REDIS_CPU).values()) for mode in fleet.MODES]
    rows += [
        (
            "Redis, CPU of a write that is not announced, any number",
            *(f"{_shown(each)} µs" for each in later),
        ),
        *_both("Redis, CPU of a proxy at rest", managed, _IDLE, fleet.IDLE_CPU, " µs a second"),
        *_both("commands of a proxy at rest", managed, _IDLE, fleet.IDLE_COMMANDS, " a second"),
        *_both("traffic of a proxy at rest", managed, _IDLE, fleet.IDLE_BYTES, " B a second"),
        *_both("connections of a proxy, of its own", managed, _IDLE, fleet.CONNECTIONS, "")[1:],
        *_both("Redis, memory for these", managed, _IDLE, fleet.BUFFERS, " KiB")[1:],
        *_both("memory of a proxy", most, _START, fleet.MEMORY, " MiB"),
        *_both("first reply after the start of a proxy", most, _START, fleet.FIRST_REPLY, " s"),
        (
            "Redis, CPU of the start of one of a thousand",
            *(f"{_shown(_start_ms(mode))} ms" for mode in fleet.MODES),
        ),
    ]
    return table(("what", "gets broadcasts", "asks at each request"), rows)


def _both(what: str, managed: str, test: str, name: str, unit: str) -> list[tuple[str, str, str]]:
    """A row for an empty Redis, and one with managed keys."""
    all_, asked = (_of_mode(test, name, mode) for mode in fleet.MODES)
    return [
        (f"{what}, {keys}", _shown(all_[at]) + unit, _shown(asked[at]) + unit)
        for at, keys in enumerate(("empty Redis", managed))
    ]


def one_redis() -> str:
    connections, commands = _of_rest(fleet.CONNECTIONS), _of_rest(fleet.IDLE_COMMANDS)
    sent, kib = _of_rest(fleet.IDLE_BYTES), _of_rest(fleet.BUFFERS)
    mib = _of_mode(_START, fleet.MEMORY)[1]
    rows = [
        (
            f"{pods:,}",
            _shown(connections(pods)),
            f"{_shown(kib(pods) / 1024)} MiB",
            _shown(commands(pods)),
            f"{_shown(sent(pods) / 1e6)} MB",
            _percent(_rest_cores(pods)),
            f"{_shown(_announced_us(pods))} µs",
            _writes(pods),
            f"{_shown(_start_ms() * pods / 1000)} s",
            f"{_shown(mib * pods / 1024)} GiB",
        )
        for pods in PODS
    ]
    head = (
        *("pods", "connections", "Redis's memory for them", "commands a second", "bytes a second"),
        *("of a core", "an announced write", "such writes a second, at most", "all starts"),
    )
    return table((*head, "memory of all proxies"), rows)


def masters() -> str:
    connections, commands = _of_rest(fleet.CONNECTIONS, _ALL), _of_rest(fleet.IDLE_COMMANDS, _ALL)
    rows = [
        (
            f"{pods:,}",
            _shown(connections(pods)),
            _shown(connections(1) * MASTERS),
            _shown(commands(pods) * MASTERS),
            _percent(_rest_cores(pods, _ALL)),
            _writes_of_master(pods),
        )
        for pods in PODS
    ]
    head = ("pods", "connections to each master", "of each proxy", "commands a second, all masters")
    return table((*head, "of a core, each master", "announced writes a second to each"), rows)


def ways() -> str:
    rows = [
        (way, _percent(_rest_cores(attached)), f"{_shown(_announced_us(attached))} µs")
        for way, attached in _WAYS.items()
    ]
    return table(("proxies", "Redis at rest, of a core", "an announced write"), rows)


def storms() -> str:
    rows = []
    for test in (name for mode in fleet.MODES for name in _storms(mode)):
        for target, ping_ms in _values(test, fleet.PING_CPU).items():
            wall, took, cpu, kib = (
                _shown(_values(test, name)[target])
                for name in (fleet.PING, fleet.ALL_DONE, fleet.STORM_CPU, fleet.STORM_KIB)
            )
            rows.append((test, target, _shown(ping_ms), wall, took, cpu, kib))
    names = (fleet.ALL_DONE, fleet.STORM_CPU, fleet.STORM_KIB)
    return table(("", "what happens", "PING p99, ms of Redis's CPU", "by the clock", *names), rows)


def knowledge() -> str:
    """What asking at each request costs, beside hearing of all: both in one run."""
    found = {each[:5]: each for each in all_of("knowledge")}
    rows = []
    for (_, test, pipeline, target, name), each in found.items():
        if name != RATE or target != _ON_DEMAND:
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
    "scale knowledge": knowledge,
    "scale costs": costs,
    "scale one Redis": one_redis,
    "scale masters": masters,
    "scale ways": ways,
    "scale storms": storms,
}
