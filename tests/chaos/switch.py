"""A TCP relay whose target can be changed while connections stay where they are. Knows bytes only.

As a name or a virtual address that moves: who connects anew gets to the new server.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from random import Random
from types import TracebackType

_CHUNK = 1 << 16
_RESET = struct.pack("ii", 1, 0)  # SO_LINGER: close sends RST
_CONNECT_S = 5.0


class _Pair:
    """A client's connection, and the one to the server that goes with it."""

    def __init__(self, client: socket.socket, server: socket.socket) -> None:
        self.ends = (client, server)
        self.is_reset = False

    def reset(self) -> None:
        self.is_reset = True
        for end in self.ends:
            with contextlib.suppress(OSError):
                end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
                end.shutdown(socket.SHUT_RD)  # wakes the thread that reads

    def copy(self, source: socket.socket, sink: socket.socket) -> None:
        try:
            while data := source.recv(_CHUNK):
                sink.sendall(data)
            if not self.is_reset:
                sink.shutdown(socket.SHUT_WR)
        except OSError:  # one end was reset, so the other is: who waits for a reply must hear of it
            self.reset()

    def run(self) -> None:
        """Until both directions have ended."""
        client, server = self.ends
        other = threading.Thread(target=self.copy, args=(server, client), daemon=True)
        other.start()
        self.copy(client, server)
        other.join()
        for end in self.ends:
            end.close()


class Switch:
    """Relays from its own port to that of `target`; each connection has two threads."""

    def __init__(self, target: int) -> None:
        self.target = target
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=256)
        self.port: int = self._listener.getsockname()[1]
        self._pairs: set[_Pair] = set()
        self._lock = threading.Lock()

    def __enter__(self) -> Switch:
        threading.Thread(target=self._accept, name="switch", daemon=True).start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop_accepting()
        self.reset(1.0, Random(0))

    def stop_accepting(self) -> None:
        """Nobody can connect any more; what is connected stays."""
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def reset(self, part: float, chance: Random) -> int:
        """Resets about this part of all connections, on both sides; gives how many."""
        with self._lock:
            pairs = [pair for pair in self._pairs if chance.random() < part]
        for pair in pairs:
            pair.reset()
        return len(pairs)

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except ConnectionError:
                continue  # who came has gone
            except OSError:
                return  # the listener was closed
            threading.Thread(target=self._connect, args=(client,), daemon=True).start()

    def _connect(self, client: socket.socket) -> None:
        try:
            server = socket.create_connection(("127.0.0.1", self.target), _CONNECT_S)
        except OSError:
            client.close()
            return
        server.settimeout(None)
        for end in (client, server):
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        pair = _Pair(client, server)
        with self._lock:
            self._pairs.add(pair)
        pair.run()
        with self._lock:
            self._pairs.discard(pair)
