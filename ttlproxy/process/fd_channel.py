"""Accepted connections, handed by the process that listens to the processes that serve.

The two ends of a Unix socket that keeps messages apart. One way go connections, as descriptors, and
what changes of the settings. The other way goes how many connections have ended, first of all none:
then the process serves; and now and then what that process reports of itself.
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
_REPORT: Final = b"report "
_MESSAGE: Final = 1 << 16  # bytes, more than any message has


def channel() -> tuple[socket.socket, socket.socket]:
    """The sockets for the two ends."""
    ends = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    for end in ends:
        end.setblocking(False)
    return ends


class Sender:
    """The end of the process that listens.

    ready: the other end serves; closed: there is no other end any more; on_report: called with what
    it reports
    """

    def __init__(self, end: socket.socket) -> None:
        self._end = end
        self._given = 0
        self._ended = 0
        self._room = asyncio.Event()  # of all who wait for it
        self.ready = asyncio.Event()
        self.closed = asyncio.Event()
        self.on_report: Callable[[bytes], None] = lambda report: None
        asyncio.get_running_loop().add_reader(end, self._read)

    @property
    def clients(self) -> int:
        """Connections that the other end has."""
        return self._given - self._ended

    def give(self, client: socket.socket) -> bool:
        """Hands a connection over and closes it here; False where the other end takes none now."""
        try:
            socket.send_fds(self._end, [_CLIENT], [client.fileno()])
        except OSError:  # it does not keep up, or is gone
            return False
        client.close()
        self._given += 1
        return True

    def tell(self, settings: bytes) -> bool:
        """Says what has changed of the settings; False where the other end takes nothing now."""
        try:
            self._end.send(_SETTINGS + settings)
        except OSError:  # it does not keep up, or is gone
            return False
        return True

    def finish(self) -> None:
        """No more will come: behind those that were given the other end is told so."""
        with suppress(OSError):  # it is gone
            self._end.shutdown(socket.SHUT_WR)

    async def room(self) -> None:
        """Until the other end may take one again, or is gone."""
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
        elif message:
            self._ended = int(message)
            self.ready.set()
        else:
            asyncio.get_running_loop().remove_reader(self._end)
            self._has_room()
            self._end.close()
            self.closed.set()


class Receiver:
    """The end of a process that serves.

    closed: no more connections come; on_settings: called with what has changed of the settings
    """

    def __init__(self, end: socket.socket, settings: Settings) -> None:
        self._end = end
        self._settings = settings
        self._ended = 0
        self._tells = False
        self._admission: Admission | None = None
        self.on_settings: Callable[[bytes], None] = lambda settings: None
        self.closed = asyncio.Event()

    async def start(self, protocol: ClientProtocol) -> Listen:
        """Says that this process serves; from now on each connection gets its protocol.

        Gives the address that the connections come to.
        """
        self._admission = Admission(protocol, self._settings, self.ended)
        asyncio.get_running_loop().add_reader(self._end, self._read, self._admission)
        self._tell()
        return self._settings.listen

    def stop(self) -> None:
        """Takes no more."""
        asyncio.get_running_loop().remove_reader(self._end)

    def ended(self) -> None:
        """A connection that was taken has ended."""
        self._ended += 1
        if not self._tells:
            self._tells = True
            asyncio.get_running_loop().call_soon(self._tell)

    def report(self, text: bytes) -> None:
        """Says something of this process; not where the other end does not keep up, or is gone."""
        with suppress(OSError):
            self._end.send(_REPORT + text)

    def _tell(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            self._end.send(b"%d" % self._ended)
        except BlockingIOError:
            loop.add_writer(self._end, self._tell)
            return
        except OSError:  # nobody listens any more
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
        elif not descriptors:
            self.ended()  # this process may open no more: the kernel has closed the connection
