"""How many bytes the kernel says a connection has carried. Reads none, and knows no protocol."""

from __future__ import annotations

import fcntl
import socket
import struct
import sys
import termios
from typing import Final

# In Linux's struct tcp_info: segments that the peer has not acknowledged; bytes that it has
# acknowledged, and bytes received from it; bytes that were not sent yet.
_UNACKED: Final = struct.Struct("=24xI")
_BYTES: Final = struct.Struct("=120xQQ")
_NOT_SENT: Final = struct.Struct("=144xI")
_LENGTH: Final = 148
_LINUX: Final = sys.platform == "linux"

Progress = tuple[int, int]


def progress(connection: socket.socket) -> Progress | None:
    """(bytes that the peer has, bytes received from it); None while some are on their way to it.

    Unix socket: (0, 0), or None while the peer has not read all. Also (0, 0) if the system does not
    know. Raises OSError.
    """
    if connection.family == socket.AF_UNIX:
        return None if _unread(connection) else (0, 0)
    info = _info(connection)
    if info is None:
        return 0, 0
    (unacked,), (not_sent,) = _UNACKED.unpack_from(info), _NOT_SENT.unpack_from(info)
    acked, received = _BYTES.unpack_from(info)
    return None if unacked or not_sent else (acked, received)


def received(connection: socket.socket) -> int:
    """Bytes received from the peer, whether read or not.

    0 for a unix socket, or if the system does not know. Raises OSError.
    """
    info = None if connection.family == socket.AF_UNIX else _info(connection)
    return 0 if info is None else int(_BYTES.unpack_from(info)[1])


def _info(connection: socket.socket) -> bytes | None:
    """Linux's struct tcp_info of a connection; None on other systems and old kernels."""
    if not _LINUX:
        return None
    info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
    return info if len(info) >= _LENGTH else None


def _unread(connection: socket.socket) -> int:
    """Bytes in a unix socket that the peer has not read; 0 if the system does not know."""
    if not _LINUX:
        return 0
    count = fcntl.ioctl(connection.fileno(), termios.TIOCOUTQ, bytes(4))
    return int.from_bytes(count, sys.byteorder)
