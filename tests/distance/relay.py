"""A TCP relay that delays what passes, in each direction and in order: a longer way to Redis."""

from __future__ import annotations

import asyncio
import socket
import threading
from types import TracebackType

_MOST = 65536


class FarRelay:
    """`with FarRelay(port, delay_s) as relay: ... relay.port`; runs in a thread."""

    def __init__(self, upstream_port: int, delay_s: float) -> None:
        self._upstream_port = upstream_port
        self._delay_s = delay_s
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._writers: list[asyncio.StreamWriter] = []
        self._loop = asyncio.new_event_loop()
        self._is_over = asyncio.Event()
        self._thread = threading.Thread(target=self._run)

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
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        await asyncio.sleep(0)  # transports that were aborted close their sockets now

    async def _accept(self, client: asyncio.StreamReader, to_client: asyncio.StreamWriter) -> None:
        self._writers.append(to_client)
        server, to_server = await asyncio.open_connection("127.0.0.1", self._upstream_port)
        self._writers.append(to_server)
        await asyncio.gather(self._copy(client, to_server), self._copy(server, to_client))

    async def _copy(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        last_s = 0.0
        try:
            while data := await source.read(_MOST):
                last_s = max(last_s, self._loop.time() + self._delay_s)
                self._loop.call_at(last_s, sink.write, data)
        except OSError:
            pass
        self._loop.call_at(max(last_s, self._loop.time() + self._delay_s), sink.close)
