"""A TCP relay whose target can change while its connections stay. Knows bytes only.

It acts like a name or a virtual address that moves: new connections lead to the new server.

One thread relays all connections, in the order in which the kernel reports data. So bytes that a
server sends first, on any connection, arrive first, as without a relay. A proxy relies on that: an
announcement must not arrive after replies that were sent later.
"""

from __future__ import annotations

import contextlib
import selectors
import socket
import struct
import threading
from random import Random
from selectors import EVENT_READ, EVENT_WRITE

_CHUNK = 1 << 16
_RESET = struct.pack("ii", 1, 0)  # SO_LINGER: close sends RST
_CONNECT_S = 5.0


class _End:
    """One of the two ends of a relayed connection.

    other: the opposite end; unsent: bytes from the other end that this one has not taken yet;
    has_ended: it sends no more
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
        """The events to wait for: it reads only if the other end has taken everything."""
        reads = not (self.has_ended or self.other.unsent)
        return EVENT_READ * reads | EVENT_WRITE * bool(self.unsent)

    def receive(self) -> None:
        """Reads data for the other end."""
        data = self.socket.recv(_CHUNK)
        self.has_ended = not data
        self.other.unsent += data

    def send(self) -> None:
        """Sends what is waiting, and then the other end's EOF."""
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
        # A byte here wakes the thread.
        self._waker, self._woken = socket.socketpair()
        self._selector.register(self._woken, EVENT_READ)
        self._thread = threading.Thread(target=self._run, name="switch", daemon=True)
        self._clients: set[_End] = set()
        self._lock = threading.Lock()  # guards everything except the wait
        self._is_over = False

    def __enter__(self) -> Switch:
        self._thread.start()
        return self

    def __exit__(self, *trouble: object) -> None:
        self.stop_accepting()
        self.reset(1.0, Random(0))
        self._is_over = True
        self._waker.send(b"!")
        self._thread.join()
        self._selector.close()
        self._waker.close()
        self._woken.close()

    def stop_accepting(self) -> None:
        """New connections are refused; existing ones stay."""
        with self._lock:
            self._ignore(self._listener)
            self._listener.close()

    def reset(self, part: float, chance: Random) -> int:
        """Resets about this part of all connections, on both sides; returns how many."""
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
            return  # the client has gone, or the listener is closed
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
        except OSError:  # one end was reset: reset the other, which may wait for a reply
            self._reset(end)
            return
        if all(each.has_ended and not each.unsent for each in (end, end.other)):
            self._close(end)
        else:
            self._watch(end)
            self._watch(end.other)

    def _watch(self, end: _End) -> None:
        """Waits for the events that are possible at this end now."""
        known, events = self._selector.get_map().get(end.socket), end.events
        if known is None:
            if events:
                self._selector.register(end.socket, events, end)
        elif not events:
            self._selector.unregister(end.socket)
        elif known.events != events:
            self._selector.modify(end.socket, events, end)

    def _ignore(self, one: socket.socket) -> None:
        with contextlib.suppress(KeyError, ValueError):  # it is not registered, or it is closed
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
