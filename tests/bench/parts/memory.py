"""Resident memory of the proxy: at rest, for each connection and managed key, and while values of
256 MiB pass. Each run has a proxy that was just started."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

from tests.bench import usage
from tests.bench.loads import Load, Run, Words, fill, receive
from tests.bench.measures import found
from tests.bench.scenarios import Case, Scenario
from tests.bench.targets import TTLPROXY, Stage, Target
from tests.support.deadlines import BOUNDED
from tests.support.processes import wait_until
from tests.support.raw_client import Connection, command
from tests.support.server_queries import info
from tests.support.servers import Proxy

MIB = 1 << 20
MANAGED = (10_000, 1_000_000)
# By announcements: each needs an HSETEX.
LEARNED = 100_000
VALUE_MIB = 256
_PIECE = b"v" * (64 * 1024)
# The proxy uses two descriptors for a connection.
_DESCRIPTORS_OF_10_000 = 25_000
_REST, _KEY, _VALUE = "KiB at rest", "bytes a managed key", "KiB above what was there"


@contextmanager
def _started(target: Target) -> Iterator[Proxy]:
    proxy = Proxy(target.redis.url)
    try:
        yield proxy.start()
    finally:
        proxy.remove()


def _at_rest(target: Target) -> Run:
    with _started(target) as proxy, Connection(proxy.port) as client:
        client.ask("PING")
        return Run(found={_REST: proxy.rss_bytes() / 1024})


@dataclass(frozen=True)
class Idle:
    """Idle connections after one reply each: opened until there are as many as each of `counts`."""

    counts: tuple[int, ...]

    def __call__(self, target: Target) -> Run:
        taken: dict[str, float] = {}
        with _started(target) as proxy, ExitStack() as connections:
            before, opened = proxy.rss_bytes(), 0
            for count in self.counts:
                for _ in range(count - opened):
                    client = connections.enter_context(Connection(proxy.port))
                    client.ask("PING")
                opened = count
                taken[_of(count)] = (proxy.rss_bytes() - before) / 1024 / count
        return Run(found=taken)


def _of(count: int) -> str:
    return f"KiB a connection, of {count:,}"


@dataclass(frozen=True)
class Found:
    """Managed keys that a proxy finds at its start, compared with a proxy that finds none."""

    count: int
    empty: Target

    def __call__(self, target: Target) -> Run:
        with _started(self.empty) as without, _started(target) as proxy:
            _until_managed(proxy, self.count)
            taken = proxy.rss_bytes() - without.rss_bytes()
        return Run(found={_KEY: taken / self.count})


@dataclass(frozen=True)
class Learned:
    """Managed keys that a proxy learns of by announcements, while another proxy makes them."""

    count: int

    def __call__(self, target: Target) -> Run:
        with _started(target) as proxy, Connection(target.redis.port) as direct:
            before = proxy.rss_bytes()
            fill(target, _managed(self.count))
            _until_managed(proxy, self.count)
            taken = proxy.rss_bytes() - before
            direct.ask("FLUSHALL")
        return Run(found={_KEY: taken / self.count})


def _managed(count: int) -> Iterator[Words]:
    words = (*BOUNDED, "EX", 1_000_000, "FIELDS", 1, "f", "v")
    return (("HSETEX", f"key:{n:012}", *words) for n in range(count))


def _until_managed(proxy: Proxy, count: int) -> None:
    def knows_all() -> bool:
        return int(info(proxy.port, "ttlproxy")["managed_keys"]) >= count

    wait_until(knows_all, f"{count} managed keys are known")


@dataclass(frozen=True)
class Passing:
    """A large value on its way to Redis or back: the peak of resident memory."""

    name: str
    pieces: int
    key: bytes = field(default=b"large", init=False)

    def __call__(self, target: Target) -> Run:
        with (
            _started(target) as proxy,
            Connection(target.redis.port, timeout_s=120) as direct,
            Connection(proxy.port, timeout_s=120) as client,
        ):
            client.ask("PING")
            if self.name == "GET":
                self._set(direct)
            before = proxy.rss_bytes()
            usage.forget_peak(proxy.pid)
            self._set(client) if self.name == "SET" else self._get(client)
            taken = usage.peak_bytes(proxy.pid) - before
            direct.ask("DEL", self.key)
        return Run(found={_VALUE: taken / 1024})

    def _set(self, client: Connection) -> None:
        size = self.pieces * len(_PIECE)
        client.send(b"*3\r\n$3\r\nSET\r\n$%d\r\n%b\r\n$%d\r\n" % (len(self.key), self.key, size))
        for _ in range(self.pieces):
            client.send(_PIECE)
        client.send(b"\r\n")
        if client.read() != b"+OK\r\n":
            raise RuntimeError("a large SET was refused")

    def _get(self, client: Connection) -> None:
        size = self.pieces * len(_PIECE)
        client.send(command("GET", self.key))
        receive(client.socket, len(b"$%d\r\n" % size) + size + len(b"\r\n"))


def scenarios(stage: Stage) -> list[Scenario]:
    most = raise_descriptors()
    empty = stage.redis("--maxclients", "12000")
    writer = stage.ttlproxy(stage.redis())
    many = 10_000 if most >= _DESCRIPTORS_OF_10_000 else 5000
    connections = (stage.scaled(1000, least=10), stage.scaled(many, least=20))

    def scenario(name: str, target: Target, load: Load, *figures: str) -> Scenario:
        return Scenario(name, [Case(TTLPROXY, target, load)], [found(name) for name in figures])

    made = [
        scenario("at rest", empty, _at_rest, _REST),
        scenario("idle connections", empty, Idle(connections), *map(_of, connections)),
    ]
    for count in (stage.scaled(usual, least=10) for usual in MANAGED):
        there = stage.redis()
        fill(stage.ttlproxy(there), _managed(count))
        made.append(scenario(f"{count:,} managed keys found", there, Found(count, empty), _KEY))
    count = stage.scaled(LEARNED, least=10)
    made.append(scenario(f"{count:,} managed keys learned", writer, Learned(count), _KEY))
    pieces = stage.scaled(VALUE_MIB * MIB // len(_PIECE))
    size = f"{pieces * len(_PIECE) / MIB:g} MiB"
    for name in ("SET", "GET"):
        made.append(scenario(f"{name} of {size}", empty, Passing(name, pieces), _VALUE))
    return made


def raise_descriptors() -> int:
    """Raises the descriptor limit of this process and its children as far as allowed."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    return most
