"""A TCP relay that delays what passes, in each direction and in order: a longer way to Redis."""

from __future__ import annotations

import asyncio
import socket
import threading
from random import Random
from types import TracebackType
from typing import Final

_MOST: Final = 65536


class FarRelay:
    """`with FarRelay(port, delay_s) as relay: ... relay.port`; runs in a thread.

    port: that of the relay; target: the port to which new connections lead
    """

    def __init__(self, target: int, delay_s: float = 0.0) -> None:
        self.target = target
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=256)
        self.port: int = self._listener.getsockname()[1]
        self._writers = set[asyncio.StreamWriter]()
        self._ways = set[_Way]()
        self._delays_s = delay_s, delay_s
        self._chance = Random(self.port)
        self._loop = asyncio.new_event_loop()
        self._is_over = asyncio.Event()
        self._thread = threading.Thread(target=self._run, name="far relay")

    def __enter__(self) -> FarRelay:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        trouble: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._loop.call_soon_threadsafe(self._is_over.set)
        self._thread.join()

    def delay(self, least_s: float, most_s: float) -> None:
        """From now on each direction of each connection has a delay of its own between these."""
        self._loop.call_soon_threadsafe(self._delay, least_s, most_s)

    def _delay(self, least_s: float, most_s: float) -> None:
        self._delays_s = least_s, most_s
        for way in self._ways:
            way.delay_s = self._chance.uniform(least_s, most_s)

    def _run(self) -> None:
        self._loop.run_until_complete(self._serve())
        self._loop.close()

    async def _serve(self) -> None:
        server = await asyncio.start_server(self._accept, sock=self._listener)
        await self._is_over.wait()
        server.close()
        for writer in self._writers:
            writer.transport.abort()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        await asyncio.gather(*others, return_exceptions=True)
        await asyncio.sleep(0)  # transports that were aborted close their sockets now

    async def _accept(self, client: asyncio.StreamReader, to_client: asyncio.StreamWriter) -> None:
        try:
            server, to_server = await asyncio.open_connection("127.0.0.1", self.target)
        except OSError:
            to_client.transport.abort()
            return
        ends = {to_client, to_server}
        self._writers |= ends
        try:
            await asyncio.gather(self._copy(client, to_server), self._copy(server, to_client))
        finally:
            self._writers -= ends

    async def _copy(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        way = _Way(self._chance.uniform(*self._delays_s))
        self._ways.add(way)
        try:
            while data := await source.read(_MOST):
                self._loop.call_at(way.arrives_s(self._loop.time()), sink.write, data)
        except OSError:
            pass
        finally:
            self._ways.discard(way)
            self._loop.call_at(way.arrives_s(self._loop.time()), sink.close)


class _Way:
    """One direction of a connection, which keeps the order of what passes."""

    def __init__(self, delay_s: float) -> None:
        self.delay_s = delay_s
        self._last_s = 0.0

    def arrives_s(self, now_s: float) -> float:
        """When what is sent now arrives: never when anything else does, because the event loop does
        not keep the order of what is to be done at the same time."""
        self._last_s = max(self._last_s + 1e-6, now_s + self.delay_s)
        return self._last_s
