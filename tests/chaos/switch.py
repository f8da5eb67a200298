"""A TCP relay whose target can be changed while connections stay where they are. Knows bytes only.

As a name or a virtual address that moves: who connects anew gets to the new server.

One thread relays all connections, in the order in which the kernel says that they have something
to read. So bytes that a server has sent first, on whichever connection, arrive first, as they do
without a relay: a proxy relies on that for announcements, which must not come behind the replies
that were sent after them.
"""

from __future__ import annotations

import contextlib
import selectors
import socket
import struct
import threading
from random import Random
from selectors import EVENT_READ, EVENT_WRITE
from types import TracebackType

_CHUNK = 1 << 16
_RESET = struct.pack("ii", 1, 0)  # SO_LINGER: close sends RST
_CONNECT_S = 5.0


class _End:
    """One of the two ends of a relayed connection.

    other: the opposite end; unsent: what that has sent, and this one has not taken yet; has_ended:
    it sends no more
    """

    other: _End

    def __init__(self, end: socket.socket) -> None:
        end.setblocking(False)
        end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket = end
        self.unsent = b""
        self.has_ended = False

    @property
    def events(self) -> int:
        """What to wait for: nothing is read that the other end does not take."""
        reads = not (self.has_ended or self.other.unsent)
        return EVENT_READ * reads | EVENT_WRITE * bool(self.unsent)

    def receive(self) -> None:
        """Takes what has come, for the other end."""
        data = self.socket.recv(_CHUNK)
        self.has_ended = not data
        self.other.unsent += data

    def send(self) -> None:
        """Passes on what is there, and its end."""
        if self.unsent:
            self.unsent = self.unsent[self.socket.send(self.unsent) :]
        if self.other.has_ended and not self.unsent:
            self.socket.shutdown(socket.SHUT_WR)


class Switch:
    """Relays from its own port to that of `target`."""

    def __init__(self, target: int) -> None:
        self.target = target
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=256)
        self._listener.setblocking(False)
        self.port: int = self._listener.getsockname()[1]
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._listener, EVENT_READ)
        # A byte there makes the thread look at what has changed.
        self._waker, self._woken = socket.socketpair()
        self._selector.register(self._woken, EVENT_READ)
        self._thread = threading.Thread(target=self._run, name="switch", daemon=True)
        self._clients: set[_End] = set()
        self._lock = threading.Lock()  # of all but the wait
        self._is_over = False

    def __enter__(self) -> Switch:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop_accepting()
        self.reset(1.0, Random(0))
        self._is_over = True
        self._waker.send(b"!")
        self._thread.join()
        self._selector.close()
        self._waker.close()
        self._woken.close()

    def stop_accepting(self) -> None:
        """Nobody can connect any more; what is connected stays."""
        with self._lock:
            self._ignore(self._listener)
            self._listener.close()

    def reset(self, part: float, chance: Random) -> int:
        """Resets about this part of all connections, on both sides; gives how many."""
        with self._lock:
            chosen = [client for client in self._clients if chance.random() < part]
            for client in chosen:
                self._reset(client)
        return len(chosen)

    def _run(self) -> None:
        while not self._is_over:
            ready = self._selector.select()
            with self._lock:
                for key, events in ready:
                    if key.fileobj is self._listener:
                        self._accept()
                    elif isinstance(key.data, _End) and key.data.socket.fileno() >= 0:
                        self._relay(key.data, events)

    def _accept(self) -> None:
        try:
            client, _ = self._listener.accept()
        except OSError:
            return  # who came has gone, or nobody is let in any more
        try:
            server = socket.create_connection(("127.0.0.1", self.target), _CONNECT_S)
        except OSError:
            client.close()
            return
        one, other = _End(client), _End(server)
        one.other, other.other = other, one
        self._clients.add(one)
        self._watch(one)
        self._watch(other)

    def _relay(self, end: _End, events: int) -> None:
        try:
            if events & EVENT_READ:
                end.receive()
                end.other.send()
            if events & EVENT_WRITE:
                end.send()
        except BlockingIOError:
            pass
        except OSError:  # one end was reset, so the other is: who waits for a reply must hear of it
            self._reset(end)
            return
        if all(each.has_ended and not each.unsent for each in (end, end.other)):
            self._close(end)
        else:
            self._watch(end)
            self._watch(end.other)

    def _watch(self, end: _End) -> None:
        """Waits for what can happen at this end now."""
        known, events = self._selector.get_map().get(end.socket), end.events
        if known is None:
            if events:
                self._selector.register(end.socket, events, end)
        elif not events:
            self._selector.unregister(end.socket)
        elif known.events != events:
            self._selector.modify(end.socket, events, end)

    def _ignore(self, one: socket.socket) -> None:
        with contextlib.suppress(KeyError, ValueError):  # nobody waits for it, or it is closed
            self._selector.unregister(one)

    def _reset(self, end: _End) -> None:
        for each in (end, end.other):
            with contextlib.suppress(OSError):
                each.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        self._close(end)

    def _close(self, end: _End) -> None:
        self._clients -= {end, end.other}
        for each in (end, end.other):
            self._ignore(each.socket)
            each.socket.close()
