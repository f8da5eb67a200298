"""The network in front of a server, as a TCP relay: it delays, resets and moves connections.

One thread relays all connections, in the order in which the kernel reports data. So bytes that a
server sends first, on any connection, arrive first, as without a relay. A proxy relies on that: an
announcement must not arrive after replies that were sent later.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
import threading
from collections.abc import Callable
from random import Random
from typing import Final

_MOST: Final = 1 << 16
_RESET: Final = struct.pack("ii", 1, 0)  # SO_LINGER: close sends RST


class NetworkPath:
    """Leads to a server; `with NetworkPath(port) as path: ... path.port`; runs in a thread.

    target: the port to which new connections lead, as with a name or an address that moves
    """

    def __init__(self, target: int, *, delay_s: float = 0.0) -> None:
        self.target = target
        self._delays_s = delay_s, delay_s
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=256)
        self.port: int = self._listener.getsockname()[1]
        self._pairs = set[_Pair]()
        self._chance = Random(self.port)
        self._loop = asyncio.new_event_loop()
        self._is_over = asyncio.Event()
        self._thread = threading.Thread(target=self._run, name="network path")

    def __enter__(self) -> NetworkPath:
        self._thread.start()
        return self

    def __exit__(self, *trouble: object) -> None:
        self._loop.call_soon_threadsafe(self._is_over.set)
        self._thread.join()

    def delay(self, least_s: float, most_s: float) -> None:
        """From now on each direction of each connection has a delay of its own between these."""
        self._loop.call_soon_threadsafe(self._delay, least_s, most_s)

    def reset(self, part: float, chance: Random) -> int:
        """Resets about this part of all connections, on both sides; returns how many."""
        return asyncio.run_coroutine_threadsafe(self._reset(part, chance), self._loop).result()

    def _run(self) -> None:
        self._loop.run_until_complete(self._serve())
        self._loop.close()

    async def _serve(self) -> None:
        server = await asyncio.start_server(self._accept, sock=self._listener)
        await self._is_over.wait()
        # Python 3.11 never closes what it is accepting while the server is closed.
        self._loop.remove_reader(self._listener)
        await asyncio.sleep(0)
        server.close()
        for pair in self._pairs:
            pair.abort()
        while others := asyncio.all_tasks() - {asyncio.current_task()}:
            # One that accepts a connection still makes another, which serves it.
            await asyncio.gather(*others, return_exceptions=True)
        await asyncio.sleep(0)  # transports that were aborted close their sockets now

    async def _reset(self, part: float, chance: Random) -> int:
        chosen = [pair for pair in self._pairs if chance.random() < part]
        for pair in chosen:
            pair.reset()
        await asyncio.sleep(0)  # their sockets are closed now
        return len(chosen)

    def _delay(self, least_s: float, most_s: float) -> None:
        self._delays_s = least_s, most_s
        for pair in self._pairs:
            for way in pair.ways:
                way.delay_s = self._chance.uniform(least_s, most_s)

    async def _accept(self, client: asyncio.StreamReader, to_client: asyncio.StreamWriter) -> None:
        try:
            server, to_server = await asyncio.open_connection("127.0.0.1", self.target)
        except OSError:
            to_client.transport.abort()
            return
        requests, replies = (
            _Way(sink, self._chance.uniform(*self._delays_s)) for sink in (to_server, to_client)
        )
        self._pairs.add(pair := _Pair(requests, replies))
        if self._is_over.is_set():
            pair.abort()
        try:
            await asyncio.gather(_copy(client, requests), _copy(server, replies))
            pair.close()
        except OSError:  # one end was reset: reset the other, which may wait for a reply
            pair.reset()
        finally:
            self._pairs.discard(pair)


class _Pair:
    """Both directions of a connection."""

    def __init__(self, *ways: _Way) -> None:
        self.ways = ways

    def close(self) -> None:
        for way in self.ways:
            way.sink.close()

    def abort(self) -> None:
        for way in self.ways:
            way.sink.transport.abort()

    def reset(self) -> None:
        for way in self.ways:
            with contextlib.suppress(OSError):
                end = way.sink.get_extra_info("socket")
                end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        self.abort()


class _Way:
    """One direction of a connection, which keeps the order of what passes."""

    def __init__(self, sink: asyncio.StreamWriter, delay_s: float) -> None:
        self.sink = sink
        self.delay_s = delay_s
        self._loop = asyncio.get_running_loop()
        self._under_way = 0
        self._last_s = 0.0

    async def send(self, data: bytes) -> None:
        """Ends when the sink takes more, or at once where there is a delay."""
        if self.delay_s or self._under_way:
            self._later(self.sink.write, data)
        else:
            self.sink.write(data)
            await self.sink.drain()

    async def end(self) -> None:
        """Ends when the sink has been told that no more comes."""
        has_arrived = asyncio.Event()
        self._later(has_arrived.set)
        await has_arrived.wait()
        if not self.sink.is_closing():
            self.sink.write_eof()

    def _later(self, do: Callable[..., object], *arguments: object) -> None:
        """After the delay, but never when anything else arrives: the event loop does not keep the
        order of what is to be done at the same time."""
        self._last_s = max(self._last_s + 1e-6, self._loop.time() + self.delay_s)
        self._under_way += 1
        self._loop.call_at(self._last_s, self._arrive, do, arguments)

    def _arrive(self, do: Callable[..., object], arguments: tuple[object, ...]) -> None:
        self._under_way -= 1
        do(*arguments)


async def _copy(source: asyncio.StreamReader, way: _Way) -> None:
    while data := await source.read(_MOST):
        await way.send(data)
    await way.end()
