"""Bytes in Redis for an element with a deadline: compared with one string key for each element, and
with servers that expire fields themselves. Fields have 16 bytes, values 32."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from tests.bench.loads import FAR_MS, Run, Words, fill
from tests.bench.measures import found
from tests.bench.scenarios import Case, Scenario
from tests.bench.targets import Stage, Target
from tests.support.processes import wait_until
from tests.support.raw_client import Connection
from tests.support.server_queries import info, unnamed

_VALUE = b"v" * 32
# The elements of one request, which share a deadline.
_TOGETHER = 10
_TOTAL, _DEADLINE = "bytes an element", "of these, bytes for the deadline"

# Key, elements, deadline.
Write = Callable[[bytes, Sequence[bytes], int], Words]


def _pairs(elements: Sequence[bytes]) -> Iterator[bytes]:
    for element in elements:
        yield element
        yield _VALUE


def _scored(elements: Sequence[bytes]) -> Iterator[bytes]:
    for element in elements:
        yield b"1"
        yield element


@dataclass(frozen=True)
class Kind:
    """A type of key: the requests that write elements without a deadline and with one."""

    plain: Write
    timed: Write
    is_native: bool = False


KINDS = {
    "hash": Kind(
        lambda key, fields, _: ("HSET", key, *_pairs(fields)),
        lambda key, fields, at: (
            *("HSETEX", key, "PXAT", at, "FIELDS", len(fields)),
            *_pairs(fields),
        ),
        is_native=True,
    ),
    "set": Kind(
        lambda key, members, _: ("SADD", key, *members),
        lambda key, members, at: ("SADDEX", key, "PXAT", at, "MEMBERS", len(members), *members),
    ),
    "sorted set": Kind(
        lambda key, members, _: ("ZADD", key, *_scored(members)),
        lambda key, members, at: (
            *("ZADDEX", key, "PXAT", at, "MEMBERS", len(members)),
            *_scored(members),
        ),
    ),
}
_STRING = Kind(
    lambda _, names, __: ("SET", names[0], _VALUE),
    lambda _, names, at: ("SET", names[0], _VALUE, "PXAT", at),
)
# Type, elements in all, elements of a key.
SHAPES = (
    ("hash", 200_000, 100),
    ("hash", 1_000_000, 1_000_000),
    ("set", 200_000, 100),
    ("sorted set", 200_000, 100),
)


@dataclass(frozen=True)
class Filled:
    """Writes so many elements, without deadlines and with them, and measures their memory."""

    kind: Kind
    elements: int
    of_a_key: int
    together: int = _TOGETHER

    def __call__(self, target: Target) -> Run:
        plain = self._bytes(target, self.kind.plain)
        timed = self._bytes(target, self.kind.timed)
        return Run(found={_TOTAL: timed, _DEADLINE: timed - plain})

    def _bytes(self, target: Target, write: Write) -> float:
        """The bytes in Redis for each element. Redis is empty before and after."""
        port = target.redis.port
        with Connection(port) as direct:
            direct.ask("FLUSHALL")
            there, before = unnamed(port), _used(port)
            fill(target, self._requests(write))
            wait_until(lambda: unnamed(port) <= there, "the client that filled it is gone")
            taken = _used(port) - before
            direct.ask("FLUSHALL")
        return taken / self.elements

    def _requests(self, write: Write) -> Iterator[Words]:
        for begin in range(0, self.elements, self.together):
            end = min(begin + self.together, self.elements)
            elements = [b"element-%08d" % number for number in range(begin, end)]
            yield write(b"key:%d" % (begin // self.of_a_key), elements, FAR_MS + begin)


def _used(port: int) -> int:
    return int(info(port, "memory")["used_memory"])


def scenarios(stage: Stage) -> list[Scenario]:
    direct = stage.redis()
    proxy, natives = stage.ttlproxy(direct), stage.natives()
    made = []
    for name, usual, of_a_key in SHAPES:
        kind, elements = KINDS[name], stage.scaled(usual, least=100)
        load = Filled(kind, elements, of_a_key)
        cases = [
            Case("string keys", direct, Filled(_STRING, elements, 1, together=1)),
            Case("ttlproxy", proxy, load),
            *(Case(native.name, native, load) for native in natives if kind.is_native),
        ]
        each = min(elements, of_a_key)
        title = f"{elements:,} elements, {each:,} in each {name}"
        made.append(Scenario(title, cases, (found(_TOTAL), found(_DEADLINE))))
    return made
