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
        self.write: Write = self._take
        self._came = asyncio.Event()
        self.ended = asyncio.Event()

    def _take(self, data: bytes) -> None:
        self.replies += data
        self._came.set()

    async def gets(self, replies: bytes) -> None:
        """Ends when these have come, and fails if others have."""
        while len(self.replies) < len(replies):
            self._came.clear()
            await self._came.wait()
        assert self.replies == replies
        self.replies.clear()

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
        try:
            yield client, backend, writer
        finally:
            writer.close()
            backend.close()


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


def test_a_connection_whose_replies_are_not_read_is_not_at_rest(run: Run) -> None:
    async def main() -> None:
        async with _connected() as (_, backend, _):
            backend.pause(True)
            assert not any(backend.has_settled() for _ in range(3))
            backend.pause(False)
            assert [backend.has_settled() for _ in range(3)] == [False, True, True]

    run(main)


def test_a_connection_that_has_ended_is_at_rest(run: Run) -> None:
    async def main() -> None:
        async with _connected() as (client, backend, redis):
            assert not backend.has_settled()
            assert backend.has_settled()
            redis.write(b"+OK\r\n")
            await client.gets(b"+OK\r\n")
            assert not backend.has_settled()
            redis.close()
            await client.ended.wait()
            assert backend.has_settled()
            assert backend.has_settled()

    run(main)


def test_replies_before_a_login_are_waited_for_and_tell_who_is_let_in(run: Run) -> None:
    async def main() -> None:
        async with _connected() as (client, backend, redis):
            backend.count_lines()
            both = asyncio.create_task(backend.has_replied(2))
            redis.write(b"-NOAUTH first\r\n-NOAUTH")
            await client.gets(b"-NOAUTH first\r\n-NOAUTH")
            assert not both.done()
            redis.write(b" second\r\n")
            await both
            await backend.has_replied(2)
            redis.write(b"-NOAUTH third\r\n")
            await client.gets(b" second\r\n-NOAUTH third\r\n")
            refused = backend.lets_in(3)
            redis.write(b"-WRONGPASS\r\n")
            assert await refused is False
            let_in = backend.lets_in(4)
            redis.write(b"%1\r\n+proto\r\n")
            assert await let_in is True
            redis.write(b":3\r\n")
            await client.gets(b"-WRONGPASS\r\n%1\r\n+proto\r\n:3\r\n")

    run(main)
