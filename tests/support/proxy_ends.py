"""A client's two connections: the proxy's end and the other one of each."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing

from ttlproxy.core.counters import Connections, Counters, Tally
from ttlproxy.proxy.redis_connection import Backend, Send
from ttlproxy.proxy.reply_queue import ReplyQueue
from ttlproxy.proxy.round_trips import RoundTrips
from ttlproxy.proxy.staggered_closes import StaggeredCloses
from ttlproxy.proxy.write_batch import Write, WriteBatch


class Frontend:
    """A client as its connection to Redis sees it. full: whether Redis does not keep up"""

    takes = None

    def __init__(self) -> None:
        self.replies = bytearray()
        self.write: Write = self._take
        self._changed = asyncio.Event()
        self.ended = asyncio.Event()
        self.is_full = False

    def _take(self, data: bytes) -> None:
        self.replies += data
        self._changed.set()

    async def gets(self, replies: bytes) -> None:
        """Ends when these have come, and fails if others have."""
        while len(self.replies) < len(replies):
            await self.changes()
        assert self.replies == replies
        self.replies.clear()

    async def changes(self) -> None:
        self._changed.clear()
        await self._changed.wait()

    @property
    def is_plain(self) -> bool:
        return True

    def queue(self) -> ReplyQueue:
        return ReplyQueue(self.write)

    def send_by(self, send: Send) -> None:
        self.to_redis = send

    def full(self, is_full: bool) -> None:
        self.is_full = is_full
        self._changed.set()

    def end(self) -> None:
        self.ended.set()


Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@asynccontextmanager
async def connected() -> AsyncIterator[tuple[Frontend, Backend, Streams]]:
    """A client, its connection to Redis, and Redis's end of that."""
    loop, accepted = asyncio.get_running_loop(), asyncio.Queue[Streams]()

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        accepted.put_nowait((reader, writer))

    async with await asyncio.start_server(accept, "127.0.0.1", 0) as listening:
        client = Frontend()
        trips = RoundTrips(Counters(), dict)
        backend = Backend(client, WriteBatch(), StaggeredCloses(), trips, Tally(), Connections(), 0)
        await loop.create_connection(lambda: backend, *listening.sockets[0].getsockname())
        reader, writer = await accepted.get()
        try:
            yield client, backend, (reader, writer)
        finally:
            writer.close()
            backend.close()


@asynccontextmanager
async def socket_pair() -> AsyncIterator[tuple[asyncio.Transport, Streams]]:
    """A client's transport, as the proxy has it, and the client's end."""
    loop, accepted = asyncio.get_running_loop(), asyncio.Queue[Streams]()

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        accepted.put_nowait((reader, writer))

    async with await asyncio.start_server(accept, "127.0.0.1", 0) as listening:
        transport, _ = await loop.create_connection(
            asyncio.Protocol, *listening.sockets[0].getsockname()
        )
        reader, writer = await accepted.get()
        with closing(writer), closing(transport) as proxy_side:
            yield proxy_side, (reader, writer)
