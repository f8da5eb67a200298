"""Ways to send requests to a target, and the results of a run. Knows no command of its own."""

from __future__ import annotations

import csv
import selectors
import socket
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from itertools import chain, cycle, islice
from time import perf_counter, perf_counter_ns
from typing import Protocol, TypeAlias

import hiredis

from tests.bench.targets import Target
from tests.support.raw_client import TIMEOUT_S, Connection

Words: TypeAlias = tuple[bytes | str | int, ...]

# redis-benchmark replaces this by a random number of twelve digits.
ANY = "__rand_int__"
# A deadline of the year 2096, in ms.
FAR_MS = 4_000_000_000_000
_FLOOD_TIMEOUT_S = 300.0
_FLOOD_CLOCK_S = 0.001  # the resolution of redis-benchmark's clock
_RECEIVE_BYTES = 1 << 18


@dataclass(frozen=True)
class Run:
    """The results of one run of a load.

    requests, seconds: how many took how long; latencies_us: of each request, sorted;
    found: figures that only this load has, by name
    """

    requests: int = 1
    seconds: float = 1.0
    latencies_us: Sequence[float] = ()
    found: Mapping[str, float] = field(default_factory=dict)


class Load(Protocol):
    """Sends requests to a target."""

    def __call__(self, target: Target, /) -> Run: ...


@dataclass(frozen=True)
class Flood:
    """redis-benchmark: many clients at once, each with a pipeline of the same request.

    keyspace: ANY is a number below it
    knows_clusters: it sends each request to the node that has its key
    db: the database that each client selects
    """

    words: tuple[str, ...]
    requests: int
    clients: int = 50
    pipeline: int = 1
    keyspace: int = 10_000
    knows_clusters: bool = False
    db: int = 0

    def __call__(self, target: Target) -> Run:
        """Raises RuntimeError with redis-benchmark's output if that has no figure."""
        # redis-benchmark sends whole pipelines.
        requests = -(-self.requests // self.pipeline) * self.pipeline
        command = [
            *("redis-benchmark", "-h", "127.0.0.1", "-p", str(target.port), "--csv"),
            *("-c", str(self.clients), "-P", str(self.pipeline), "-n", str(requests)),
            *(["--cluster"] if self.knows_clusters else []),
            *(["--dbnum", str(self.db)] if self.db else []),
            *("-r", str(self.keyspace), *self.words),
        ]
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=_FLOOD_TIMEOUT_S
        )
        for row in csv.reader(done.stdout.splitlines()):
            if row[:1] == [" ".join(self.words)]:
                return Run(requests, max(requests / float(row[1]), _FLOOD_CLOCK_S))
        said = f"{done.stdout}{done.stderr}"
        raise RuntimeError(f"redis-benchmark {self.words[0]} at {target.name}:\n{said:.2000}")


@dataclass(frozen=True)
class Replay:
    """Many clients at once, each with a pipeline of different requests: `script`, repeated.

    sessions: those whose clients send; if None, new ones
    """

    script: Sequence[Words]
    requests: int
    clients: int = 50
    pipeline: int = 1
    sessions: Sessions | None = None

    def __call__(self, target: Target) -> Run:
        """Raises hiredis.ReplyError if a reply is an error."""
        chunks = _chunks(self.script, self.pipeline)
        turns = -(-self.requests // self.pipeline)
        with closing(Sessions(min(self.clients, turns))) as new:
            players = (self.sessions or new).at(target.port)
            began = perf_counter()
            _play(players, islice(cycle(chunks), turns), self.pipeline)
            return Run(turns * self.pipeline, perf_counter() - began)


class Sessions:
    """Connections to targets that stay open, and serve several loads: so what it takes to connect
    is in no figure."""

    def __init__(self, clients: int = 50) -> None:
        self._clients = clients
        self._players: dict[int, list[_Player]] = {}

    def at(self, port: int) -> list[_Player]:
        if port not in self._players:
            self._players[port] = [_Player(port) for _ in range(self._clients)]
        return self._players[port]

    def close(self) -> None:
        for players in self._players.values():
            for player in players:
                player.socket.close()


@dataclass(frozen=True)
class OneByOne:
    """One client that sends a request after each reply."""

    words: Words
    requests: int

    def __call__(self, target: Target) -> Run:
        request = packed(self.words)
        times_us: list[float] = []
        with Connection(target.port) as client:
            reply_bytes = len(client.ask(*self.words))
            for _ in range(self.requests):
                began = perf_counter_ns()
                client.socket.sendall(request)
                receive(client.socket, reply_bytes)
                times_us.append((perf_counter_ns() - began) / 1000)
        return Run(len(times_us), sum(times_us) / 1e6, sorted(times_us))


def receive(connection: socket.socket, count: int) -> None:
    """Reads so many bytes and drops them. Raises EOFError."""
    while count:
        received = len(connection.recv(min(count, _RECEIVE_BYTES)))
        if not received:
            raise EOFError(f"closed, with {count} bytes missing")
        count -= received


def packed(words: Words) -> bytes:
    request: bytes = hiredis.pack_command(words)  # type: ignore[arg-type] # of any length
    return request


def fill(target: Target, requests: Iterable[Words], pipeline: int = 200, db: int = 0) -> None:
    """Sends each request once, in a database. Raises hiredis.ReplyError if a reply is an error."""
    rest = chain([("SELECT", db)] if db else [], requests)
    with _Player(target.port) as player:
        while some := list(islice(rest, pipeline)):
            player.send(b"".join(map(packed, some)), len(some))
            while not player.has_all():
                pass


class _Player:
    """A connection that counts the replies to its requests."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), TIMEOUT_S)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._reader = hiredis.Reader()
        self._missing = 0

    def __enter__(self) -> _Player:
        return self

    def __exit__(self, *failure: object) -> None:
        self.socket.close()

    def fileno(self) -> int:
        return self.socket.fileno()

    def send(self, chunk: bytes, requests: int) -> None:
        self._missing += requests
        self.socket.sendall(chunk)

    def has_all(self) -> bool:
        """Reads once; returns whether all replies are here."""
        data = self.socket.recv(_RECEIVE_BYTES)
        if not data:
            raise EOFError(f"closed, with {self._missing} replies missing")
        self._reader.feed(data)
        while (reply := self._reader.gets()) is not False:
            if isinstance(reply, hiredis.ReplyError):
                raise reply
            self._missing -= 1
        return self._missing == 0


def _chunks(script: Sequence[Words], pipeline: int) -> list[bytes]:
    """The bytes of `pipeline` requests each."""
    requests = [packed(words) for words in script]
    return [
        b"".join(requests[begin : begin + pipeline])
        for begin in range(0, len(requests) - pipeline + 1, pipeline)
    ]


def _play(players: Sequence[_Player], chunks: Iterable[bytes], requests: int) -> None:
    """Each player takes the next chunk as soon as it has all replies to its last one."""
    rest = iter(chunks)
    with selectors.DefaultSelector() as waiting:
        for player, chunk in zip(players, rest, strict=False):
            player.send(chunk, requests)
            waiting.register(player, selectors.EVENT_READ, player)
        while waiting.get_map():
            ready = waiting.select(TIMEOUT_S)
            if not ready:
                raise TimeoutError(f"no reply within {TIMEOUT_S} s")
            for key, _ in ready:
                player = key.data
                if not player.has_all():
                    continue
                if (more := next(rest, None)) is not None:
                    player.send(more, requests)
                else:
                    waiting.unregister(player)
