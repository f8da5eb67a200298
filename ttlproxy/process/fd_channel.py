"""Passes accepted connections from the process that listens to the processes that serve.

A channel is a Unix socket pair (SOCK_SEQPACKET). The listening process sends connections, as file
descriptors, and changed settings, and asks for details. The serving process sends the number of
ended connections (its first message says that it serves), from time to time a report on itself, and
the details if it was asked.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from ttlproxy.addresses import Listen
from ttlproxy.config import Settings
from ttlproxy.proxy.accept import Admission
from ttlproxy.proxy.client_limit import ClientProtocol

_CLIENT: Final = b"client"
_SETTINGS: Final = b"settings "
_LOOK: Final = b"look"
_REPORT: Final = b"report "
_DETAILS: Final = b"details "
_MESSAGE: Final = 1 << 16  # more bytes than any message has


def channel() -> tuple[socket.socket, socket.socket]:
    """Returns the sockets of the two ends."""
    ends = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    for end in ends:
        end.setblocking(False)
    return ends


def _sent(end: socket.socket, message: bytes) -> bool:
    try:
        end.send(message)
    except OSError:  # the other end is too slow, or gone
        return False
    return True


class FdSender:
    """The end of the process that listens.

    ready: set when the other end serves; closed: set when the other end is gone
    on_report: called with each report; on_details: called with the details that were asked for
    """

    def __init__(self, end: socket.socket) -> None:
        self._end = end
        self._given = 0
        self._ended = 0
        self._room = asyncio.Event()  # shared by all callers of `room`
        self.ready = asyncio.Event()
        self.closed = asyncio.Event()
        self.on_report: Callable[[bytes], None] = lambda report: None
        self.on_details: Callable[[bytes], None] = lambda details: None
        asyncio.get_running_loop().add_reader(end, self._read)

    @property
    def clients(self) -> int:
        """The number of connections that the other end has."""
        return self._given - self._ended

    def give(self, client: socket.socket) -> bool:
        """Sends a connection and closes it here; False if the other end takes none now."""
        try:
            socket.send_fds(self._end, [_CLIENT], [client.fileno()])
        except OSError:  # the other end is too slow, or gone
            return False
        client.close()
        self._given += 1
        return True

    def send_settings(self, settings: bytes) -> bool:
        """Sends changed settings; False if the other end takes nothing now."""
        return _sent(self._end, _SETTINGS + settings)

    def look(self) -> None:
        """Asks for details, unless the other end takes nothing now."""
        _sent(self._end, _LOOK)

    def finish(self) -> None:
        """Tells the other end that no more connections come, after those that were given."""
        with suppress(OSError):  # the other end is gone
            self._end.shutdown(socket.SHUT_WR)

    async def room(self) -> None:
        """Waits until the other end may take a message again, or is gone."""
        if not self.closed.is_set():
            self._room.clear()
            asyncio.get_running_loop().add_writer(self._end, self._has_room)
            await self._room.wait()

    def _has_room(self) -> None:
        asyncio.get_running_loop().remove_writer(self._end)
        self._room.set()

    def _read(self) -> None:
        try:
            message = self._end.recv(_MESSAGE)
        except BlockingIOError:
            return
        except OSError:
            message = b""
        if message.startswith(_REPORT):
            self.on_report(message.removeprefix(_REPORT))
        elif message.startswith(_DETAILS):
            self.on_details(message.removeprefix(_DETAILS))
        elif message:
            self._ended = int(message)
            self.ready.set()
        else:
            asyncio.get_running_loop().remove_reader(self._end)
            self._has_room()
            self._end.close()
            self.closed.set()


class FdReceiver:
    """The end of a process that serves.

    closed: set when no more connections come; on_start: called before it says that this process
    serves
    on_settings: called with changed settings; on_look: called when details are asked for
    """

    def __init__(self, end: socket.socket, settings: Settings) -> None:
        self._end = end
        self._settings = settings
        self._ended = 0
        self._tells = False
        self._admission: Admission | None = None
        self.on_start: Callable[[], None] = lambda: None
        self.on_settings: Callable[[bytes], None] = lambda settings: None
        self.on_look: Callable[[], None] = lambda: None
        self.closed = asyncio.Event()

    async def start(self, protocol: ClientProtocol) -> Listen:
        """Says that this process serves; from now on each connection gets its protocol.

        Returns the address that clients use.
        """
        self._admission = Admission(protocol, self._settings, self.ended)
        asyncio.get_running_loop().add_reader(self._end, self._read, self._admission)
        self.on_start()
        self._tell()
        return self._settings.listen

    def stop(self) -> None:
        """Takes no more connections."""
        asyncio.get_running_loop().remove_reader(self._end)

    def ended(self) -> None:
        """Counts a connection that was taken and has ended."""
        self._ended += 1
        if not self._tells:
            self._tells = True
            asyncio.get_running_loop().call_soon(self._tell)

    def report(self, text: bytes) -> None:
        """Sends a report on this process; drops it if the other end is too slow, or gone."""
        _sent(self._end, _REPORT + text)

    def details(self, text: bytes) -> None:
        """Sends the details that were asked for; drops them as `report` does."""
        _sent(self._end, _DETAILS + text)

    def _tell(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            self._end.send(b"%d" % self._ended)
        except BlockingIOError:
            loop.add_writer(self._end, self._tell)
            return
        except OSError:  # the listening process is gone
            pass
        loop.remove_writer(self._end)
        self._tells = False

    def _read(self, admission: Admission) -> None:
        try:
            message, descriptors, *_ = socket.recv_fds(self._end, _MESSAGE, 1)
        except BlockingIOError:
            return
        except OSError:
            message, descriptors = b"", []
        for descriptor in descriptors:
            client = socket.socket(fileno=descriptor)
            client.setblocking(False)
            admission.admit(client)
        if not message:
            self.stop()
            self.closed.set()
        elif message.startswith(_SETTINGS):
            self.on_settings(message.removeprefix(_SETTINGS))
        elif message == _LOOK:
            self.on_look()
        elif not descriptors:
            self.ended()  # at the limit of open files the kernel has closed the connection
