"""The least that a proxy in Python does: reads requests, and passes the bytes on as they came.

What the proxy's own forwarding costs is seen best beside it. `python -m tests.bench.floor FILE`;
the file has the port where it listens, and that of Redis.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import cast

import hiredis
import uvloop


class _Redis(asyncio.Protocol):
    """The connection to Redis of one client."""

    def __init__(self, client: asyncio.Transport) -> None:
        self._client = client

    def data_received(self, data: bytes) -> None:
        self._client.write(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self._client.close()


class _Client(asyncio.Protocol):
    """A client, and the reader of its requests."""

    def __init__(self, upstream: int) -> None:
        self._upstream = upstream
        self._reader = hiredis.Reader()
        self._early = b""
        self._redis: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._task = asyncio.create_task(self._connect())

    async def _connect(self) -> None:
        loop = asyncio.get_running_loop()
        redis, _ = await loop.create_connection(
            lambda: _Redis(self._transport), "127.0.0.1", self._upstream
        )
        redis.write(self._early)
        self._redis = redis

    def data_received(self, data: bytes) -> None:
        reader = self._reader
        reader.feed(data)
        while reader.gets() is not False:
            pass
        if self._redis is None:
            self._early += data
        else:
            self._redis.write(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self._task.cancel()
        if self._redis is not None:
            self._redis.close()


async def _serve(port: int, upstream: int) -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: _Client(upstream), "127.0.0.1", port)
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(_serve(*map(int, Path(sys.argv[1]).read_text().split())))
