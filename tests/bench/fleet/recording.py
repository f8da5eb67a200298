"""What a proxy sends to Redis when it starts, and after a restart of Redis: recorded by a relay.

A recording is a list of steps: the number of a connection, and the requests that are sent there
together, or None when the proxy closes it.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple, TypeAlias

import hiredis

from tests.bench.fleet.real import Real
from tests.support.servers import Server

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
    steps: list[Step] = []
    async with _relay(server, steps) as port:
        proxy = Real(f"redis://127.0.0.1:{port}", words)
        proxy.start()
        await _until_settled(proxy)
        start = again = list(steps)
        if restarts:
            server.kill_and_keep()
            while proxy.serves:  # noqa: ASYNC110 - no event tells
                await asyncio.sleep(_LOOK_S)
            await asyncio.to_thread(server.restart)
            await _until_settled(proxy)
            again = _after(start, steps)
        await proxy.stop()
    return Recording(_of_a_follower(start), _of_a_follower(again))


def _of_a_follower(steps: Steps) -> Steps:
    """The steps without the connection that only the proxy has whose reaper leads, as one that is
    alone does."""
    leads = {number for number, sent in steps if _DEADLINES in (sent or b"")}
    return [step for step in steps if step[0] not in leads]


async def _until_settled(proxy: Real) -> None:
    await proxy.until_serving()
    enough = proxy.heartbeats + _HEARTBEATS
    while proxy.heartbeats < enough:  # noqa: ASYNC110 - no event tells
        await asyncio.sleep(_LOOK_S)


def _after(start: Steps, steps: Steps) -> list[Step]:
    """The steps on connections that were opened after the start, which ends with these."""
    first = 1 + max(number for number, _ in start)
    later = steps[len(start) :]
    return [step for step in later if step[0] >= first and not (step[1] or b"").startswith(_LOAD)]


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
async def _relay(redis: Server, steps: list[Step]) -> AsyncIterator[int]:
    """A relay in front of Redis: its port. What clients send is added to `steps`."""
    connections: list[asyncio.StreamWriter] = []

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
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
