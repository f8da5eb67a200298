"""How far a connection has come, as the system knows it. Reads no byte, and knows no protocol."""

from __future__ import annotations

import fcntl
import socket
import struct
import sys
import termios
from typing import Final

# Of Linux's struct tcp_info: segments that the other end has not acknowledged; bytes that it has,
# and bytes that have come from it; bytes that were not sent yet.
_UNACKED: Final = struct.Struct("=24xI")
_BYTES: Final = struct.Struct("=120xQQ")
_NOT_SENT: Final = struct.Struct("=144xI")
_LENGTH: Final = 148
_LINUX: Final = sys.platform == "linux"

Progress = tuple[int, int]


def progress(connection: socket.socket) -> Progress | None:
    """Bytes that the other end has, and that have come from it; None while some are on their way.

    Of a unix socket both are 0, and None while the other end has not read all. Both are 0 as well
    where the system does not tell. Raises OSError.
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
    """Bytes that have come from the other end, whether read or not; 0 where that is not told.

    That is of a unix socket, and where the system does not tell. Raises OSError.
    """
    info = None if connection.family == socket.AF_UNIX else _info(connection)
    return 0 if info is None else int(_BYTES.unpack_from(info)[1])


def _info(connection: socket.socket) -> bytes | None:
    """What Linux knows of a TCP connection."""
    if not _LINUX:
        return None
    info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
    return info if len(info) >= _LENGTH else None


def _unread(connection: socket.socket) -> int:
    """Bytes of a unix socket that the other end has not read."""
    if not _LINUX:
        return 0
    count = fcntl.ioctl(connection.fileno(), termios.TIOCOUTQ, bytes(4))
    return int.from_bytes(count, sys.byteorder)
