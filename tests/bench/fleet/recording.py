"""What a proxy sends to Redis when it starts, and after a restart of Redis: recorded by a relay.

It is one of many proxies, so it leaves to another what one does for all: connections that only
subscribe pass for the others.

A recording is a list of steps: the number of a connection, and the requests that are sent there
together, or None when the proxy closes it.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import ExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import NamedTuple, TypeAlias

import hiredis

from tests.bench.fleet.real import Real
from tests.support.raw_client import Connection
from tests.support.servers import Server
from ttlproxy.cli.main import load
from ttlproxy.core.keys import Keys
from ttlproxy.link.shared.fleet import FEW

Step: TypeAlias = tuple[int, bytes | None]
Steps: TypeAlias = Sequence[Step]

_READ_BYTES = 1 << 16
_DEADLINES = b"ttlproxy:deadlines"
# With the second heartbeat a start is over, also for the reaper.
_HEARTBEATS = 2
_LOOK_S = 0.01
# Of many proxies, only the first ones find that Redis does not have the scripts.
_LOAD = b"*3\r\n$6\r\nSCRIPT\r\n$4\r\nLOAD\r\n"


class Recording(NamedTuple):
    """start: of a proxy; again: after a restart of Redis"""

    start: Steps
    again: Steps


async def recorded(server: Server, words: Sequence[str], restarts: bool) -> Recording:
    """Of a proxy with these settings, as on the command line.

    `restarts`: restarts Redis, with its data; without that, `again` is as the start.
    """
    await _leave_state(server, words)
    steps: list[Step] = []
    keys, is_open = Keys(load(["--upstream", server.url, *words]).prefix.encode()), asyncio.Event()
    async with _relay(server, steps, is_open) as port:
        with _others(server, keys):
            is_open.set()
            proxy = Real(f"redis://127.0.0.1:{port}", words)
            proxy.start()
            await _until_settled(proxy)
            start = again = list(steps)
            if restarts:
                is_open.clear()
                server.kill_and_keep()
                while not proxy.is_away:  # noqa: ASYNC110 - no event tells
                    await asyncio.sleep(_LOOK_S)
        if restarts:
            await asyncio.to_thread(server.restart)
            await _leave_state(server, words)
            with _others(server, keys):
                is_open.set()
                await _until_settled(proxy)
                again = _after(start, steps)
        await proxy.stop()
    return Recording(_of_a_follower(start), _of_a_follower(again))


async def _leave_state(server: Server, words: Sequence[str]) -> None:
    """The first proxy leaves in Redis what the others find there."""
    first = Real(server.url, words)
    first.start()
    await first.until_serving()
    await first.stop()


@contextmanager
def _others(server: Server, keys: Keys) -> Iterator[None]:
    """As many connections as there are many proxies, which look like those of proxies."""
    with ExitStack() as stack:
        for _ in range(FEW + 1):
            other = stack.enter_context(Connection(server.port))
            other.ask("CLIENT", "TRACKING", "ON")
            other.ask("SUBSCRIBE", keys.broadcast)
        yield


def _of_a_follower(steps: Steps) -> Steps:
    """The steps without the connection that only the proxy has whose reaper leads, and without the
    scripts that only the first proxy loads."""
    leads = {number for number, sent in steps if _DEADLINES in (sent or b"")}
    return [
        (number, sent)
        for number, sent in steps
        if number not in leads and not (sent or b"").startswith(_LOAD)
    ]


async def _until_settled(proxy: Real) -> None:
    await proxy.until_serving()
    enough = proxy.heartbeats + _HEARTBEATS
    while proxy.heartbeats < enough:  # noqa: ASYNC110 - no event tells
        await asyncio.sleep(_LOOK_S)


def _after(start: Steps, steps: Steps) -> list[Step]:
    """The steps on connections that were opened after the start, which ends with these."""
    first = 1 + max(number for number, _ in start)
    return [step for step in steps[len(start) :] if step[0] >= first]


def write(recording: Recording, path: Path) -> None:
    rows = [
        [(number, sent and sent.decode("latin-1")) for number, sent in each] for each in recording
    ]
    path.write_text(json.dumps(rows), "utf-8")


def read(path: Path) -> Recording:
    rows = json.loads(path.read_text("utf-8"))
    return Recording(
        *([(number, sent and sent.encode("latin-1")) for number, sent in each] for each in rows)
    )


@asynccontextmanager
async def _relay(redis: Server, steps: list[Step], is_open: asyncio.Event) -> AsyncIterator[int]:
    """A relay in front of Redis, while it is open: its port. What is sent is added to `steps`."""
    connections: list[asyncio.StreamWriter] = []

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if not is_open.is_set():
            writer.close()
            return
        try:
            from_redis, to_redis = await asyncio.open_connection("127.0.0.1", redis.port)
        except OSError:
            writer.close()
            return
        number = len(connections)
        connections.append(writer)
        back = asyncio.create_task(_copy(from_redis, writer), name="replies")
        await _record(reader, to_redis, number, steps)
        to_redis.close()
        await back

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1]
    for each in connections:
        each.close()


async def _record(
    reader: asyncio.StreamReader, to_redis: asyncio.StreamWriter, number: int, steps: list[Step]
) -> None:
    requests, sent = hiredis.Reader(), b""
    while data := await reader.read(_READ_BYTES):
        to_redis.write(data)
        requests.feed(data)
        sent += data
        while requests.gets() is not False:
            pass
        if not requests.has_data():  # else a request is not complete yet
            steps.append((number, sent))
            sent = b""
    steps.append((number, None))


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(_READ_BYTES):
        writer.write(data)
    writer.close()
