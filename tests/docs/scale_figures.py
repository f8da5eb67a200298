"""What many proxies cost, computed from the part `fleet` of docs/figures.csv. Knows no page."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from tests.bench.parts import fleet
from tests.docs.quoted_figures import all_of, table

PODS: Final = (10, 100, 1000, 10_000)
MASTERS: Final = 30
_MODE: Final = "broadcast"
# A fleet of a thousand pods: how many proxies are attached if each pod has one, and else.
_WAYS: Final = {
    "a sidecar in each of 1,000 pods": 1000,
    "one on each of 50 nodes": 50,
    "a tier of 10": 10,
}
_ANNOUNCED: Final = f"HSETEX, announced, {_MODE}"
_LATER: Final = f"HSETEX, not announced, {_MODE}"
_IDLE: Final = f"idle, {_MODE}"
_START: Final = f"start of one, {_MODE}"
_REDIS_CPU: Final = "Redis, µs of CPU a request"


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


def _storms() -> list[str]:
    """The names of the tests, the one on an empty Redis first."""
    found = dict.fromkeys(each.test for each in all_of("fleet") if " proxies, " in each.test)
    return list(found)


def _announced_us(attached: int) -> float:
    """CPU of Redis for a write that is announced; it grows evenly with those that hear of it."""
    by_number = {int(key.split()[0]): us for key, us in _values(_ANNOUNCED, _REDIS_CPU).items()}
    fewest, most = min(by_number), max(by_number)
    each_us = (by_number[most] - by_number[fewest]) / (most - fewest)
    return by_number[fewest] + each_us * (attached - fewest)


def _rest_cores(attached: int) -> float:
    """Of Redis, with managed keys, while nobody asks for anything."""
    return attached * _empty_and_managed(_IDLE, fleet.IDLE_CPU)[1] / 1e6


def _writes(attached: int) -> str:
    """How many announced writes a second one Redis can take."""
    return _shown(max(1 - _rest_cores(attached), 0) * 1e6 / _announced_us(attached))


def _of_rest(name: str) -> Callable[[int], float]:
    return lambda attached: attached * _empty_and_managed(_IDLE, name)[1]


def _start_ms() -> float:
    return _values(_storms()[-1], fleet.STORM_CPU)["all start"]


def _shown(value: float) -> str:
    """With two digits that count."""
    if value >= 100:
        digits = len(str(int(value))) - 2
        return f"{round(value, -digits):,.0f}"
    return f"{value:.2g}"


def _percent(cores: float) -> str:
    return f"{_shown(cores * 100)} %"


def costs() -> str:
    managed = _managed_keys(_IDLE, fleet.IDLE_CPU)
    one_us, two_us = _announced_us(1), _announced_us(2)
    rest = [_shown(each) for each in _empty_and_managed(_IDLE, fleet.IDLE_CPU)]
    commands = [_shown(each) for each in _empty_and_managed(_IDLE, fleet.IDLE_COMMANDS)]
    sent = [_shown(each / 1000) for each in _empty_and_managed(_IDLE, fleet.IDLE_BYTES)]
    mib = [_shown(each) for each in _empty_and_managed(_START, fleet.MEMORY)]
    later = max(_values(_LATER, _REDIS_CPU).values())
    connections, kib = (
        _shown(_empty_and_managed(_IDLE, name)[1]) for name in (fleet.CONNECTIONS, fleet.BUFFERS)
    )
    rows = [
        ("Redis, CPU of a write that is announced, one proxy", f"{_shown(one_us)} µs"),
        ("the same, for each further proxy", f"{_shown(two_us - one_us)} µs"),
        ("Redis, CPU of a write that is not announced, any number", f"{_shown(later)} µs"),
        ("Redis, CPU of a proxy at rest, empty", f"{rest[0]} µs a second"),
        (f"the same, {managed}", f"{rest[1]} µs a second"),
        (f"commands of a proxy at rest, empty; {managed}", f"{'; '.join(commands)} a second"),
        (f"traffic of a proxy at rest, empty; {managed}", f"{'; '.join(sent)} kB a second"),
        ("connections of a proxy, beside those of its clients", connections),
        ("Redis, memory for these", f"{kib} KiB"),
        ("memory of a proxy, empty", f"{mib[0]} MiB"),
        (f"the same, {_managed_keys(_START, fleet.MEMORY)}", f"{mib[1]} MiB"),
        ("Redis, CPU of the start of a proxy", f"{_shown(_start_ms())} ms"),
    ]
    return table(("what", "measured"), rows)


def one_redis() -> str:
    connections, commands = _of_rest(fleet.CONNECTIONS), _of_rest(fleet.IDLE_COMMANDS)
    sent, kib = _of_rest(fleet.IDLE_BYTES), _of_rest(fleet.BUFFERS)
    mib = _empty_and_managed(_START, fleet.MEMORY)[1]
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
    connections, commands = _of_rest(fleet.CONNECTIONS), _of_rest(fleet.IDLE_COMMANDS)
    rows = [
        (
            f"{pods:,}",
            _shown(connections(pods)),
            _shown(connections(1) * MASTERS),
            _shown(commands(pods) * MASTERS),
            _percent(_rest_cores(pods)),
            _writes(pods),
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
    for test in _storms():
        for target, ping_ms in _values(test, fleet.PING_CPU).items():
            wall, took, cpu, kib = (
                _shown(_values(test, name)[target])
                for name in (fleet.PING, fleet.ALL_DONE, fleet.STORM_CPU, fleet.STORM_KIB)
            )
            what = test.removesuffix(f", {_MODE}")
            rows.append((what, target, _shown(ping_ms), wall, took, cpu, kib))
    names = (fleet.ALL_DONE, fleet.STORM_CPU, fleet.STORM_KIB)
    return table(("", "what happens", "PING p99, ms of Redis's CPU", "by the clock", *names), rows)


SECTIONS: Final = {
    "scale costs": costs,
    "scale one Redis": one_redis,
    "scale masters": masters,
    "scale ways": ways,
    "scale storms": storms,
}
