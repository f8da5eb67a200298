"""The figures that pages quote, as tables made from docs/figures.csv. Knows no page."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final, NamedTuple

FILE: Final = Path(__file__).parents[2] / "docs" / "figures.csv"
RATE: Final = "requests/s"
PROXY_CPU: Final = "proxy, µs of CPU a request"
REDIS_CPU: Final = "Redis, µs of CPU a request"
_SCRIPTS: Final = {
    "least script, direct": "a script of TIME, ZADD and HSET, direct",
    "same script, direct": "the proxy's script, direct",
    "ttlproxy": "ttlproxy",
    "redis-8.2": "HSETEX of Redis 8.2",
}
_PIPELINES: Final = ("1", "16", "64", "256")


class Figure(NamedTuple):
    """A row of the file: numbers as text, empty if there are none."""

    part: str
    test: str
    pipeline: str
    target: str
    figure: str
    median: str
    min: str
    max: str
    ratio: str
    of: str
    of_haproxy: str

    @property
    def spread(self) -> str:
        """The median, and the least and the greatest value of the rounds."""
        if not self.min or not self.max:
            return number(self.median)
        return f"{number(self.median)} ({number(self.min)} to {number(self.max)})"


def number(text: str) -> str:
    """The number with commas between thousands."""
    value = float(text)
    return f"{value:,.0f}" if abs(value) >= 1000 else text


def read(path: Path) -> dict[tuple[str, ...], Figure]:
    """The figures of a file, keyed by the first five columns."""
    with path.open(encoding="utf-8", newline="") as file:
        lines = list(csv.reader(file))
    assert tuple(lines[0]) == Figure._fields
    figures = [Figure(*line) for line in lines[1:]]
    found: dict[tuple[str, ...], Figure] = {figure[:5]: figure for figure in figures}
    assert len(found) == len(figures), "a figure stands there twice"
    return found


_FIGURES: Final = read(FILE)


def figure(part: str, test: str, pipeline: str, target: str, name: str) -> Figure:
    return _FIGURES[part, test, pipeline, target, name]


def all_of(part: str) -> list[Figure]:
    return [each for each in _FIGURES.values() if each.part == part]


def _tests(part: str) -> list[str]:
    return list(dict.fromkeys(each.test for each in _FIGURES.values() if each.part == part))


def _targets(part: str) -> list[str]:
    return list(dict.fromkeys(each.target for each in _FIGURES.values() if each.part == part))


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [f"| {' | '.join(row)} |" for row in (head, *rows)]
    return "\n".join([lines[0], f"|{'---|' * len(head)}", *lines[1:]])


def forwarding() -> str:
    head = ("test", "pipeline", "direct", "HAProxy", "twemproxy", "ttlproxy")
    rows = []
    for name in ("GET", "SET"):
        for pipeline in _PIPELINES:
            rates = [
                figure("forwarding", f"{name} 64 B, 50 clients", pipeline, target, RATE)
                for target in ("direct", "haproxy", "twemproxy", "ttlproxy")
            ]
            ours = rates[-1]
            cells = (number(rate.median) for rate in rates)
            rows.append([name, pipeline, *cells, ours.ratio, ours.of_haproxy])
    return table((*head, "relative to direct", "relative to HAProxy"), rows)


def latency() -> str:
    names = ("p50, µs", "p99, µs", "p99.9, µs", "added p50, µs", "added p99, µs")
    rows = []
    for test in _tests("latency"):
        for target in ("direct", "haproxy", "twemproxy", "ttlproxy"):
            cells = [_FIGURES.get(("latency", test, "1", target, name)) for name in names]
            medians = [number(cell.median) if cell else "-" for cell in cells]
            ratio = cells[3].of_haproxy if cells[3] else "-"
            rows.append([test.split()[0], target, *medians, ratio])
    return table(("request", "target", *names, "added p50, relative to HAProxy"), rows)


def managed() -> str:
    reads = ("HGET", "HGETALL", "SISMEMBER", "ZSCORE", "LRANGE")
    writes = ("HSET", "HINCRBY", "SADD", "ZADD", "LSET")
    rows = []
    for name in reads + writes:
        for pipeline in ("1", "16"):
            rates, cpus = (
                [
                    figure("managed", name, pipeline, f"{which} deadlines", what)
                    for which in ("no", "far")
                ]
                for what in (RATE, PROXY_CPU)
            )
            rows.append(
                [name, pipeline, *(number(rate.median) for rate in rates), rates[1].ratio]
                + [cpu.median for cpu in cpus]
            )
    head = ("request", "pipeline", "without deadlines, requests/s", "with far deadlines", "ratio")
    return table((*head, "proxy, µs of CPU, without", "with"), rows)


def hsetex() -> str:
    rows = []
    for target, words in _SCRIPTS.items():
        for pipeline in ("1", "16"):
            cells = [
                _FIGURES.get(("scripts", "HSETEX", pipeline, target, name))
                for name in (RATE, REDIS_CPU, PROXY_CPU)
            ]
            if any(cells):  # servers for comparison may not have been there
                shown = (number(cell.median) if cell else "-" for cell in cells)
                rows.append([words, pipeline, *shown])
    return table(("", "pipeline", RATE, "Redis, µs of CPU", "proxy, µs of CPU"), rows)


def attached() -> str:
    rows = []
    for test in _tests("attached"):
        for target in _targets("attached"):
            ratio = figure("attached", test, "1", target, REDIS_CPU).ratio
            rows.append([test.removeprefix("HSETEX, "), target.removesuffix(" attached"), ratio])
    return table(("`HSETEX`", "proxies", "Redis's CPU, relative to one proxy"), rows)


def reaping() -> str:
    names = (
        *("elements removed/s", "lag p50, ms", "lag p99, ms"),
        *("PING p99 meanwhile, ms", "longest script call, ms"),
    )
    rows = []
    for test in _tests("reaping"):
        for target in _targets("reaping"):
            cells = [_FIGURES.get(("reaping", test, "", target, name)) for name in names]
            rows.append([test, target, *(cell.spread if cell else "-" for cell in cells)])
    return table(("elements due", "target", *names), rows)


def firing() -> str:
    names = ("elements fired/s", "Redis, µs of CPU each", "proxy, µs of CPU each")
    (test,) = (each for each in _tests("firing") if each.endswith("hashes"))
    rows = [
        [action, *(number(figure("firing", test, "", action, name).median) for name in names)]
        for action in _targets("firing")
    ]
    return table(("action", *names), rows)


def tasks() -> str:
    names = ("p50, ms", "p99, ms")
    rows = [
        [target, *(figure("tasks", "delayed tasks", "", target, name).median for name in names)]
        for target in _targets("tasks")
    ]
    return table(("", *names), rows)


def cluster() -> str:
    """Each CPU time with its ratio to that of one Redis."""
    head = ("test", "pipeline", *_IN_FRONT, "Envoy")
    rows = []
    for name in ("GET", "SET"):
        for pipeline in ("1", "16", "64"):
            one, *others = (
                figure("cluster", name, pipeline, target, PROXY_CPU)
                for target in (*_IN_FRONT, "envoy, three masters")
            )
            cells = [f"{other.median} ({other.ratio})" for other in others]
            rows.append([name, pipeline, one.median, *cells])
    return table(head, rows)


_IN_FRONT: Final = ("one Redis", "one of three masters", "three masters", "three masters, shared")


def cluster_rates() -> str:
    targets = (*_IN_FRONT, "envoy, three masters", "direct, three masters")
    rows = [
        [name, pipeline]
        + [
            number(figure("cluster", f"{name}, rate", pipeline, target, RATE).median)
            for target in targets
        ]
        for name in ("GET", "SET")
        for pipeline in ("1", "16", "64")
    ]
    head = ("test", "pipeline", *_IN_FRONT, "Envoy", "a client of Clusters, direct")
    return table(head, rows)


def masters() -> str:
    """At rest, and what falls due at once; the ratios are to one Redis."""
    rows = []
    for each in _FIGURES.values():
        if each.part == "masters":
            ratio = "" if each.target == "one Redis" else f" ({each.ratio})"
            rows.append([each.test, each.target, each.figure, f"{number(each.median)}{ratio}"])
    return table(("test", "in front of", "figure", "median"), rows)


def memory() -> str:
    rows = [
        [f"proxy, {each.test}: {each.figure}", number(each.median)]
        for each in _FIGURES.values()
        if each.part == "memory"
    ]
    rows += [
        [f"Redis, {each.test}, {each.target}: {each.figure}", each.median]
        for each in _FIGURES.values()
        if each.part == "size" and each.target == "ttlproxy"
    ]
    return table(("what", "median"), rows)


def _forwarded(name: str, pipeline: str) -> Figure:
    return figure("forwarding", f"{name} 64 B, 50 clients", pipeline, "ttlproxy", RATE)


def _cpu(pipeline: str) -> str:
    return figure("forwarding", "GET 64 B, 50 clients", pipeline, "ttlproxy", PROXY_CPU).median


def _mib(test: str, name: str) -> str:
    kib = figure("memory", test, "", "ttlproxy", name).median
    return f"{float(kib) / 1024:.0f}"


def sizing() -> str:
    """The figures for planning a proxy's CPU and memory."""
    idle = figure("memory", "idle connections", "", "ttlproxy", "KiB a connection, of 1,000")
    rows = [
        ("one process, GET without a pipeline, 50 clients", f"{_rate('GET', '1')} a second"),
        ("the same with a pipeline of 16", f"{_rate('GET', '16')} a second"),
        ("CPU of the proxy a request, without a pipeline", f"{_cpu('1')} µs"),
        ("the same with a pipeline of 16", f"{_cpu('16')} µs"),
        ("memory of a process at start", f"{_mib('at rest', 'KiB at rest')} MiB"),
        ("memory of an idle client", f"{idle.median} KiB"),
        ("memory in Redis for a deadline", "32 bytes if its key has up to 128, else 118 to 126"),
    ]
    return table(("what", "figure"), rows)


def _rate(name: str, pipeline: str) -> str:
    return number(_forwarded(name, pipeline).median)


def what_it_costs() -> str:
    """The table of the README: no proxy, others, and this one."""
    targets = {"direct": "no proxy", "haproxy": "HAProxy", "twemproxy": "twemproxy"}
    targets["ttlproxy"] = "ttlproxy"
    rates = {
        f"`GET`, 50 clients{words}": [
            figure("forwarding", "GET 64 B, 50 clients", pipeline, target, RATE)
            for target in targets
        ]
        for pipeline, words in (("1", ""), ("16", ", pipelines of 16"), ("64", ", pipelines of 64"))
    }
    rows = [
        [f"{words}: requests a second", *(f"{number(one.median)} ({one.ratio})" for one in found)]
        for words, found in rates.items()
    ]
    waits = [figure("latency", "GET 64 B, 1 client", "1", each, "p50, µs") for each in targets]
    rows.append(
        ["`GET`, one client: µs (p50)", *(f"{each.median} ({each.ratio})" for each in waits)]
    )
    return table(("", *targets.values()), rows)


def how_fast() -> str:
    """The lines of the README below that table."""
    reads, writes = (
        [figure("managed", name, pipeline, "far deadlines", RATE).ratio for pipeline in ("1", "16")]
        for name in ("HGET", "HSET")
    )
    storm = figure("reaping", _tests("reaping")[1], "", "ttlproxy", "elements removed/s")
    lag = figure("reaping", "25,000 due in 5 s, in 1,000 hashes", "", "ttlproxy", "lag p99, ms")
    return "\n".join(
        [
            f"- CPU of the proxy: {_cpu('1')} µs a request without a pipeline, {_cpu('16')} µs "
            "with a pipeline of 16.",
            f"- On keys with deadlines a read keeps {reads[0]} of its rate, a write {writes[0]}, "
            f"because it becomes a script; with a pipeline of 16, {reads[1]} and {writes[1]}.",
            f"- {number(storm.median)} expired elements a second removed from 10,000 hashes; "
            f"when 5,000 a second expire, 99 % are removed within {lag.median} ms.",
            "- Memory in Redis: 32 bytes a deadline if its key has up to 128, else 118 to 126.",
        ]
    )


SECTIONS: Final = {
    "forwarding": forwarding,
    "latency": latency,
    "managed": managed,
    "hsetex": hsetex,
    "attached": attached,
    "reaping": reaping,
    "firing": firing,
    "tasks": tasks,
    "cluster": cluster,
    "cluster rates": cluster_rates,
    "masters": masters,
    "memory": memory,
    "sizing": sizing,
    "what it costs": what_it_costs,
    "how fast": how_fast,
}
