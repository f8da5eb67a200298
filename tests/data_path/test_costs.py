"""What a chunk costs the proxy in system calls and in objects that stay: counts, not times."""

from __future__ import annotations

import asyncio
import gc
import os
import re
import signal
import sys
import threading
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.support.containers import AnyServer
from tests.support.event_loops import both_loops
from tests.support.raw_client import Connection, command
from tests.support.servers import Proxy
from tests.support.strace import READS, WAITS, WRITES, Call, traced
from ttlproxy.cli.main import load
from ttlproxy.process import app
from ttlproxy.process.runner import loop_factory

pytestmark = pytest.mark.any_server

ROUNDS = 300
CHUNKS = 2 * ROUNDS  # a request and its reply
PLAIN = (command("SETRANGE", "plain", 0, "v" * 64), command("GET", "plain") * 64)
MANAGED = (command("HGET", "h", "far"), command("HMGET", "h", "far", "none") * 64)
REWRITTEN = (
    command("HTTLFIELD", "h", "far"),
    command("HSETEX", "h", "EX", 1000, "FIELDS", 1, "f", "v"),
)
# redis-py calls it before each request of the link.
_NOT_OF_CHUNKS = (*READS, *WRITES, *WAITS, "getpid")


def _moves(calls: Sequence[Call]) -> list[Call]:
    """Reads and writes of the two busiest descriptors: the client's and its Redis's."""
    moves = [call for call in calls if call.name in (*READS, *WRITES)]
    busiest = Counter(move.first for move in moves).most_common(2)
    return [move for move in moves if move.first in dict(busiest)]


def _talk(client: Connection, requests: Sequence[bytes], rounds: int) -> None:
    """Sends the requests in turn, one chunk at a time, and reads all replies before the next."""
    for number in range(rounds):
        request = requests[number % len(requests)]
        client.send(request)
        client.read_many(request.count(b"*"))


@both_loops
@pytest.mark.parametrize("requests", [PLAIN, MANAGED, REWRITTEN], ids=["plain", "managed", "ours"])
def test_each_chunk_is_read_once_and_written_once_at_once(
    proxy: Proxy, server: AnyServer, tmp_path: Path, requests: Sequence[bytes]
) -> None:
    with Connection(proxy.port) as client:
        client.ask("HSETEX", "h", "EX", 1000, "FIELDS", 1, "far", "v")
        _talk(client, requests, 50)
        with traced(proxy.pid, tmp_path) as calls:
            _talk(client, requests, ROUNDS)
            _talk(client, requests, 1)  # strace may miss its last call
    moves = _moves(calls)
    assert 2 * CHUNKS <= len(moves) <= 2 * CHUNKS + 4
    moves = moves[: 2 * CHUNKS]
    for taken, given in zip(moves[::2], moves[1::2], strict=True):
        assert taken.name in READS
        assert given.name in WRITES
        assert taken.first != given.first
        if requests is not REWRITTEN:
            assert taken.result == given.result, "what came in one chunk goes out in one"


@both_loops
def test_between_a_chunk_and_the_next_there_is_one_wait_and_nothing_else(
    proxy: Proxy, server: AnyServer, tmp_path: Path
) -> None:
    """Except for the heartbeats of the link and of the loop, a few times a second."""
    with Connection(proxy.port) as client:
        _talk(client, PLAIN, 50)
        with traced(proxy.pid, tmp_path) as calls:
            _talk(client, PLAIN, ROUNDS)
    waits = [call for call in calls if call.name in WAITS and call.result > 0]
    assert len(waits) <= 1.5 * CHUNKS
    others = Counter(call.name for call in calls if call.name not in _NOT_OF_CHUNKS)
    assert others.total() <= CHUNKS / 4, others


@pytest.mark.parametrize("loop", ["uvloop", "asyncio"])
@pytest.mark.parametrize("requests", [PLAIN, MANAGED, REWRITTEN], ids=["plain", "managed", "ours"])
def test_a_thousand_chunks_leave_no_object_behind(
    server: AnyServer, loop: str, requests: Sequence[bytes]
) -> None:
    settings = load(["--listen", "127.0.0.1:0", "--upstream", server.url])
    left = list[int]()

    def measure(number: int) -> None:
        try:
            with Connection(number) as client:
                client.ask("HSETEX", "h", "EX", 1000, "FIELDS", 1, "far", "v")
                _talk(client, requests, 200)
                for _ in range(2):
                    gc.collect()
                    before = sys.getallocatedblocks()
                    _talk(client, requests, 500)
                    gc.collect()
                    left.append(sys.getallocatedblocks() - before)
        finally:
            os.kill(os.getpid(), signal.SIGTERM)

    def started(serves: app.Serves) -> None:
        threading.Thread(target=measure, args=(serves.listen.port,)).start()

    with asyncio.Runner(loop_factory=loop_factory(loop)) as runner:
        assert runner.run(app.serve(settings, started, lambda: settings)) == 0
    gc.unfreeze()
    assert min(left) < 100, left


@pytest.mark.parametrize(
    ("write", "looks", "writes"),
    [
        ("HSETEX k {} FIELDS 2 f v g w", ["hexists"], ["hset"]),
        ("SADDEX k {} MEMBERS 2 f g", ["sismember"], ["sadd"]),
    ],
)
def test_a_later_deadline_costs_a_script_no_more_than_it_has_to(
    proxy: Proxy, server: AnyServer, write: str, looks: list[str], writes: list[str]
) -> None:
    """It checks the type, the key's expiry and the first deadline; then it writes."""
    with Connection(proxy.port) as client, Connection(server.port) as monitor:
        client.ask(*write.format("MAXLEN 9 EX 100").split())  # HSETEX alone may be the server's
        monitor.ask("MONITOR")
        client.ask(*write.format("EX 200").split())
        client.ask("ECHO", "the end")
        called = list[bytes]()
        name, is_ours = write.split()[0].lower().encode(), False  # the link may look at the key too
        while b'"ECHO"' not in (line := monitor.read()):
            if b" lua] " not in line:
                is_ours = name in line
            elif is_ours and re.search(rb'["}:]k"', line):  # the key, or its index
                called.append(line.split(b'"')[1].lower())
        wanted = ["zrange", "pttl", *looks, "zadd", *writes]
        # Where nothing is known yet, as after a flush, the call asks what is due first.
        if called[0] == b"zmscore":
            del called[0]
        assert called == [name.encode() for name in wanted]
