"""A member of a fleet that replays the recorded start of a proxy, also after each loss."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final, cast

from tests.bench.fleet.recording import Recording
from ttlproxy.link.connecting.connections import stagger_s
from ttlproxy.link.life import link
from ttlproxy.net.tasks import Task, cancel

# Asked for after each request, so that its reply tells that all others are there.
_MARK: Final = b"fleet:replayed"
_ASKED: Final = b"*2\r\n$4\r\nPING\r\n$%d\r\n%b\r\n" % (len(_MARK), _MARK)
_HEALTHY_S: Final = 1.0


class Replayed:
    """Keeps the connections that were open at the end of the recording, and ignores what comes.

    It waits between two attempts as a link does.
    """

    def __init__(self, port: int, recording: Recording, all_of_them: Sequence[Replayed]) -> None:
        """`all_of_them`: the members that replay, this one among them."""
        self._port = port
        self._recording = recording
        self._steps = recording.start
        self._all = all_of_them
        self._ready = asyncio.Event()
        self._running: Task | None = None

    @property
    def serves(self) -> bool:
        return self._ready.is_set()

    @property
    def has_begun(self) -> bool:
        return self._running is not None

    def start(self) -> None:
        self._steps = self._recording.start
        self._running = asyncio.create_task(self._run(), name="replayed")

    async def until_serving(self) -> None:
        await self._ready.wait()

    async def stop(self) -> None:
        if self._running is not None:
            await cancel(self._running)
            self._running = None

    async def _run(self) -> None:
        """Starts, and starts again after a loss when a link would."""
        failures, loop = 0, asyncio.get_running_loop()
        await asyncio.sleep(stagger_s(sum(member.has_begun for member in self._all) - 1))
        while True:
            began_s, connections = loop.time(), dict[int, _Connection]()
            try:
                await self._replay(connections)
                self._ready.set()
                self._steps, served = self._recording.again, True
                await next(iter(connections.values())).lost.wait()
            except OSError:
                served = False
            finally:
                self._ready.clear()
                for each in connections.values():
                    each.close()
            was_healthy = served and loop.time() - began_s > _HEALTHY_S
            failures = 0 if was_healthy else failures + 1
            if failures:
                await asyncio.sleep(link._BACKOFF.compute(failures))
            await asyncio.sleep(stagger_s(len(self._all)))

    async def _replay(self, connections: dict[int, _Connection]) -> None:
        loop = asyncio.get_running_loop()
        for number, sent in self._steps:
            if number not in connections:
                _, connections[number] = await loop.create_connection(
                    _Connection, "127.0.0.1", self._port
                )
            if sent is None:
                connections.pop(number).close()
            else:
                await connections[number].ask(sent)


class _Connection(asyncio.Protocol):
    """lost: set when Redis, or this end, has closed it"""

    def __init__(self) -> None:
        self.lost = asyncio.Event()
        self._transport: asyncio.WriteTransport | None = None
        self._answered: asyncio.Future[None] | None = None
        self._tail = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.WriteTransport, transport)  # uvloop's is none

    def data_received(self, data: bytes) -> None:
        if self._answered is None or self._answered.done():
            return  # an announcement
        if _MARK in self._tail + data:
            self._tail = b""
            self._answered.set_result(None)
        else:
            self._tail = data[-len(_MARK) :]

    def connection_lost(self, trouble: Exception | None) -> None:
        self.lost.set()
        if self._answered is not None and not self._answered.done():
            self._answered.set_exception(ConnectionResetError("Redis has closed a connection"))

    async def ask(self, requests: bytes) -> None:
        """Returns when all replies are there. Raises OSError."""
        if self.lost.is_set() or self._transport is None:
            raise ConnectionResetError("Redis has closed a connection")
        self._answered = asyncio.get_running_loop().create_future()
        self._transport.write(requests + _ASKED)
        await self._answered

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()
