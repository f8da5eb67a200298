"""Conversations as text, one exchange a line: `HSET h a 1 -> 1`. Knows no command's meaning.

Words and expected bulks may be quoted, with escapes: `"\\x00"`. In both, `@+100s` and `@-5ms` are
absolute times, counted from the conversation's start. A line `wait 20` waits for 20 ms of Redis's
clock. `wait 20 in time` also checks that everything since the last wait took less than 20 ms. If it
took longer, a deadline may have passed too early, and the conversation starts again without keys.
Replies are written as `3`, `OK`, `"bulk"`, `nil`, `[1, "a"]`, and errors word for word; a last `*`
stands for any ending. RESP3's maps and sets are written as RESP2's arrays, its doubles as bulks.
"""

from __future__ import annotations

import ast
import math
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeAlias

import pytest

from tests.support.containers import Container
from tests.support.masters import TAG, Masters
from tests.support.raw_client import Connection, command
from tests.support.redis_client import Client
from tests.support.redis_content import until_swept
from tests.support.servers import Proxy, Server

WORD = re.compile(r'"(?:[^"\\]|\\.)*"|\S+')
_TIME = re.compile(r"@([+-]\d+)(ms|s)\b")
_RANDOM_ORDER = (b"SMEMBERS", b"SPOP", b"SINTER", b"SUNION")
MOST_TIMES = 200


@dataclass(frozen=True)
class Exchange:
    words: list[bytes]
    expected: str
    line: str


def unquoted(word: str) -> bytes:
    if word.startswith('"'):
        value: bytes = ast.literal_eval("b" + word)
        return value
    return word.encode()


@dataclass
class _Run:
    """Exchanges without a wait between them, the time limit for them, and the wait after them."""

    exchanges: list[Exchange]
    limit_ms: float = math.inf
    wait_ms: int | None = None


def _runs(text: str, start_ms: int) -> Iterator[_Run]:
    def absolute(match: re.Match[str]) -> str:
        unit_ms = 1000 if match[2] == "s" else 1
        return str(start_ms // unit_ms + int(match[1]))

    run = _Run([])
    for line in filter(None, map(str.strip, text.splitlines())):
        said, _, expected = _TIME.sub(absolute, line).partition("->")
        words = WORD.findall(said)
        if words[0] == "wait":
            run.wait_ms = int(words[1])
            if words[2:] == ["in", "time"]:
                run.limit_ms = run.wait_ms
            yield run
            run = _Run([])
        else:
            exchange = Exchange([unquoted(word) for word in words], expected.strip(), line)
            run.exchanges.append(exchange)
    yield run


# --- replies as text


class _Replies:
    """Reads RESP2 or RESP3 bytes, and writes them in the notation above."""

    def __init__(self, data: bytes) -> None:
        self.rest = data

    def line(self) -> tuple[bytes, bytes]:
        line, _, self.rest = self.rest.partition(b"\r\n")
        return line[:1], line[1:]

    def one(self, *, unordered: bool = False) -> str:
        kind, head = self.line()
        if kind == b",":
            return quoted(head)
        if kind in b"+-:#(":
            return head.decode(errors="backslashreplace")
        if kind == b"_" or head == b"-1":
            return "nil"
        if kind in b"$=":
            bulk, self.rest = self.rest[: int(head)], self.rest[int(head) + 2 :]
            return quoted(bulk)
        elements = [self.one() for _ in range(int(head) * (2 if kind == b"%" else 1))]
        return "[" + ", ".join(sorted(elements) if unordered else elements) + "]"


def quoted(word: bytes) -> str:
    return (
        '"'
        + "".join(
            chr(byte) if 32 <= byte < 127 and byte not in b'"\\' else f"\\x{byte:02x}"
            for byte in word
        )
        + '"'
    )


# --- ways to say the same


def one_by_one(app: Connection, requests: list[list[bytes]]) -> Iterator[_Replies]:
    for words in requests:
        yield _Replies(app.ask(*words))


def pipelined(app: Connection, requests: list[list[bytes]]) -> Iterator[_Replies]:
    app.send(b"".join(command(*words) for words in requests))
    yield from map(_Replies, app.read_many(len(requests)))


def resp3(app: Connection, requests: list[list[bytes]]) -> Iterator[_Replies]:
    app.ask("HELLO", 3)
    return pipelined(app, requests)


def in_multi(app: Connection, requests: list[list[bytes]]) -> Iterator[_Replies]:
    app.send(b"".join(command(*words) for words in [[b"MULTI"], *requests, [b"EXEC"]]))
    *queued, last = app.read_many(len(requests) + 2)
    assert queued == [b"+OK\r\n"] + [b"+QUEUED\r\n"] * len(requests)
    replies = _Replies(last)
    assert replies.line() == (b"*", b"%d" % len(requests)), last
    for _ in requests:
        yield replies


def resp3_in_multi(app: Connection, requests: list[list[bytes]]) -> Iterator[_Replies]:
    app.ask("HELLO", 3)
    return in_multi(app, requests)


Way: TypeAlias = Callable[[Connection, list[list[bytes]]], Iterator[_Replies]]

# All at once in RESP3, and in MULTI in RESP2. One request at a time in RESP2 is what the tests send
# that are no conversations.
WAYS: list[Way] = [resp3, in_multi]


def let_pass(clock: Client, ms: int) -> None:
    """Returns when a deadline set just now for in `ms` is past, and no later than necessary."""
    _sleep_until(clock, clock.now_ms() + ms + 1)


def _sleep_until(clock: Client, until_ms: int) -> None:
    while (left_ms := until_ms - clock.now_ms()) > 0:
        time.sleep(left_ms / 1000)


def _early_in_a_second(clock: Client) -> int:
    """The start of this second in ms, at most 800 ms ago: so a TTL in seconds rounds up."""
    while (now_ms := clock.now_ms()) % 1000 > 800:
        _sleep_until(clock, (now_ms // 1000 + 1) * 1000)
    return now_ms // 1000 * 1000


Tag: TypeAlias = Callable[[list[bytes]], list[bytes]]
"""The words of a request with TAG in front of each key."""


def hold(
    app: Connection, clock: Client, text: str, way: Way = one_by_one, tag: Tag = lambda words: words
) -> None:
    """Sends all of `text` on `app`; each run of lines between waits goes in the given way."""
    for _ in range(MOST_TIMES):
        if _said_in_time(app, clock, text, way, tag):
            return
        _start_over(app)
    raise TimeoutError(f"not once in {MOST_TIMES} times was it said in time:\n{text}")


def _said_in_time(app: Connection, clock: Client, text: str, way: Way, tag: Tag) -> bool:
    start_ms = _early_in_a_second(clock) if "@" in text else 0
    for run in _runs(text, start_ms):
        begun_ms = clock.now_ms()
        requests = [tag(exchange.words) for exchange in run.exchanges]
        replies = list(way(app, requests)) if requests else []
        now_ms = clock.now_ms()
        if now_ms - begun_ms >= run.limit_ms:
            return False
        late_s = int(max(app.age_s + 0.5, (now_ms - start_ms) / 1000 if start_ms else 0))
        for exchange, reply in zip(run.exchanges, replies, strict=True):
            _compare(exchange, reply, late_s)
        if run.wait_ms is not None:
            let_pass(clock, run.wait_ms)
    return True


def _compare(exchange: Exchange, reply: _Replies, late_s: int) -> None:
    said = reply.one(unordered=exchange.words[0].upper() in _RANDOM_ORDER)
    said = said.replace(TAG.decode(), "")
    asks_time = b"TTL" in exchange.words[0].upper()
    if late_s and asks_time and re.fullmatch(_left(exchange, late_s), said):
        return
    if exchange.expected.endswith("*"):
        said = said[: len(exchange.expected) - 1] + "*"
    assert said == exchange.expected, f"{exchange.line}\nsaid {said}"


def _left(exchange: Exchange, late_s: int) -> str:
    """A pattern of the TTLs that are possible by now: on a slow machine seconds pass."""

    def seconds(match: re.Match[str]) -> str:
        most = int(match[0])
        return f"(?:{'|'.join(str(most - gone) for gone in range(min(late_s, most) + 1))})"

    return re.sub(r"(?<!-)\b\d+", seconds, re.escape(exchange.expected))


def _start_over(app: Connection) -> None:
    """Deletes all keys; one that is deleted may hand on to another what is due there."""
    app.ask("UNWATCH")
    for db in (1, 0):
        app.ask("SELECT", db)
        while keys := app.ask("KEYS", "*").split(b"\r\n")[2::2]:
            for key in keys:
                app.ask("DEL", key)


Talk: TypeAlias = Callable[[str], None]


@contextmanager
def talking(proxy: Proxy, server: Server | Container, way: Way) -> Iterator[Talk]:
    """A connection to send text on. At the end the internal content must be in order."""
    servers = [Client(server.port, db) for db in range(2)]
    with Connection(proxy.port) as app:
        yield lambda text: hold(app, servers[0], text, way)
    until_swept(*servers)
    for client in servers:
        client.close()


# What a Cluster refuses, or answers in another way: see docs/cluster.md.
_DIFFERENT = re.compile(r"\b(SELECT|MOVE|SWAPDB|SCAN|DB)\b|__ttl:|\{|%K", re.IGNORECASE)
# The same inside MULTI, which is at one master.
_OF_ONE_MASTER = re.compile(r"\b(FLUSHDB|FLUSHALL|DBSIZE|KEYS|RANDOMKEY|ONEXPIRE|ONWRITE)\b")


@contextmanager
def talking_to_masters(masters: Masters, way: Way) -> Iterator[Talk]:
    """The same in front of three masters, with one hash tag for all keys."""
    clock = Client(masters.nodes[0].port)

    def say(text: str) -> None:
        is_in_multi = way in (in_multi, resp3_in_multi)
        if _DIFFERENT.search(text) or (is_in_multi and _OF_ONE_MASTER.search(text)):
            pytest.skip("a Cluster answers in another way")
        hold(app, clock, text, way, masters.tagged)

    with Connection(masters.proxy.port) as app:
        yield say
    clock.close()
