"""A client's connection to Redis. Knows sockets and the event loop, no Redis."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tests.core.conftest import Run
from ttlproxy.core.counters import Tally
from ttlproxy.proxy.redis_connection import Backend
from ttlproxy.proxy.write_batch import Write, WriteBatch


class _Client:
    """What has come for a client."""

    def __init__(self) -> None:
        self.replies = bytearray()
        self.write: Write = self.replies.extend
        self.ended = asyncio.Event()

    def full(self, is_full: bool) -> None:
        pass

    def end(self) -> None:
        self.ended.set()


@asynccontextmanager
async def _connected() -> AsyncIterator[tuple[_Client, Backend, asyncio.StreamWriter]]:
    """A client, its connection, and the other end of that."""
    loop, accepted = asyncio.get_running_loop(), asyncio.Queue[asyncio.StreamWriter]()

    def accept(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        accepted.put_nowait(writer)

    async with await asyncio.start_server(accept, "127.0.0.1", 0) as listening:
        client = _Client()
        backend = Backend(client, WriteBatch(), Tally(), 0)
        await loop.create_connection(backend.protocol, *listening.sockets[0].getsockname())
        writer = await accepted.get()
        yield client, backend, writer
        writer.close()


def test_what_has_come_is_counted_until_the_connection_ends(run: Run) -> None:
    """Who asks later, as a client that is about to leave does, gets 0 and no error."""

    async def main() -> None:
        async with _connected() as (client, backend, redis):
            assert backend.received == 0
            redis.write(b"+OK\r\n")
            redis.close()
            await client.ended.wait()
            assert client.replies == b"+OK\r\n"
            assert backend.received == 0

    run(main)
