"""A client for raw bytes. Knows where a reply ends, but not what it means."""

import socket
import time
from collections.abc import Callable

TIMEOUT_S = 30.0
RECEIVE_BYTES = 1 << 20


def command(*words: bytes | str | int) -> bytes:
    """One request as an array of bulk strings."""
    encoded = [word if isinstance(word, bytes) else str(word).encode() for word in words]
    bulks = b"".join(b"$%d\r\n%b\r\n" % (len(word), word) for word in encoded)
    return b"*%d\r\n%b" % (len(encoded), bulks)


class Framer:
    """Cuts a stream into RESP2 or RESP3 replies; a push is a reply of its own.

    Redis before 7.2 may put a push between the elements of a reply: it does not count as an
    element.
    """

    def __init__(self) -> None:
        self._data = bytearray()
        self._start = 0  # of the outermost reply
        self._at = 0
        self._wanted = 1  # replies still needed until the outermost one is complete

    @property
    def rest(self) -> bytes:
        return bytes(self._data)

    def feed(self, data: bytes) -> list[bytes]:
        """The replies that are complete now."""
        self._data += data
        replies = []
        while (after := self._step()) is not None:
            self._at = after
            if self._wanted == 0:
                replies.append(bytes(self._data[self._start : after]))
                self._start = after
                self._wanted = 1
        del self._data[: self._start]
        self._at -= self._start
        self._start = 0
        return replies

    def _step(self) -> int | None:
        """The position behind the next line and its bulk, or None if they are incomplete."""
        line_end = self._data.find(b"\r\n", self._at)
        if line_end < 0:
            return None
        kind = self._data[self._at : self._at + 1]
        after = line_end + 2
        if kind in b"+-:,#(_":
            self._wanted -= 1
            return after
        count = int(self._data[self._at + 1 : line_end])
        if kind in b"$!=":
            after += count + 2 if count >= 0 else 0
            if after > len(self._data):
                return None
            self._wanted -= 1
            return after
        if kind not in b"*~%>|":
            raise ValueError(f"no reply starts with {bytes(self._data[self._at : line_end])!r}")
        is_extra = kind == b"|" or (kind == b">" and self._at > self._start)
        self._wanted += max(count, 0) * (2 if kind in b"%|" else 1) - (0 if is_extra else 1)
        return after


class Connection:
    """One blocking TCP connection. A wait that takes too long is a TimeoutError."""

    def __init__(
        self,
        port: int,
        timeout_s: float = TIMEOUT_S,
        wrapped: Callable[[socket.socket], socket.socket] = lambda plain: plain,
        host: str = "127.0.0.1",
    ) -> None:
        """`wrapped`: makes a replacement for the connected socket, for example with TLS."""
        plain = socket.create_connection((host, port), timeout_s)
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket = wrapped(plain)
        self._framer = Framer()
        self._replies: list[bytes] = []
        self._opened_s = time.monotonic()

    @property
    def age_s(self) -> float:
        return time.monotonic() - self._opened_s

    def __enter__(self) -> "Connection":
        return self

    def __exit__(self, *trouble: object) -> None:
        self.close()

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def ask(self, *words: bytes | str | int) -> bytes:
        """Sends one command and reads one reply."""
        self.send(command(*words))
        return self.read()

    def read(self) -> bytes:
        return self.read_many(1)[0]

    def read_many(self, count: int) -> list[bytes]:
        """Reads so many replies, pushes included; EOFError if the other end closes first."""
        while len(self._replies) < count:
            data = self.socket.recv(RECEIVE_BYTES)
            if not data:
                seen = f"{self._replies!r:.1000} and {self._framer.rest!r:.1000}"
                raise EOFError(f"closed after {seen}")
            self._replies += self._framer.feed(data)
        replies, self._replies = self._replies[:count], self._replies[count:]
        return replies

    def read_to_end(self) -> bytes:
        """Every byte until the other end closes, whether replies are complete or not."""
        received = [*self._replies, self._framer.rest]
        self._replies, self._framer = [], Framer()
        while data := self.socket.recv(RECEIVE_BYTES):
            received.append(data)
        return b"".join(received)

    def half_close(self) -> None:
        """Ends the sending direction; replies can still be read."""
        self.socket.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        self.socket.close()


def listens(port: int) -> bool:
    """Whether connections are accepted there."""
    try:
        Connection(port).close()
    except OSError:
        return False
    return True
