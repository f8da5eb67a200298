"""A TCP relay that cuts data into pieces of a given size. Knows bytes only."""

import contextlib
import socket
import threading
from collections.abc import Callable


class Relay:
    """Stands between a proxy and its Redis; `with Relay(port, size) as relay: ... relay.port`.

    ended: how many directions of connections have ended, as the other end has been told
    sent: how many pieces of data have gone on
    """

    def __init__(
        self,
        upstream_port: int,
        piece: int,
        on_request: Callable[[bytes], None] = lambda data: None,
        on_reply: Callable[[bytes], None] = lambda data: None,
    ) -> None:
        """Both functions get the data of every connection, and hold it back until they return.

        `on_request` gets what the proxy sends, `on_reply` what Redis sends.
        """
        self.ended = self.sent = 0
        self._upstream_port = upstream_port
        self._piece = piece
        self._on_request = on_request
        self._on_reply = on_reply
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._sockets: list[socket.socket] = []
        self._threads: list[threading.Thread] = []

    def __enter__(self) -> "Relay":
        self._spawn(self._accept)
        return self

    def __exit__(self, *trouble: object) -> None:
        for each in (self._listener, *self._sockets):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()
        for each in (self._listener, *self._sockets):
            each.close()

    def _spawn(self, target: Callable[..., None], *arguments: object) -> None:
        thread = threading.Thread(target=target, args=arguments)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):  # the listener was shut down
            while True:
                client, _ = self._listener.accept()
                upstream = socket.create_connection(("127.0.0.1", self._upstream_port))
                self._sockets += [client, upstream]
                client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self._spawn(self._copy, client, upstream, 1 << 16, self._on_request)
                self._spawn(self._copy, upstream, client, self._piece, self._on_reply)

    def _copy(
        self,
        source: socket.socket,
        sink: socket.socket,
        piece: int,
        look: Callable[[bytes], None],
    ) -> None:
        with contextlib.suppress(OSError):  # the other end is closed
            while data := source.recv(1 << 16):
                look(data)
                for start in range(0, len(data), piece):
                    sink.sendall(data[start : start + piece])
                self.sent += 1
        with contextlib.suppress(OSError):
            sink.shutdown(socket.SHUT_WR)
        self.ended += 1


class Gate:
    """From `arm` on, holds back the next piece of data that contains these words, until `release`.

    held: set when such data has come
    """

    def __init__(self, *words: bytes) -> None:
        self._words = words
        self._armed = False
        self.held, self._released = threading.Event(), threading.Event()

    def arm(self) -> None:
        self._armed = True

    def release(self) -> None:
        self._released.set()

    def __enter__(self) -> "Gate":
        return self

    def __exit__(self, *trouble: object) -> None:
        self.release()

    def __call__(self, data: bytes) -> None:
        if self._armed and all(word in data for word in self._words):
            self._armed = False
            self.held.set()
            assert self._released.wait(60)
